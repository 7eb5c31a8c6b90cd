// How long a program takes to load, and how much of it is then in memory: 10 000 nodes with the stack traces that torch writes
// (20 MB of JSON), and 500 MB of weights, which must be mapped and stay where they are until a run touches them.
//   bench_load [FILE]     the archive is written to FILE (nbx_bench_load.pt2 in the folder for temporary files), and removed
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nbx/nbx.h"
#include "support/maker.h"

enum { NODES = 10000, WEIGHTS = 500, WEIGHT_BYTES = 1 << 20, TRACE_BYTES = 1200 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static double resident_mb(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file) return 0;
    if (fscanf(file, "%ld %ld", &all, &resident) != 2) resident = 0;
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static bool write_archive(const char *path) {
    program_maker m = {0};
    char *weight = calloc(1, WEIGHT_BYTES), trace[TRACE_BYTES] = "";
    if (!weight) return false;
    while (strlen(trace) < sizeof trace - 128) strcat(trace, "  File \\\"/usr/lib/python3/dist-packages/model/layers.py\\\", line 1234, in forward\\n    x = self.layer(x)\\n");
    program_maker_input(&m, "x", 7, "512,512");
    for (int i = 0; i < WEIGHTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "w%d", i);
        program_maker_weight(&m, name, 7, "512,512", weight, WEIGHT_BYTES);
    }
    for (int i = 0; i < NODES; i++) {
        char result[32], arguments[64];
        snprintf(result, sizeof result, "y%d", i);
        snprintf(arguments, sizeof arguments, i ? "self=y%d other=w%d" : "self=x other=w0", i - 1, i / (NODES / 4) % WEIGHTS);
        program_maker_node(&m, "torch.ops.aten.add.Tensor", result, arguments);
        m.nodes.count -= strlen("\"}}");  // the trace goes on
        maker_add(&m.nodes, "%s\", \"nn_module_stack\": \"L__self__,,model.Model;L__self___layer,layer,model.Layer\"}}", trace);
        if (i + 1 < NODES) maker_add(&m.metas, ", \"%s\": {\"dtype\": 7, \"sizes\": [{\"as_int\": 512}, {\"as_int\": 512}], \"strides\": [{\"as_int\": 512}, {\"as_int\": 1}], "
                            "\"storage_offset\": {\"as_int\": 0}, \"device\": {\"type\": \"cpu\", \"index\": null}, \"layout\": 7, \"requires_grad\": false}", result);
        else program_maker_output(&m, result, 7, "512,512");
    }
    maker_text file = program_maker_finish(&m);
    const bool written = maker_write(path, file.bytes, file.count);
    maker_free(&file);
    free(weight);
    return written;
}

// In a process of its own, so that the memory it took is not counted.
static bool write_elsewhere(const char *path) {
    int status = 1;
    const pid_t child = fork();
    if (child == 0) _exit(write_archive(path) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool measure(nbx_context *ctx, const char *path) {
    double best = -1, resident = 0;
    for (int round = 0; round < 7; round++) {
        const double before = resident_mb(), start = now_ms();
        nbx_program *program;
        if (nbx_program_load(ctx, path, NULL, &program) != NBX_OK) return false;
        const double took = now_ms() - start;
        if (round == 0) resident = resident_mb() - before;
        if (best < 0 || took < best) best = took;
        if (round == 0) {
            nbx_program_plan plan;
            if (nbx_program_plan_memory(ctx, program, NULL, 0, &plan) != NBX_OK) return false;
            printf("weights %.0f MB, mapped %.0f MB, arena %.1f MB, %d commands\n", (double)plan.weight_bytes / 1e6, (double)plan.mapped_bytes / 1e6,
                   (double)plan.arena_bytes / 1e6, plan.commands);
        }
        nbx_program_destroy(program);
    }
    printf("load: %.0f ms, then resident: %.0f MB more (file pages of the JSON included)\n", best, resident);
    return true;
}

int main(int argc, char **argv) {
    char standard[512];
    const char *folder = getenv("TMPDIR");
    snprintf(standard, sizeof standard, "%s/nbx_bench_load.pt2", folder ? folder : "/tmp");
    const char *path = argc > 1 ? argv[1] : standard;
    if (!write_elsewhere(path)) return fprintf(stderr, "%s cannot be written\n", path), 1;
    nbx_context *ctx = nbx_context_create(NULL);
    const bool good = ctx && measure(ctx, path);
    if (ctx && !good) fprintf(stderr, "%s\n", nbx_last_message(ctx));
    nbx_context_destroy(ctx);
    unlink(path);
    return !good;
}
