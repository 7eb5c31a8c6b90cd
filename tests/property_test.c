// Calls every operator of the table with arguments made up from its schema: valid, nearly valid and absurd. Whatever the answer,
// nothing may crash, hang, lose memory or call itself an internal error, and results must be readable. Operators run in child
// processes, so that one that crashes has failed and the others go on.
//   nbx-tests property_test [OPERATOR]      NBX_PROPERTY_CALLS=N for each operator (30), NBX_PROPERTY_SEED=N,
//                                           NBX_PROPERTY_CALL=N the one call that a failure named
#include "core/memory.h"
#include "nbx/call.h"
#include "ops/schema.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_RANK = 5, MAX_BYTES = 1 << 16, LIST = 6, TIMEOUT_S = 30 };

static uint64_t random_state;

static uint64_t next(void) {  // splitmix64
    uint64_t z = (random_state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static int below(int n) { return n > 0 ? (int)(next() % (uint64_t)n) : 0; }
static bool one_in(int n) { return below(n) == 0; }

// ------------------------------------------------------------------------------------------------------- making values
// What the tensors of one call have in common, so that many of them fit together.
typedef struct theme {
    nbx_dtype dtype;
    int rank;
    int64_t shape[MAX_RANK];
} theme;

static theme make_theme(void) {
    static const nbx_dtype likely[] = {NBX_FLOAT32, NBX_FLOAT32, NBX_FLOAT32, NBX_FLOAT64, NBX_FLOAT16, NBX_BFLOAT16, NBX_INT64, NBX_INT32,
                                       NBX_BOOL,    NBX_UINT8,   NBX_COMPLEX64};
    theme t = {.dtype = one_in(6) ? (nbx_dtype)below(NBX_DTYPE_COUNT) : likely[below(11)], .rank = below(MAX_RANK)};
    const bool square = one_in(3);
    const int64_t size = 1 + below(5);
    for (int d = 0; d < t.rank; d++) t.shape[d] = square ? size : one_in(12) ? 0 : 1 + below(7);
    return t;
}

static void fill(nbx_dtype dtype, int64_t count, void *memory) {
    static const double special[] = {0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 1e30, -1e-30};
    unsigned char *bytes = memory;
    for (int64_t i = 0; i < count; i++) {
        const double x = one_in(12) ? special[below(9)] : (double)below(2001) / 500 - 2;
        switch (dtype) {
        case NBX_FLOAT32: ((float *)memory)[i] = (float)x; break;
        case NBX_FLOAT64: ((double *)memory)[i] = x; break;
        case NBX_INT64: ((int64_t *)memory)[i] = below(4); break;
        case NBX_INT32: ((int32_t *)memory)[i] = below(4); break;
        case NBX_BOOL: bytes[i] = (unsigned char)below(2); break;
        default:
            for (size_t k = 0; k < nbx_dtype_bytes(dtype); k++) bytes[(size_t)i * nbx_dtype_bytes(dtype) + k] = (unsigned char)(next() & 0x3f);
        }
    }
}

static void change_shape(theme *t) {
    const int d = below(t->rank);
    switch (below(14)) {
    case 0:
        if (t->rank) t->shape[d] = 1;
        break;
    case 1:
        if (t->rank) memmove(t->shape, t->shape + 1, (size_t)(--t->rank) * sizeof *t->shape);
        break;
    case 2:
        if (t->rank < MAX_RANK) t->shape[t->rank++] = 1 + below(4);
        break;
    case 3: t->rank = 0; break;
    case 4:
        if (t->rank) t->shape[d] = 0;
        break;
    case 5:
        t->rank = below(MAX_RANK);
        for (int i = 0; i < t->rank; i++) t->shape[i] = below(6);
        break;
    case 6:
        t->rank = 1;
        t->shape[0] = 1 + below(6);
        break;
    default: break;
    }
}

static const nbx_tensor *make_tensor(nbx_context *ctx, theme t, bool index) {
    static _Alignas(16) unsigned char memory[MAX_BYTES];
    if (index) t.dtype = one_in(8) ? NBX_INT32 : NBX_INT64;
    else if (one_in(8)) t.dtype = (nbx_dtype)below(NBX_DTYPE_COUNT);
    change_shape(&t);
    int64_t count = 1;
    for (int d = 0; d < t.rank; d++) count *= t.shape[d];
    if ((size_t)count * nbx_dtype_bytes(t.dtype) > MAX_BYTES) t.rank = 0, count = 1;
    fill(t.dtype, count, memory);
    const nbx_tensor *base = nbx_tensor_from_host(ctx, t.dtype, t.rank, t.shape, memory);
    if (!base || t.rank < 2 || !one_in(4)) return base;
    int64_t shape[MAX_RANK], stride[MAX_RANK];  // the same memory seen with its dims reversed
    for (int d = 0; d < t.rank; d++) {
        shape[d] = t.shape[t.rank - 1 - d];
        stride[d] = nbx_tensor_strides(base)[t.rank - 1 - d];
    }
    return nbx_tensor_view(ctx, base, t.dtype, t.rank, shape, stride, 0);
}

static int64_t make_int(void) {
    static const int64_t odd[] = {INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MAX, INT64_MIN, -1000, 1 << 20};
    return one_in(25) ? odd[below(6)] : one_in(4) ? -1 - below(3) : below(5);
}

static double make_float(void) {
    static const double odd[] = {0, -0.0, 1, 2, 0.5, -1, 1e-5, NAN, INFINITY, -INFINITY, 1e300};
    return odd[below(one_in(3) ? 11 : 7)];
}

static nbx_value make_scalar(void) {
    switch (below(5)) {
    case 0: return nbx_of_bool(one_in(2));
    case 1: return nbx_of_float(make_float());
    case 2: return nbx_of_complex(make_float(), make_float());
    default: return nbx_of_int(make_int());
    }
}

static nbx_value make_one(nbx_context *ctx, const nbx_param *p, const theme *t) {
    static const char *const words[] = {"mean", "sum", "none", "floor", "trunc", "reflect", "constant", "ij", "xy", "fro", "linear", "bilinear", "", "prod", "amax", "L", "zz"};
    const bool index = p->name && (strstr(p->name, "ind") || strstr(p->name, "target"));
    switch (p->type) {
    case NBX_TYPE_TENSOR:
    case NBX_TYPE_STORAGE: return nbx_of_tensor(make_tensor(ctx, *t, index));
    case NBX_TYPE_INT: return nbx_of_int(make_int());
    case NBX_TYPE_FLOAT: return nbx_of_float(make_float());
    case NBX_TYPE_BOOL: return nbx_of_bool(one_in(2));
    case NBX_TYPE_SCALAR: return make_scalar();
    case NBX_TYPE_STRING: return nbx_of_string(words[below(17)]);
    case NBX_TYPE_DTYPE: return nbx_of_dtype((nbx_dtype)below(NBX_DTYPE_COUNT));
    case NBX_TYPE_DEVICE: return nbx_of_device((nbx_device){NBX_CPU, 0});
    case NBX_TYPE_MEMORY_FORMAT: return nbx_of_memory_format((nbx_memory_format)below(4));
    default: return nbx_of_none();
    }
}

// Memory of the lists of one call.
typedef struct lists {
    union {
        const nbx_tensor *tensors[LIST];
        int64_t ints[LIST];
        double floats[LIST];
        bool bools[LIST];
        nbx_value values[LIST];
    } memory[NBX_MAX_ARGS];
} lists;

static nbx_value make_list(nbx_context *ctx, const nbx_param *p, const theme *t, lists *l, int i) {
    const int count = p->fixed_count > 0 && p->fixed_count <= LIST && !one_in(5) ? p->fixed_count : below(LIST);
    for (int k = 0; k < count; k++) {
        const nbx_value v = make_one(ctx, p, t);
        if (p->type == NBX_TYPE_TENSOR) l->memory[i].tensors[k] = p->optional_element && one_in(3) ? NBX_NONE : v.as.tensor;
        else if (p->type == NBX_TYPE_INT) l->memory[i].ints[k] = v.as.integer;
        else if (p->type == NBX_TYPE_FLOAT) l->memory[i].floats[k] = v.as.real;
        else if (p->type == NBX_TYPE_BOOL) l->memory[i].bools[k] = v.as.boolean;
        else l->memory[i].values[k] = v;
    }
    switch (p->type) {
    case NBX_TYPE_TENSOR: return nbx_of_tensors(l->memory[i].tensors, count);
    case NBX_TYPE_INT: return nbx_of_ints(l->memory[i].ints, count);
    case NBX_TYPE_FLOAT: return nbx_of_floats(l->memory[i].floats, count);
    case NBX_TYPE_BOOL: return nbx_of_bools(l->memory[i].bools, count);
    default: return nbx_of_values(l->memory[i].values, count);
    }
}

static nbx_value make_value(nbx_context *ctx, const nbx_param *p, const theme *t, lists *l, int i) {
    if (p->optional && one_in(2)) return nbx_of_none();
    if (one_in(40)) return make_scalar();  // of another kind, most likely
    if (p->list && !(p->fixed_count && one_in(4))) return make_list(ctx, p, t, l, i);
    return make_one(ctx, p, t);
}

// -------------------------------------------------------------------------------------------------------------- calls
typedef struct shared {
    volatile size_t index;  // of the operator that runs
    volatile uint64_t seed; // of its call
    volatile long passed, failed;
    volatile bool failed_now;
} shared;

static void complain(shared *s, const nbx_operator *op, uint64_t seed, const char *problem, const char *detail) {
    if (!s->failed_now) printf("FAIL %s (seed %llu): %s %s\n", nbx_operator_name(op), (unsigned long long)seed, problem, detail);
    fflush(stdout);
    s->failed_now = true;
}

static bool readable(nbx_context *ctx, const nbx_tensor *t) {
    if (t == NBX_NONE || nbx_tensor_nbytes(t) > 1 << 24) return true;
    void *memory = malloc(nbx_tensor_nbytes(t) + 1);
    const nbx_status status = memory ? nbx_tensor_read(ctx, t, memory) : NBX_OK;
    free(memory);
    return status == NBX_OK || status == NBX_ERROR_MEMORY;  // packing a strided result may pass the ceiling
}

static bool all_readable(nbx_context *ctx, const nbx_value *results, int count) {
    for (int i = 0; i < count; i++) {
        if (results[i].kind == NBX_KIND_TENSOR && !readable(ctx, results[i].as.tensor)) return false;
        for (int k = 0; results[i].kind == NBX_KIND_TENSORS && k < results[i].count; k++) {
            if (!readable(ctx, results[i].as.tensors[k])) return false;
        }
    }
    return true;
}

// One call from one seed; returns how many blocks of memory it has kept.
static long call_once(nbx_context *ctx, shared *s, const nbx_operator *op, const nbx_schema *schema, uint64_t seed) {
    static lists memory;
    static nbx_value results[64];
    random_state = s->seed = seed;
    const theme t = make_theme();
    const long before = nbx_alloc_count();
    const nbx_scope scope = nbx_scope_open(ctx);
    nbx_value args[NBX_MAX_ARGS];
    nbx_named_value keywords[NBX_MAX_ARGS];
    int arg_count = 0, keyword_count = 0;
    for (int i = 0; i < schema->param_count && i < NBX_MAX_ARGS; i++) {
        const nbx_param *p = &schema->params[i];
        if (p->has_default && one_in(2)) {
            if (!p->keyword_only) break;
            continue;
        }
        const nbx_value v = make_value(ctx, p, &t, &memory, i);
        if (p->keyword_only) keywords[keyword_count++] = (nbx_named_value){p->name, v};
        else args[arg_count++] = v;
    }
    int count = 0;
    const nbx_status status = nbx_call_operator(ctx, op, args, arg_count, keywords, keyword_count, results, 64, &count);
    if (status == NBX_ERROR_INTERNAL) complain(s, op, seed, "internal error:", nbx_last_message(ctx));
    else if (status && !nbx_last_message(ctx)[0]) complain(s, op, seed, "an error without a message", "");
    else if (!status && !all_readable(ctx, results, count)) complain(s, op, seed, "a result cannot be read:", nbx_last_message(ctx));
    nbx_scope_close(ctx, scope, NULL);
    nbx_clear_error(ctx);
    return nbx_alloc_count() - before;
}

static long number_from(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static void call_many(nbx_context *ctx, shared *s, size_t index, int calls, uint64_t seed) {
    const nbx_operator *op = nbx_operator_at(index);
    nbx_schema *schema = nbx_schema_create(ctx, nbx_operator_schema(op));
    s->failed_now = false;
    const uint64_t only = (uint64_t)number_from("NBX_PROPERTY_CALL", 0);
    for (int i = 0; schema && i < (only ? 1 : calls); i++) {
        const uint64_t call_seed = only ? only : seed * 1000003 + index * 4099 + (uint64_t)i;
        alarm(TIMEOUT_S);
        // A cache may keep memory of a call, but not more each time.
        if (call_once(ctx, s, op, schema, call_seed) > 0 && call_once(ctx, s, op, schema, call_seed) > 0 &&
            call_once(ctx, s, op, schema, call_seed) > 0) {
            complain(s, op, call_seed, "memory is lost", "");
        }
    }
    alarm(0);
    nbx_schema_destroy(schema);
    nbx_clear_error(ctx);
    if (s->failed_now) s->failed++;
    else s->passed++;
}

static bool is_wanted(size_t index, const char *only) {
    const nbx_operator *op = nbx_operator_at(index);
    if (!nbx_operator_available(op, NBX_CPU)) return false;
    return !only || strstr(nbx_operator_name(op), only);
}

static void run_from(shared *s, size_t first, const char *only, int calls, uint64_t seed) {
    const nbx_options options = {.threads = 2, .memory_ceiling = (size_t)16 << 20};
    nbx_context *ctx = nbx_context_create(&options);
    if (!ctx) _exit(3);
    for (size_t i = first; i < nbx_operator_count(); i++) {
        if (!is_wanted(i, only)) continue;
        s->index = i;
        call_many(ctx, s, i, calls, seed);
    }
    nbx_context_destroy(ctx);
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : NULL;
    const int calls = (int)number_from("NBX_PROPERTY_CALLS", 30);
    const uint64_t seed = (uint64_t)number_from("NBX_PROPERTY_SEED", 1);
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) return 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t first = 0; first < nbx_operator_count();) {
        fflush(NULL);
        const pid_t child = fork();
        if (child < 0) return 1;
        if (!child) {
            run_from(s, first, only, calls, seed);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && !WEXITSTATUS(status)) break;
        const char *name = nbx_operator_name(nbx_operator_at(s->index));
        printf("FAIL %s (seed %llu): ", name, (unsigned long long)s->seed);
        if (WIFSIGNALED(status)) printf("%s\n", WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
        else printf("the process ended with status %d\n", WEXITSTATUS(status));
        s->failed++;
        first = s->index + 1;
    }
    printf("%ld passed, %ld failed, 0 skipped\n", s->passed, s->failed);
    return s->failed ? 1 : 0;
}
