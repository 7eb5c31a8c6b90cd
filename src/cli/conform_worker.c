// The child: reads files, runs their cases from a given place on, and writes an outcome for each to its parent.
#include "conform.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool send(int out, const outcome *result) {
    const char *at = (const char *)result;
    for (size_t left = sizeof *result; left;) {
        const ssize_t n = write(out, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        left -= (size_t)n;
    }
    return true;
}

static void set_text(char *to, const char *from) { snprintf(to, NAME_BYTES, "%s", from); }

static bool is_wanted(const options *o, const outcome *r) {
    if (!o->only_text) return true;
    return !regexec(&o->only, r->id, 0, NULL, 0) || !regexec(&o->only, r->op, 0, NULL, 0);
}

typedef struct worker {
    const options *options;
    nbx_context *ctx;
    int out;
    progress *progress;
} worker;

static bool run_one(worker *w, const nbx_tensors *arrays, const nbx_json *json, int file, long index) {
    outcome result = {.file = file, .index = index, .dtype = NBX_DTYPE_NONE, .ulp_ours = -1, .ulp_recorded = -1};
    set_text(result.id, nbx_json_string_or(nbx_json_get(json, "id"), "(no id)"));
    set_text(result.op, nbx_json_string_or(nbx_json_get(json, "op"), "(no op)"));
    if (!is_wanted(w->options, &result)) return true;
    memcpy(w->progress->id, result.id, NAME_BYTES);
    memcpy(w->progress->op, result.op, NAME_BYTES);
    w->progress->index = index;
    w->progress->started = seconds_now();
    case_run(w->options, w->ctx, arrays, json, &result);
    w->progress->started = 0;
    return send(w->out, &result);
}

static bool file_problem(worker *w, int file, const char *message) {
    outcome result = {.verdict = VERDICT_MALFORMED, .file = file, .index = -1};
    set_text(result.id, w->options->files[file]);
    snprintf(result.message, sizeof result.message, "%s", message);
    nbx_clear_error(w->ctx);
    return send(w->out, &result);
}

static bool run_cases(worker *w, const nbx_tensors *arrays, const nbx_json *root, int file, long from) {
    const nbx_json *cases = nbx_json_get(root, "cases");
    if (nbx_json_int_or(nbx_json_get(root, "format"), 0) != 1) return file_problem(w, file, "nbx_cases: format 1 is known");
    if (!nbx_json_is(cases, NBX_JSON_ARRAY)) return file_problem(w, file, "nbx_cases: no list of cases");
    for (long i = from; i < (long)cases->count; i++) {
        if (i % w->options->every) continue;
        if (!run_one(w, arrays, &cases->as.items[i], file, i)) return false;
    }
    return true;
}

static bool run_file(worker *w, int file, long from) {
    const char *path = w->options->files[file];
    nbx_tensors *arrays;
    if (nbx_tensors_load(w->ctx, path, &arrays)) return file_problem(w, file, nbx_last_message(w->ctx));
    const char *text = nbx_tensors_metadata(arrays, "nbx_cases");
    bool ok;
    if (!text) {
        ok = file_problem(w, file, "no metadata key nbx_cases");
    } else {
        nbx_json_document *document = nbx_json_create(w->ctx, "nbx_cases", text, strlen(text));
        ok = document ? run_cases(w, arrays, nbx_json_root(document), file, from) : file_problem(w, file, nbx_last_message(w->ctx));
        nbx_json_destroy(document);
    }
    nbx_tensors_destroy(arrays);
    return ok;
}

int worker_run(const options *o, int file, long index, int out, progress *p) {
    const size_t ceiling = o->mutate ? (size_t)512 << 20 : 0;  // absurd sizes are asked for
    const nbx_options context_options = {.device = o->device, .threads = o->threads, .isa = o->isa, .memory_ceiling = ceiling};
    worker w = {.options = o, .ctx = nbx_context_create(&context_options), .out = out, .progress = p};
    if (!w.ctx) {
        const char *problem = nbx_device_problem(o->device);
        fprintf(stderr, "nbx-conform: no context: %s\n", problem ? problem : "out of memory");
        return 2;
    }
    bool ok = true;
    for (; file < o->file_count && ok; file++, index = 0) {
        p->index = -1;
        p->file = file;
        ok = run_file(&w, file, index);
    }
    nbx_context_destroy(w.ctx);
    return ok ? 0 : 2;
}
