// nbx-conform: runs golden cases (docs: tests/golden) through the boxed call and compares. The cases run in a child process;
// when one crashes or hangs it has failed, and another child goes on behind it.
#include "conform.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: nbx-conform FILE... [options]\n"
    "\n"
    "Runs the golden cases in FILEs (.safetensors with the metadata key nbx_cases) and compares with the recorded results.\n"
    "\n"
    "  --device cpu|cuda[:N]  device under test (cpu)\n"
    "  --only REGEX           only cases whose id or operator matches, such as '^aten::add'\n"
    "  --threads N            CPU threads (all that the process may use)\n"
    "  --isa NAME             baseline, avx2 or avx512 (the best there is)\n"
    "  --skip-missing         cases of operators that are not available are skipped, not failed\n"
    "  --json FILE            every case, and per operator the largest errors, as JSON\n"
    "  --hashes FILE          a hash of every case's results, to compare two runs bit for bit\n"
    "  --timeout SECONDS      for one case (60)\n"
    "  --mutate N             instead of comparing, N calls of each case with arguments changed at random: none may crash\n"
    "  --seed N               for --mutate\n"
    "  --fail-allocations     instead of comparing, every allocation of each call fails in turn: nothing may be lost\n"
    "  --every N              only each N-th case of a file\n"
    "  --in-process           no child process: for debuggers\n"
    "  --verbose              skipped cases, and a table per operator\n"
    "\n"
    "Exit status: 0 all passed, 1 some failed, 2 usage, 3 a file or case is malformed.\n";

enum { OPTION_DEVICE = 256, OPTION_ONLY, OPTION_THREADS, OPTION_ISA, OPTION_SKIP, OPTION_JSON, OPTION_HASHES, OPTION_TIMEOUT, OPTION_IN_PROCESS, OPTION_MUTATE, OPTION_SEED,
       OPTION_FAIL, OPTION_EVERY };

static const struct option long_options[] = {
    {"device", required_argument, NULL, OPTION_DEVICE},   {"only", required_argument, NULL, OPTION_ONLY},
    {"threads", required_argument, NULL, OPTION_THREADS}, {"isa", required_argument, NULL, OPTION_ISA},
    {"skip-missing", no_argument, NULL, OPTION_SKIP},     {"json", required_argument, NULL, OPTION_JSON},
    {"hashes", required_argument, NULL, OPTION_HASHES},   {"timeout", required_argument, NULL, OPTION_TIMEOUT},
    {"in-process", no_argument, NULL, OPTION_IN_PROCESS}, {"verbose", no_argument, NULL, 'v'},
    {"mutate", required_argument, NULL, OPTION_MUTATE},   {"seed", required_argument, NULL, OPTION_SEED},
    {"fail-allocations", no_argument, NULL, OPTION_FAIL}, {"every", required_argument, NULL, OPTION_EVERY},
    {"help", no_argument, NULL, 'h'},                     {NULL, 0, NULL, 0},
};

static bool read_positive(const char *text, int *number) {
    char *end;
    const long value = strtol(text, &end, 10);
    if (!*text || *end || value < 0 || value > 100000) {
        fprintf(stderr, "nbx-conform: '%s' is no number that fits here\n", text);
        return false;
    }
    *number = (int)value;
    return true;
}

static bool read_option(options *o, int option) {
    switch (option) {
    case OPTION_DEVICE:
        if (nbx_device_parse(optarg, &o->device)) return true;
        fprintf(stderr, "nbx-conform: '%s' is no device\n", optarg);
        return false;
    case OPTION_ONLY:
        if (o->only_text) regfree(&o->only);
        o->only_text = regcomp(&o->only, optarg, REG_EXTENDED | REG_NOSUB) ? NULL : optarg;
        if (!o->only_text) fprintf(stderr, "nbx-conform: '%s' is no regular expression\n", optarg);
        return o->only_text != NULL;
    case OPTION_THREADS: return read_positive(optarg, &o->threads);
    case OPTION_TIMEOUT: return read_positive(optarg, &o->timeout_s);
    case OPTION_MUTATE: return read_positive(optarg, &o->mutate);
    case OPTION_SEED: o->seed = strtoull(optarg, NULL, 10); return true;
    case OPTION_FAIL: o->fail_allocations = true; return true;
    case OPTION_EVERY: return read_positive(optarg, &o->every) && o->every > 0;
    case OPTION_ISA: o->isa = optarg; return true;
    case OPTION_SKIP: o->skip_missing = true; return true;
    case OPTION_JSON: o->json_path = optarg; return true;
    case OPTION_HASHES: o->hash_path = optarg; return true;
    case OPTION_IN_PROCESS: o->in_process = true; return true;
    case 'v': o->verbose = true; return true;
    default: return false;
    }
}

// ------------------------------------------------------------------------------------------------------- the children
typedef struct child {
    pid_t pid;
    int in;
} child;

static bool start_child(const options *o, int file, long index, progress *p, child *out) {
    int ends[2];
    if (pipe(ends)) return false;
    fflush(NULL);
    out->pid = fork();
    if (out->pid < 0) return false;
    if (!out->pid) {
        close(ends[0]);
        _exit(worker_run(o, file, index, ends[1], p));
    }
    close(ends[1]);
    out->in = ends[0];
    return true;
}

// 1: an outcome came; 0: the child has ended; -1: a case has taken too long.
static int next_outcome(const options *o, const progress *p, int in, outcome *result) {
    size_t have = 0;
    while (have < sizeof *result) {
        struct pollfd wait_for = {.fd = in, .events = POLLIN};
        const int ready = poll(&wait_for, 1, 500);
        if (ready < 0 && errno != EINTR) return 0;
        if (ready <= 0) {
            const double started = p->started;
            if (started > 0 && seconds_now() - started > o->timeout_s) return -1;
            continue;
        }
        const ssize_t n = read(in, (char *)result + have, sizeof *result - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        have += (size_t)n;
    }
    return 1;
}

static void add_death(report *r, const progress *p, int status, bool too_long, int timeout_s) {
    outcome result = {.verdict = VERDICT_FAILED, .file = p->file, .index = p->index, .dtype = NBX_DTYPE_NONE, .ulp_ours = -1, .ulp_recorded = -1};
    memcpy(result.id, p->id, NAME_BYTES);
    memcpy(result.op, p->op, NAME_BYTES);
    if (too_long) snprintf(result.message, sizeof result.message, "still running after %d seconds", timeout_s);
    else if (WIFSIGNALED(status)) snprintf(result.message, sizeof result.message, "crashed: %s", strsignal(WTERMSIG(status)));
    else snprintf(result.message, sizeof result.message, "the process ended with status %d", WEXITSTATUS(status));
    report_add(r, &result);
}

// Runs children until all cases are done. false: not even a context could be made.
static bool run_children(const options *o, report *r, progress *p) {
    int file = 0;
    long index = 0;
    for (;;) {
        child c;
        outcome result;
        p->started = 0;
        p->file = file;
        p->index = -1;
        if (!start_child(o, file, index, p, &c)) {
            perror("nbx-conform: fork");
            return false;
        }
        int state;
        while ((state = next_outcome(o, p, c.in, &result)) == 1) report_add(r, &result);
        if (state < 0) kill(c.pid, SIGKILL);
        int status = 0;
        while (waitpid(c.pid, &status, 0) < 0 && errno == EINTR) continue;
        close(c.in);
        if (WIFEXITED(status) && !WEXITSTATUS(status)) return true;
        if (p->index < 0) return false;  // between files: nothing to go on behind
        add_death(r, p, status, state < 0, o->timeout_s);
        file = p->file;
        index = p->index + 1;
    }
}

// The same without children: outcomes come through a pipe all the same, drained by a process that does nothing else.
static bool run_here(const options *o, report *r, progress *p) {
    int ends[2];
    if (pipe(ends)) return false;
    fflush(NULL);
    const pid_t reader = fork();
    if (reader < 0) return false;
    if (reader) {
        close(ends[0]);
        const int status = worker_run(o, 0, 0, ends[1], p);
        close(ends[1]);
        int ended = 0;
        waitpid(reader, &ended, 0);
        exit(status ? status : WEXITSTATUS(ended));
    }
    close(ends[1]);
    outcome result;
    while (next_outcome(o, p, ends[0], &result) == 1) report_add(r, &result);
    return true;
}

int main(int argc, char **argv) {
    options o = {.timeout_s = 60, .every = 1};
    for (int option; (option = getopt_long(argc, argv, "hv", long_options, NULL)) != -1;) {
        if (option == 'h') return fputs(usage, stdout) < 0;
        if (!read_option(&o, option)) {
            fputs("Try nbx-conform --help.\n", stderr);
            return 2;
        }
    }
    o.files = argv + optind;
    o.file_count = argc - optind;
    if (!o.file_count) {
        fputs(usage, stderr);
        return 2;
    }
    progress *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    report *r = report_create(&o);
    if (!r || p == MAP_FAILED) return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    const bool ok = o.in_process ? run_here(&o, r, p) : run_children(&o, r, p);
    const int status = report_finish(r);
    if (o.only_text) regfree(&o.only);
    return status || ok ? status : 2;
}
