// Order statistics on the CPU. Elements become keys that sort as integers; one rank is found by selection in linear time,
// modes and quantiles sort by merging.
#include "cpu/simd.h"

#include "cpu/pool.h"
#include "ops/reduce/order_stat.h"
#include "ops/reduce/reduce_rows_simd.h"
#include "ops/reduce/stage_simd.h"

typedef struct task {
    const order_job *job;
    reduce_plan plan;
    const nbx_tensor *x, *values, *indices, *q;
    order_item *items;  // two arrays of a line's length for every thread
    int bad;            // a q outside [0, 1]
} task;

// Keys of doubles: bits in an order where negative numbers descend; both zeros alike; NaN above all.
static int64_t key_of_double(double x) {
    int64_t bits;
    if (x != x) return INT64_MAX;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

static double double_of_key(int64_t key) {
    const int64_t bits = key < 0 ? key ^ INT64_MAX : key;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Fills items with one line; returns how many NaN it has, and where the first is.
static int64_t load_line(const task *t, const char *line, order_item *items, int64_t *first_nan) {
    const nbx_dtype dtype = (nbx_dtype)t->x->dtype;
    const bool floating = nbx_dtype_is_float(dtype);
    const int64_t n = t->plan.reduced_count, step = t->plan.reduced ? t->plan.reduced_step[0] : 0;
    int64_t nans = 0;
    for (int64_t at = 0; at < n;) {
        const stretch s = stretch_at(&t->plan, at, at + CHUNK < n ? at + CHUNK : n);
        if (floating) {
            double buffer[CHUNK];
            stage_f64(buffer, line + s.offset, step, s.n, dtype);
            for (int64_t i = 0; i < s.n; i++) {
                items[at + i] = (order_item){key_of_double(buffer[i]), at + i};
                if (buffer[i] != buffer[i] && nans++ == 0) *first_nan = at + i;
            }
        } else {
            int64_t buffer[CHUNK];
            stage_i64(buffer, line + s.offset, step, s.n, dtype);
            for (int64_t i = 0; i < s.n; i++) items[at + i] = (order_item){buffer[i], at + i};
        }
        at += s.n;
    }
    return nans;
}

static bool below(order_item a, order_item b) { return a.key < b.key || (a.key == b.key && a.index < b.index); }

static void swap_items(order_item *a, order_item *b) {
    const order_item t = *a;
    *a = *b, *b = t;
}

// Moves the item of rank k to items[k] (Hoare's selection, middle of three as pivot).
static void select_rank(order_item *items, int64_t n, int64_t k) {
    int64_t low = 0, high = n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (below(items[middle], items[low])) swap_items(&items[middle], &items[low]);
        if (below(items[high], items[low])) swap_items(&items[high], &items[low]);
        if (below(items[high], items[middle])) swap_items(&items[high], &items[middle]);
        const order_item pivot = items[middle];
        int64_t i = low, j = high;
        while (i <= j) {
            while (below(items[i], pivot)) i++;
            while (below(pivot, items[j])) j--;
            if (i <= j) swap_items(&items[i++], &items[j--]);
        }
        if (k <= j) high = j;
        else if (k >= i) low = i;
        else return;
    }
}

// Stable: equal keys keep their order. Returns the array that holds the result.
static order_item *sort_items(order_item *items, order_item *other, int64_t n) {
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t start = 0; start < n; start += 2 * width) {
            const int64_t middle = start + width < n ? start + width : n, end = start + 2 * width < n ? start + 2 * width : n;
            int64_t i = start, j = middle;
            for (int64_t k = start; k < end; k++) other[k] = i < middle && (j >= end || items[i].key <= items[j].key) ? items[i++] : items[j++];
        }
        order_item *t = items;
        items = other, other = t;
    }
    return items;
}

// Short lines with NaN, as ATen's insertion sort leaves them: NaN, being neither below nor above, is a barrier that only
// an item below the first one passes.
static void sort_about_nan(order_item *items, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const order_item item = items[i];
        int64_t k = i;
        const bool to_front = item.key != INT64_MAX && items[0].key != INT64_MAX && item.key < items[0].key;
        while (k > 0 && (to_front || (item.key != INT64_MAX && items[k - 1].key != INT64_MAX && item.key < items[k - 1].key))) {
            items[k] = items[k - 1];
            k--;
        }
        items[k] = item;
    }
}

// The item that ends the longest run of equal keys (the first such run). NaN equals nothing.
static order_item mode_of(const order_item *items, int64_t n, bool floating) {
    order_item best = items[0];
    int64_t longest = 0, run = 0;
    for (int64_t i = 0; i < n; i++) {
        run++;
        const bool nan = floating && items[i].key == INT64_MAX;
        if (i + 1 < n && items[i + 1].key == items[i].key && !nan) continue;
        if (run > longest) longest = run, best = items[i];
        run = 0;
    }
    return best;
}

// Where line `number` of the plan begins in x, and the number of its result.
static int64_t line_place(const reduce_plan *plan, int64_t number, int64_t *to) {
    int64_t offset = 0;
    *to = 0;
    for (int d = 0; d < plan->kept; d++) {
        const int64_t at = number % plan->kept_shape[d];
        number /= plan->kept_shape[d];
        offset += at * plan->kept_step[d], *to += at * plan->kept_to[d];
    }
    return offset;
}

// Copies element `index` of a line as it is.
static void copy_element(const task *t, const char *line, int64_t index, int64_t to) {
    const size_t bytes = nbx_dtype_size((nbx_dtype)t->x->dtype);
    const stretch s = stretch_at(&t->plan, index, index + 1);
    memcpy((char *)nbx_data(t->values) + (size_t)to * bytes, line + s.offset, bytes);
    if (t->indices) ((int64_t *)nbx_data(t->indices))[to] = index;
}

static void select_lines(void *arg, int64_t begin, int64_t end, int thread) {
    const task *t = arg;
    const int64_t n = t->plan.reduced_count;
    order_item *items = t->items + 2 * n * thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t to, first_nan = 0, k = (n - 1) / 2;
        const char *line = (const char *)nbx_data(t->x) + line_place(&t->plan, i, &to);
        const int64_t nans = load_line(t, line, items, &first_nan);
        if (t->job->stat == ORDER_MODE) {
            const order_item *sorted = items;
            if (nans > 0 && n <= 16) sort_about_nan(items, n);
            else sorted = sort_items(items, items + n, n);
            copy_element(t, line, mode_of(sorted, n, nbx_dtype_is_float((nbx_dtype)t->x->dtype)).index, to);
            continue;
        }
        if (t->job->stat == ORDER_NANMEDIAN) k = nans < n ? (n - nans - 1) / 2 : 0;
        if (t->job->stat == ORDER_MEDIAN && nans > 0) {
            copy_element(t, line, first_nan, to);
            continue;
        }
        select_rank(items, n, k);
        copy_element(t, line, items[k].index, to);
    }
}

// The median of nothing: NaN, or the smallest integer.
static void fill_empty(const nbx_tensor *out) {
    const nbx_dtype dtype = (nbx_dtype)out->dtype;
    const int64_t least = dtype == NBX_INT64 ? INT64_MIN : dtype == NBX_INT32 ? INT32_MIN : 0;
    double nan[64];
    for (int i = 0; i < 64; i++) nan[i] = (double)NAN;
    for (int64_t i = 0; i < out->numel; i++) {
        char *to = (char *)nbx_data(out) + i * (int64_t)nbx_dtype_size(dtype);
        if (nbx_dtype_is_float(dtype)) store_f64(to, 0, nan, 1, dtype);
        else store_i64(to, 0, &least, 1, dtype);
    }
}

nbx_status NBX_KERNEL(order_stat_cpu)(nbx_op_call *c) {
    const order_job *job = c->state;
    task t = {.job = job, .x = arg_tensor(c, 0), .values = out_get(c, 0), .indices = c->out_count > 1 ? out_get(c, 1) : NULL};
    const reduce_job walk = {.in = t.x->dtype, .mask = job->mask, .ordered = true};
    reduce_plan_make(&t.plan, &walk, t.x->rank, t.x->shape, t.x->stride);
    if (t.plan.kept_count == 0) return NBX_OK;
    if (t.plan.reduced_count == 0) {
        fill_empty(t.values);
        return NBX_OK;
    }
    t.items = c->scratch;
    nbx_parallel_for(c->pool, t.plan.kept_count, 1024 / t.plan.reduced_count + 1, select_lines, &t);
    return NBX_OK;
}

// -------------------------------------------------------------------------------------------------------------- quantile
// The value at place q (n - 1) of n sorted items, in the precision of the dtype.
static double quantile_of(const order_item *items, int64_t n, double q, order_between between, bool wide) {
    double place = wide ? q * (double)(n - 1) : (double)((float)q * (float)(n - 1));
    if (place < 0.0) place = 0.0;
    if (between == ORDER_LOWER) place = floor(place);
    if (between == ORDER_HIGHER) place = ceil(place);
    if (between == ORDER_NEAREST) place = nearbyint(place);
    const int64_t low = (int64_t)place, high = (int64_t)ceil(place);
    const double a = double_of_key(items[low].key), b = double_of_key(items[high < n ? high : n - 1].key);
    if (between != ORDER_LINEAR && between != ORDER_MIDPOINT) return a;
    const double weight = between == ORDER_MIDPOINT ? 0.5 : wide ? place - (double)low : (double)((float)place - (float)low);
    return weight < 0.5 ? a + weight * (b - a) : b - (b - a) * (1.0 - weight);
}

static void quantile_lines(void *arg, int64_t begin, int64_t end, int thread) {
    task *t = arg;
    const int64_t n = t->plan.reduced_count, count = t->q->numel, bytes = (int64_t)nbx_dtype_size((nbx_dtype)t->x->dtype);
    order_item *items = t->items + 2 * n * thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t to, first_nan = 0;
        const char *line = (const char *)nbx_data(t->x) + line_place(&t->plan, i, &to);
        const int64_t nans = load_line(t, line, items, &first_nan), used = t->job->stat == ORDER_NANQUANTILE ? n - nans : n;
        const bool none = used == 0 || (nans > 0 && used == n);
        const order_item *sorted = sort_items(items, items + n, n);
        for (int64_t k = 0; k < count; k++) {
            double q = 0.0;
            const int64_t step = t->q->rank ? t->q->stride[0] * bytes : 0;
            stage_f64(&q, (const char *)nbx_data(t->q) + k * step, 0, 1, (nbx_dtype)t->q->dtype);
            if (!(q >= 0.0 && q <= 1.0)) {
                __atomic_store_n(&t->bad, 1, __ATOMIC_RELAXED);
                continue;
            }
            const double value = none ? (double)NAN : quantile_of(sorted, used, q, (order_between)t->job->between, bytes == 8);
            store_f64((char *)nbx_data(t->values) + (to * count + k) * bytes, 0, &value, 1, (nbx_dtype)t->x->dtype);
        }
    }
}

nbx_status NBX_KERNEL(quantile_cpu)(nbx_op_call *c) {
    const order_job *job = c->state;
    task t = {.job = job, .x = arg_tensor(c, 0), .values = out_get(c, 0), .q = arg_tensor(c, 1)};
    const reduce_job walk = {.in = t.x->dtype, .mask = job->mask, .ordered = true};
    reduce_plan_make(&t.plan, &walk, t.x->rank, t.x->shape, t.x->stride);
    t.items = c->scratch;
    nbx_parallel_for(c->pool, t.plan.kept_count, 1024 / t.plan.reduced_count + 1, quantile_lines, &t);
    if (t.bad) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "q must lie in [0, 1]");
    return NBX_OK;
}
