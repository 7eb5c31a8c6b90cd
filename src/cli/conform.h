// nbx-conform: what its parts share. A case is run in a child process (conform_worker.c), which reads its arguments
// (conform_args.c), makes the calls and judges the results (conform_case.c, conform_checks.c, conform_compare.c). The parent
// (conform.c) outlives crashes and hangs of a case, and reports (conform_report.c).
#ifndef NBX_CLI_CONFORM_H
#define NBX_CLI_CONFORM_H

#include "nbx/call.h"
#include "nbx/formats.h"
#include "program/json.h"

#include <regex.h>
#include <stdio.h>

// ----------------------------------------------------------------------------------------------------------- options
typedef struct options {
    char **files;
    int file_count;
    nbx_device device;
    const char *only_text;
    regex_t only;           // valid when only_text is set
    int threads;
    const char *isa;
    const char *json_path;
    const char *hash_path;
    int timeout_s;          // for one case
    int mutate;             // calls with changed arguments, instead of comparing
    uint64_t seed;
    bool fail_allocations;  // instead of comparing
    int every;              // run each N-th case only
    bool skip_missing, verbose, in_process;
} options;

typedef enum verdict {
    VERDICT_PASSED,
    VERDICT_FAILED,
    VERDICT_SKIPPED,
    VERDICT_MALFORMED,  // the file or the case breaks the format
    VERDICT_FILE_DONE,
} verdict;

enum { MESSAGE_BYTES = 1000, NAME_BYTES = 200 };

// What a child says about one case.
typedef struct outcome {
    verdict verdict;
    int file;            // index into options.files
    long index;          // of the case in its file; -1: the file itself
    nbx_dtype dtype;     // of the result with the largest error in units of the last place
    double ulp_ours, ulp_recorded;  // largest over the results; negative: not measured
    uint64_t hash;       // of the bits of the results; 0: none
    char id[NAME_BYTES], op[NAME_BYTES], message[MESSAGE_BYTES];
} outcome;

// Where a child is, seen by its parent after it has died.
typedef struct progress {
    volatile int file;
    volatile long index;
    volatile double started;  // of the case, in seconds of the monotonic clock; 0: between cases
    char id[NAME_BYTES], op[NAME_BYTES];
} progress;

double seconds_now(void);

// Runs the cases from `file`, `index` on and writes outcomes to a descriptor. Returns the child's exit status.
int worker_run(const options *o, int file, long index, int out, progress *p);

// ------------------------------------------------------------------------------------------------------------ report
typedef struct report report;
report *report_create(const options *o);
void report_add(report *r, const outcome *result);
// Writes what --verbose, --json and --hashes ask for, then the last line. Returns the exit status.
int report_finish(report *r);

// ------------------------------------------------------------------------------------------------------------- a case
enum { MAX_SHARED = 32, MAX_GENERATORS = 16, MAX_RESULTS = 64 };

typedef struct call_results {
    nbx_value values[MAX_RESULTS];
    int count;
} call_results;

// One case while it runs. Everything in it lives until case_end.
typedef struct test_case {
    nbx_context *ctx;
    const options *options;
    const nbx_tensors *arrays;
    const nbx_json *json;
    outcome *result;

    struct {
        const char *name;
        const nbx_tensor *base;  // 1-D over the whole storage, on the device under test
        nbx_dtype dtype;
    } shared[MAX_SHARED];
    int shared_count;
    nbx_generator *generators[MAX_GENERATORS];
    int generator_count;
    void **blocks;               // memory of lists
    size_t block_count;

    call_results *before;        // [before_count]
    size_t before_count;
    nbx_value *args;
    int arg_count;
    nbx_named_value *keywords;
    int keyword_count;
    call_results results;
    struct block *subject;       // argument 0 as it was before the call, for the checks that index it
    const nbx_json *exact;       // float64 form of the result being compared, or NULL
    bool judged;                 // the argument being compared is a result, whose values were compared already
} test_case;

// Runs one case and fills in its outcome (id, op and place are set by the caller).
void case_run(const options *o, nbx_context *ctx, const nbx_tensors *arrays, const nbx_json *json, outcome *result);
// Says what is wrong, once: the first message stays. Always false.
bool case_fail(test_case *c, const char *format, ...) NBX_PRINTF(2, 3);
// The same for a case that breaks the format.
bool case_malformed(test_case *c, const char *format, ...) NBX_PRINTF(2, 3);
void case_skip(test_case *c, const char *format, ...) NBX_PRINTF(2, 3);
void *case_alloc(test_case *c, size_t bytes);  // freed with the case; zeroed; NULL has failed the case

typedef struct call_arguments {
    nbx_value *args;
    int arg_count;
    nbx_named_value *keywords;
    int keyword_count;
} call_arguments;
bool read_arguments(test_case *c, const nbx_json *call, call_arguments *a);  // "args" and "kwargs" of a call
void case_free_from(test_case *c, size_t first);  // frees what case_alloc gave since block_count was `first`

// Calls the operator with changed arguments (--mutate) and fails the case if that shows a fault.
void mutate_case(test_case *c, const nbx_operator *op);
// Makes every allocation of the call fail in turn (--fail-allocations).
void fail_allocations(test_case *c, const nbx_operator *op);

// ---------------------------------------------------------------------------------------------------------- arguments
// Turns an ARG into a value on the device under test. false: the case has failed or is skipped.
bool arg_value(test_case *c, const nbx_json *arg, nbx_value *value);
double arg_number(const nbx_json *number);  // a float as golden files write it

// What an ARG of kind tensor says, with its defaults filled in.
typedef struct tensor_arg {
    const nbx_tensor *array;  // as it lies in the file, on the CPU
    nbx_dtype dtype;
    int rank;
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
    int64_t offset;           // in its storage
    int64_t count;            // elements of the array, in dtype
    bool has_stride, is_view;
    int64_t base_count, base_at;  // "base"; base_count 0: the array is the whole storage
} tensor_arg;
bool arg_tensor_facts(test_case *c, const nbx_json *arg, tensor_arg *facts);
static inline bool arg_is(const nbx_json *arg, const char *kind) { return nbx_json_get(arg, kind) != NULL; }

// ---------------------------------------------------------------------------------------------------------- comparing
// Elements of a tensor in host memory, dense and row-major.
typedef struct block {
    nbx_dtype dtype;
    int rank;
    int64_t shape[NBX_MAX_RANK];
    int64_t count;
    size_t bytes;
    char *data;
} block;
bool block_of_tensor(test_case *c, const nbx_tensor *t, block *b);
bool block_of_arg(test_case *c, const tensor_arg *facts, block *b);  // the elements the ARG shows
bool block_alloc(test_case *c, nbx_dtype dtype, int rank, const int64_t *shape, block *b);

typedef struct complex_number {
    double re, im;
} complex_number;
complex_number block_number(const block *b, int64_t index);
bool number_is_nan(complex_number x);
bool block_same_bits(const block *a, int64_t i, const block *b, int64_t j);  // NaN equals NaN
size_t element_bytes(nbx_dtype dtype);
bool dtype_is_integral(nbx_dtype dtype);  // bool, too
bool dtype_is_complex(nbx_dtype dtype);
const char *block_text(const block *b, int64_t index, char *text, size_t size);
char *index_text(const block *b, int64_t index, char *text, size_t size);

typedef struct tolerance {
    double relative, absolute;
    double scale;  // absolute grows by relative x this x the largest element: sums lose what cancels
    bool bits, given;
} tolerance;
tolerance case_tolerance(test_case *c, nbx_dtype dtype);
bool number_fits(complex_number got, complex_number want, tolerance t, bool complex);

// All elements by the rules of golden.md. `name` says in a message which result it is.
bool compare_blocks(test_case *c, const char *name, const block *got, const block *want);
// dtype, shape, and strides where the ARG gives them.
bool compare_facts(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want);
// A result or argument of any kind against an ARG, by value.
bool compare_value(test_case *c, const char *name, const nbx_value *got, const nbx_json *want);
// What lies around a mutated argument, too.
bool compare_mutated(test_case *c, const char *name, const nbx_tensor *got, const tensor_arg *want);
// Largest errors of the results, ours and the recorded ones, in units of the last place, where the case has exact64.
void measure_ulp(test_case *c);

// Results and mutated arguments, compared as the case's "check" says.
bool check_results(test_case *c);
bool check_needs_subject(const test_case *c);
uint64_t hash_results(test_case *c);

#endif
