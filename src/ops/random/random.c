// Operators that fill a tensor with random numbers. Numbers are drawn one after another, in the order in which elements lie in
// memory, which is what makes them PyTorch's; only the normal numbers of contiguous tensors of 16 and more are drawn
// differently there: 16 uniforms become 8 pairs.
#include "cpu/pool.h"
#include "ops/iter.h"
#include "ops/random/draw.h"
#include "ops/random/generator.h"
#include "ops/shape/element.h"
#include "ops/shape/geometry.h"
#include "ops/shape/move.h"
#include "ops/sort/keys.h"

#include <math.h>
#include <string.h>

typedef nbx_generator variate_source;
static double variate_uniform(nbx_generator *g) { return nbx_generator_double(g); }
static double variate_normal(nbx_generator *g) { return nbx_generator_normal(g); }
#include "ops/random/variates.h"

// ------------------------------------------------------------------------------------------------------------- one number
static double uniform_of(nbx_draw *d) {
    switch (d->dtype) {
    case NBX_FLOAT64: return nbx_generator_double(d->g) * (d->b - d->a) + d->a;
    case NBX_FLOAT16: return (double)((float)(nbx_generator_next32(d->g) & 0x7ff) * 0x1p-11f * ((float)d->b - (float)d->a) + (float)d->a);
    case NBX_BFLOAT16: return (double)((float)(nbx_generator_next32(d->g) & 0xff) * 0x1p-8f * ((float)d->b - (float)d->a) + (float)d->a);
    default: return (double)(nbx_generator_float(d->g) * ((float)d->b - (float)d->a) + (float)d->a);
    }
}

static double cauchy_of(nbx_draw *d) {
    const double eps = 2.220446049250313e-16;
    double u = nbx_generator_double(d->g);
    u = u > 1 - eps ? 1 - eps : u < eps ? eps : u;
    return d->a + d->b * tan(3.14159265358979323846 * (u - 0.5));
}

// random_(): all numbers that the dtype holds exactly, from 0 on.
static int64_t full_of(nbx_draw *d) {
    const uint32_t word = d->dtype == NBX_INT64 || d->dtype == NBX_UINT64 || d->dtype == NBX_FLOAT64 ? 0 : nbx_generator_next32(d->g);
    switch (d->dtype) {
    case NBX_INT64: return (int64_t)(nbx_generator_next64(d->g) & INT64_MAX);
    case NBX_UINT64: return (int64_t)nbx_generator_next64(d->g);
    case NBX_FLOAT64: return (int64_t)(nbx_generator_next64(d->g) % (((uint64_t)1 << 53) + 1));
    case NBX_FLOAT32: return word % ((1u << 24) + 1);
    case NBX_FLOAT16: return word % ((1u << 11) + 1);
    case NBX_BFLOAT16: return word % ((1u << 8) + 1);
    case NBX_BOOL: return word & 1;
    case NBX_UINT8: return word & 0xff;
    case NBX_INT8: return word & 0x7f;
    case NBX_INT16: return word & 0x7fff;
    case NBX_UINT16: return word & 0xffff;
    case NBX_INT32: return word & 0x7fffffff;
    default: return word;
    }
}

static int64_t range_of(nbx_draw *d) {
    if (d->range == 0) return (int64_t)nbx_generator_next64(d->g);
    const uint64_t word = d->range >= (uint64_t)1 << 28 ? nbx_generator_next64(d->g) : nbx_generator_next32(d->g);
    return (int64_t)(word % d->range + (uint64_t)d->base);
}

static void draw_one(nbx_draw *d, char *to, const char *second, const char *third) {
    nbx_generator *g = d->g;
    double p;
    switch (d->kind) {
    case DRAW_UNIFORM: element_set_double(d->dtype, to, uniform_of(d)); break;
    case DRAW_NORMAL: element_set_double(d->dtype, to, nbx_generator_normal(g) * d->b + d->a); break;
    case DRAW_LOG_NORMAL: element_set_double(d->dtype, to, exp(nbx_generator_normal(g) * d->b + d->a)); break;
    case DRAW_EXPONENTIAL: element_set_double(d->dtype, to, -1 / d->a * log1p(-nbx_generator_double(g))); break;
    case DRAW_GEOMETRIC: element_set_double(d->dtype, to, ceil(log(nbx_generator_double(g)) / log1p(-d->a))); break;
    case DRAW_CAUCHY: element_set_double(d->dtype, to, cauchy_of(d)); break;
    case DRAW_BERNOULLI: element_set_double(d->dtype, to, nbx_generator_double(g) < d->a); break;
    case DRAW_BERNOULLI_TENSOR:
        p = element_double(d->second_dtype, second);
        d->failed += !(p >= 0 && p <= 1);
        element_set_double(d->dtype, to, d->second_dtype == NBX_FLOAT64 ? nbx_generator_double(g) < p : nbx_generator_float(g) < (float)p);
        break;
    case DRAW_FULL:
        if (nbx_dtype_is_float(d->dtype)) element_set_double(d->dtype, to, (double)full_of(d));
        else element_set_int(d->dtype, to, full_of(d));
        break;
    case DRAW_RANGE:
        if (nbx_dtype_is_float(d->dtype)) element_set_double(d->dtype, to, (double)range_of(d));
        else element_set_int(d->dtype, to, range_of(d));
        break;
    case DRAW_POISSON:
        p = element_double(d->second_dtype, second);
        d->failed += !(p >= 0);
        element_set_double(d->dtype, to, p >= 0 ? (double)poisson_of(g, p) : 0);
        break;
    case DRAW_GAMMA: {
        const double x = gamma_of(g, element_double(d->second_dtype, second));
        const double least = d->dtype == NBX_FLOAT64 ? 2.2250738585072014e-308 : 1.17549435e-38;
        element_set_double(d->dtype, to, x < least ? least : x);
        break;
    }
    case DRAW_BINOMIAL: {
        const double count = element_double(d->second_dtype, second);
        p = element_double(d->third_dtype, third);
        d->failed += !(count >= 0 && p >= 0 && p <= 1);
        element_set_double(d->dtype, to, binomial_of(g, count, p));
        break;
    }
    }
}

// Dense uniform float32, as uniform_of makes one.
static void uniform_run(nbx_draw *d, float *to, int64_t count) {
    const float low = (float)d->a, span = (float)d->b - (float)d->a;
    uint32_t words[256];
    for (int64_t i = 0; i < count; i += 256) {
        const int64_t n = count - i < 256 ? count - i : 256;
        nbx_generator_fill32(d->g, words, n);
        for (int64_t k = 0; k < n; k++) to[i + k] = (float)(int32_t)(words[k] & 0xffffff) * 0x1p-24f * span + low;
    }
}

// Dense float32 of 0 and 1: 53 bits of two words below p, compared as integers.
static void bernoulli_run(nbx_draw *d, float *to, int64_t count) {
    const uint64_t below = (uint64_t)ceil(d->a * 0x1p53), bits = ((uint64_t)1 << 53) - 1;
    uint32_t words[512];
    for (int64_t i = 0; i < count; i += 256) {
        const int64_t n = count - i < 256 ? count - i : 256;
        nbx_generator_fill32(d->g, words, 2 * n);
        for (int64_t k = 0; k < n; k++) to[i + k] = (((uint64_t)words[2 * k] << 32 | words[2 * k + 1]) & bits) < below ? 1.0f : 0.0f;
    }
}

static void draw_run(void *arg, char *const *pointers, const int64_t *strides, int64_t count) {
    nbx_draw *d = arg;
    if (d->kind == DRAW_UNIFORM && d->dtype == NBX_FLOAT32 && strides[0] == 4) {
        uniform_run(d, (float *)(void *)pointers[0], count);
        return;
    }
    if (d->kind == DRAW_BERNOULLI && d->dtype == NBX_FLOAT32 && strides[0] == 4) {
        bernoulli_run(d, (float *)(void *)pointers[0], count);
        return;
    }
    const bool two = d->second_dtype != NBX_DTYPE_NONE, three = d->third_dtype != NBX_DTYPE_NONE;
    for (int64_t i = 0; i < count; i++)
        draw_one(d, pointers[0] + i * strides[0], two ? pointers[1] + i * strides[1] : NULL, three ? pointers[2] + i * strides[2] : NULL);
}

// ------------------------------------------------------------------------------------------- 16 normals from 16 uniforms
// Half precision rounds after every step, as ATen's scalar code does there.
ELEMENT_INLINE float step_of(nbx_dtype d, float x) {
    if (d == NBX_FLOAT16) return nbx_from_f16(nbx_to_f16(x));
    return d == NBX_BFLOAT16 ? nbx_from_bf16(nbx_to_bf16(x)) : x;
}

ELEMENT_INLINE void pairs_of(nbx_dtype d, float mean, float std, double *u) {
    for (int j = 0; j < 8; j++) {
        const float u1 = step_of(d, 1 - (float)u[j]), u2 = (float)u[j + 8];
        const float radius = step_of(d, sqrtf(step_of(d, -2 * step_of(d, logf(u1)))));
        const float angle = step_of(d, 2.0f * 3.14159265358979323846f * u2);
        u[j] = (double)(step_of(d, step_of(d, radius * step_of(d, cosf(angle))) * std) + mean);
        u[j + 8] = (double)(step_of(d, step_of(d, radius * step_of(d, sinf(angle))) * std) + mean);
    }
}

static void box_muller(nbx_draw *d, double *u) {
    if (d->dtype == NBX_FLOAT16) pairs_of(NBX_FLOAT16, step_of(NBX_FLOAT16, (float)d->a), step_of(NBX_FLOAT16, (float)d->b), u);
    else if (d->dtype == NBX_BFLOAT16) pairs_of(NBX_BFLOAT16, step_of(NBX_BFLOAT16, (float)d->a), step_of(NBX_BFLOAT16, (float)d->b), u);
    for (int j = 0; d->dtype == NBX_FLOAT64 && j < 8; j++) {
        const double radius = sqrt(-2 * log(1 - u[j])), angle = 2.0 * 3.14159265358979323846 * u[j + 8];
        u[j] = radius * cos(angle) * d->b + d->a;
        u[j + 8] = radius * sin(angle) * d->b + d->a;
    }
}

// The uniforms are all drawn first; what the last 16 overlap is drawn anew.
static void normal_blocks_f32(nbx_draw *d, float *to, int64_t count) {
    static void (*const pairs[3])(float *, int64_t, float, float) = NBX_CPU_KERNEL(nbx_normal_pairs);
    nbx_draw unit = *d;
    unit.a = 0, unit.b = 1;
    uniform_run(&unit, to, count);
    pairs[d->isa](to, count / 16 * 16, (float)d->a, (float)d->b);
    if (count % 16 == 0) return;
    uniform_run(&unit, to + count - 16, 16);
    pairs[d->isa](to + count - 16, 16, (float)d->a, (float)d->b);
}

static void normal_blocks(nbx_draw *d, char *to, int64_t count) {
    if (d->dtype == NBX_FLOAT32) {
        normal_blocks_f32(d, (float *)(void *)to, count);
        return;
    }
    const int64_t width = (int64_t)nbx_dtype_size(d->dtype);
    nbx_draw unit = *d;
    double u[16];
    unit.kind = DRAW_UNIFORM, unit.a = 0, unit.b = 1;
    for (int64_t i = 0; i < count; i++) draw_one(&unit, to + i * width, NULL, NULL);
    for (int64_t i = 0; i + 16 <= count; i += 16) {
        for (int j = 0; j < 16; j++) u[j] = element_double(d->dtype, to + (i + j) * width);
        box_muller(d, u);
        for (int j = 0; j < 16; j++) element_set_double(d->dtype, to + (i + j) * width, u[j]);
    }
    if (count % 16 == 0) return;
    for (int j = 0; j < 16; j++) u[j] = uniform_of(&unit);
    box_muller(d, u);
    for (int j = 0; j < 16; j++) element_set_double(d->dtype, to + (count - 16 + j) * width, u[j]);
}

// --------------------------------------------------------------------------------------------------------------- checks
static double parameter(const nbx_op_call *c, int arg, double standard) {
    return arg >= 0 && nbx_is_scalar_kind(c->args[arg].kind) ? nbx_scalar_to_double(&c->args[arg]) : standard;
}

static bool takes_floats_only(draw_kind kind) {
    return kind == DRAW_UNIFORM || kind == DRAW_NORMAL || kind == DRAW_LOG_NORMAL || kind == DRAW_EXPONENTIAL || kind == DRAW_CAUCHY;
}

// Integers from..to - 1 that a range may give: they must fit the dtype.
static nbx_status check_range(nbx_op_call *c, nbx_dtype d, int64_t from, int64_t to) {
    if (from >= to) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "from %lld must be less than to %lld", (long long)from, (long long)to);
    if (nbx_dtype_is_float(d) || d == NBX_INT64 || d == NBX_UINT64) return NBX_OK;
    const int bits = d == NBX_BOOL ? 1 : 8 * (int)nbx_dtype_size(d);
    const int64_t low = nbx_dtype_is_signed(d) ? -((int64_t)1 << (bits - 1)) : 0;
    const int64_t high = nbx_dtype_is_signed(d) ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
    if (from < low || to - 1 > high)
        return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "[%lld, %lld] is out of %s's range", (long long)from, (long long)to - 1, nbx_dtype_name(d));
    return NBX_OK;
}

// The greatest integer of random_(from, None).
static int64_t greatest_of(nbx_dtype d) {
    switch (d) {
    case NBX_FLOAT64: return (int64_t)1 << 53;
    case NBX_FLOAT32: return 1 << 24;
    case NBX_FLOAT16: return 1 << 11;
    case NBX_BFLOAT16: return 1 << 8;
    case NBX_BOOL: return 1;
    case NBX_INT64:
    case NBX_UINT64: return INT64_MAX;
    default: return ((int64_t)1 << (8 * nbx_dtype_size(d) - nbx_dtype_is_signed(d))) - 1;
    }
}

nbx_status nbx_draw_of(nbx_op_call *c, nbx_dtype dtype, nbx_draw *d) {
    const nbx_fill_form *f = c->op->data;
    *d = (nbx_draw){.dtype = dtype, .second_dtype = NBX_DTYPE_NONE, .third_dtype = NBX_DTYPE_NONE, .kind = f->kind};
    d->a = parameter(c, f->a, f->standard_a);
    d->b = parameter(c, f->b, f->standard_b);
    if (takes_floats_only(f->kind) && !nbx_dtype_is_float(dtype) && !nbx_dtype_is_complex(dtype))
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "takes floating tensors, not %s", nbx_dtype_name(dtype));
    if (nbx_dtype_is_float8(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not accepted", nbx_dtype_name(dtype));
    switch (f->kind) {
    case DRAW_UNIFORM:
        if (!(d->a <= d->b) || !isfinite(d->a) || !isfinite(d->b)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "[%g, %g) is no range", d->a, d->b);
        break;
    case DRAW_NORMAL:
    case DRAW_LOG_NORMAL:
        if (!(d->b >= 0) || (f->kind == DRAW_LOG_NORMAL && d->b == 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "std %g is not allowed", d->b);
        break;
    case DRAW_EXPONENTIAL:
    case DRAW_CAUCHY:
        if (!((f->kind == DRAW_CAUCHY ? d->b : d->a) > 0)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "its scale must be positive");
        break;
    case DRAW_GEOMETRIC:
        if (!(d->a > 0 && d->a < 1)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p %g lies outside (0, 1)", d->a);
        break;
    case DRAW_BERNOULLI:
        if (!(d->a >= 0 && d->a <= 1)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "p %g lies outside [0, 1]", d->a);
        break;
    case DRAW_RANGE: {
        if (nbx_dtype_is_complex(dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(dtype));
        const int64_t from = f->a >= 0 ? arg_int(c, f->a) : 0;
        if (f->b >= 0 && arg_is_none(c, f->b)) {
            const int64_t last = greatest_of(dtype);
            if (from > last) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "from %lld is out of %s's range", (long long)from, nbx_dtype_name(dtype));
            d->range = (uint64_t)last - (uint64_t)from + 1;
        } else {
            const int64_t to = arg_tensor(c, f->b) ? 0 : arg_int(c, f->b);
            if (check_range(c, dtype, from, to) != NBX_OK) return c->ctx->status;
            d->range = (uint64_t)to - (uint64_t)from;
        }
        d->base = from;
        break;
    }
    default: break;
    }
    return NBX_OK;
}

static nbx_status fill_infer(nbx_op_call *c) {
    const nbx_fill_form *f = c->op->data;
    nbx_draw d;
    if (f->size >= 0) {  // a factory; of its out= form the dtype is that of out
        int rank;
        const int64_t *shape = arg_ints(c, f->size, &rank);
        nbx_dtype dtype = f->kind == DRAW_RANGE ? NBX_INT64 : NBX_FLOAT32;
        for (int i = f->size + 1; i < c->arg_count; i++) {
            if (c->args[i].kind == NBX_KIND_DTYPE) dtype = c->args[i].as.dtype;
            if (c->args[i].kind == NBX_KIND_TENSOR && c->schema->params[i].written) dtype = (nbx_dtype)c->args[i].as.tensor->dtype;
        }
        for (int i = 0; i < rank; i++)
            if (shape[i] < 0) return nbx_call_fail(c, NBX_ERROR_SHAPE, "size %lld of dim %d is negative", (long long)shape[i], i);
        return nbx_draw_of(c, dtype, &d) == NBX_OK && out_new(c, 0, dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
    }
    const nbx_tensor *self = arg_tensor(c, f->like);
    nbx_dtype dtype = (nbx_dtype)self->dtype;
    nbx_memory_format format = NBX_PRESERVE_FORMAT;
    for (int i = f->like + 1; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_DTYPE) dtype = c->args[i].as.dtype;
        if (c->args[i].kind == NBX_KIND_MEMORY_FORMAT) format = c->args[i].as.memory_format;
    }
    const nbx_tensor *target = nbx_call_target(c, 0);
    const bool in_target = strstr(c->op->name, "_like") || !strcmp(c->op->name, "aten::bernoulli");  // these draw in the dtype of out
    if (target && in_target) dtype = (nbx_dtype)target->dtype;
    if (nbx_draw_of(c, dtype, &d) != NBX_OK) return c->ctx->status;
    if (f->kind == DRAW_BERNOULLI_TENSOR || f->kind == DRAW_POISSON || f->kind == DRAW_GAMMA) {
        const nbx_tensor *p = arg_tensor(c, f->a);
        if (!nbx_dtype_is_float((nbx_dtype)p->dtype)) return nbx_call_fail(c, NBX_ERROR_DTYPE, "its parameter must be floating, not %s", nbx_dtype_name((nbx_dtype)p->dtype));
        int rank = self->rank;
        int64_t shape[NBX_MAX_RANK];
        memcpy(shape, self->shape, sizeof(int64_t) * (size_t)rank);
        if (nbx_broadcast(c, &rank, shape, p->rank, p->shape) != NBX_OK) return c->ctx->status;
        if (!nbx_shape_equal(rank, shape, self->rank, self->shape)) return nbx_call_fail(c, NBX_ERROR_SHAPE, "p has more elements than self");
    }
    if (f->kind == DRAW_BINOMIAL) {
        const nbx_tensor *p = arg_tensor(c, f->b);
        if (!nbx_dtype_is_float(dtype) || p->dtype != dtype)
            return nbx_call_fail(c, NBX_ERROR_DTYPE, "count and prob must have one floating dtype, not %s and %s", nbx_dtype_name(dtype), nbx_dtype_name((nbx_dtype)p->dtype));
        int rank = self->rank;
        int64_t shape[NBX_MAX_RANK];
        memcpy(shape, self->shape, sizeof(int64_t) * (size_t)rank);
        if (nbx_broadcast(c, &rank, shape, p->rank, p->shape) != NBX_OK) return c->ctx->status;
        return out_new(c, 0, dtype, rank, shape, NULL) ? NBX_OK : c->ctx->status;
    }
    if (format == NBX_PRESERVE_FORMAT) return out_like(c, 0, dtype, self) ? NBX_OK : c->ctx->status;
    int64_t stride[NBX_MAX_RANK];
    nbx_strides_format(format, self->rank, self->shape, stride);
    return out_new(c, 0, dtype, self->rank, self->shape, stride) ? NBX_OK : c->ctx->status;
}

// --------------------------------------------------------------------------------------------------------------- kernel
// Complex numbers are pairs, drawn one after another; the parts of a standard normal have half the variance.
static nbx_status fill_pairs(nbx_draw *d, const nbx_tensor *out) {
    nbx_tensor parts = *out;
    int64_t shape[NBX_MAX_RANK + 1], stride[NBX_MAX_RANK + 1];
    for (int i = 0; i < out->rank; i++) shape[i] = out->shape[i], stride[i] = 2 * out->stride[i];
    shape[out->rank] = 2, stride[out->rank] = 1;
    parts.rank = (int16_t)(out->rank + 1), parts.shape = shape, parts.stride = stride;
    parts.offset *= 2, parts.numel *= 2;
    parts.dtype = (uint8_t)nbx_dtype_to_real((nbx_dtype)out->dtype);
    d->dtype = (nbx_dtype)parts.dtype;
    if (d->kind == DRAW_NORMAL) d->b /= sqrt(2);
    if (d->kind == DRAW_NORMAL && parts.numel >= 16 && out->contiguous) {
        normal_blocks(d, nbx_data(&parts), parts.numel);
        return NBX_OK;
    }
    nbx_iter it;
    const nbx_tensor *operands[1] = {&parts};
    nbx_iter_plan(&it, parts.rank, shape, 1, operands);
    char *base[1] = {nbx_data(&parts)};
    nbx_iter_walk(&it, base, 0, parts.numel, draw_run, d);
    return NBX_OK;
}

static nbx_status fill(nbx_op_call *c) {
    const nbx_fill_form *f = c->op->data;
    const nbx_tensor *out = out_get(c, 0);
    nbx_draw d;
    if (nbx_draw_of(c, (nbx_dtype)out->dtype, &d) != NBX_OK) return c->ctx->status;
    d.isa = c->ctx->isa;
    d.g = nbx_generator_of(c, f->generator);
    if (d.g == NULL) return c->ctx->status;
    if (out->numel == 0) return NBX_OK;
    if (nbx_dtype_is_complex(d.dtype)) {
        if (d.kind != DRAW_UNIFORM && d.kind != DRAW_NORMAL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "is not defined for %s", nbx_dtype_name(d.dtype));
        return fill_pairs(&d, out);
    }
    if (d.kind == DRAW_NORMAL && out->numel >= 16 && out->contiguous) {
        normal_blocks(&d, nbx_data(out), out->numel);
        return NBX_OK;
    }
    const nbx_tensor *operands[3] = {out, NULL, NULL};
    char *base[3] = {nbx_data(out), NULL, NULL};
    int count = 1;
    if (f->kind == DRAW_BERNOULLI_TENSOR || f->kind == DRAW_POISSON || f->kind == DRAW_GAMMA || f->kind == DRAW_BINOMIAL) {
        operands[count] = arg_tensor(c, f->a);
        d.second_dtype = (nbx_dtype)operands[count]->dtype;
        base[count] = nbx_data(operands[count]);
        count++;
    }
    if (f->kind == DRAW_BINOMIAL) {
        operands[count] = arg_tensor(c, f->b);
        d.third_dtype = (nbx_dtype)operands[count]->dtype;
        base[count] = nbx_data(operands[count]);
        count++;
    }
    nbx_iter it;
    nbx_iter_plan(&it, out->rank, out->shape, count, operands);
    nbx_iter_walk(&it, base, 0, out->numel, draw_run, &d);
    return d.failed ? nbx_call_fail(c, NBX_ERROR_ARGUMENT, "a parameter of %lld elements is out of range", (long long)d.failed) : NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------- randperm
static nbx_status randperm_infer(nbx_op_call *c) {
    const int64_t n = arg_int(c, 0);
    nbx_dtype dtype = NBX_INT64;
    for (int i = 1; i < c->arg_count; i++) {
        if (c->args[i].kind == NBX_KIND_DTYPE) dtype = c->args[i].as.dtype;
        if (c->args[i].kind == NBX_KIND_TENSOR) dtype = (nbx_dtype)c->args[i].as.tensor->dtype;
    }
    if (n < 0) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "n %lld is negative", (long long)n);
    if (nbx_dtype_is_complex(dtype) || dtype == NBX_BOOL) return nbx_call_fail(c, NBX_ERROR_DTYPE, "%s is not accepted", nbx_dtype_name(dtype));
    if (n > 0 && n - 1 > greatest_of(dtype)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "n %lld is too large for %s", (long long)n, nbx_dtype_name(dtype));
    c->scratch_bytes = sizeof(int64_t) * (size_t)n;
    if (c->device.type != NBX_CPU) c->scratch_bytes += 256 + nbx_device_sort_bytes(1, n);
    return out_new(c, 0, dtype, 1, &n, NULL) ? NBX_OK : c->ctx->status;
}

static nbx_status randperm(nbx_op_call *c) {
    const nbx_tensor *out = out_get(c, 0);
    const int64_t n = out->numel;
    int64_t *order = c->scratch;
    nbx_generator *g = nbx_generator_of(c, c->args[1].kind == NBX_KIND_GENERATOR ? 1 : -1);
    if (g == NULL) return c->ctx->status;
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t i = 0; i + 1 < n; i++) {
        const int64_t left = n - i, z = (int64_t)((n > UINT32_MAX ? nbx_generator_next64(g) : nbx_generator_next32(g)) % (uint64_t)left);
        const int64_t t = order[i];
        order[i] = order[i + z];
        order[i + z] = t;
    }
    if (n > 0) nbx_convert_run((nbx_dtype)out->dtype, nbx_data(out), out->stride[0] * (int64_t)nbx_dtype_size((nbx_dtype)out->dtype), NBX_INT64, (const char *)order, 8, n);
    return NBX_OK;
}

// randint_like.Tensor(self, high, *, dtype, ...): high is the one element of a tensor.
static nbx_status randint_like_tensor(nbx_op_call *c) {
    const nbx_tensor *high = arg_tensor(c, 1);
    nbx_value args[NBX_MAX_ARGS];
    if (high->numel != 1) return nbx_call_fail(c, NBX_ERROR_SHAPE, "high must have one element, not %lld", (long long)high->numel);
    memcpy(args, c->args, sizeof *args * (size_t)c->arg_count);
    const nbx_status status = nbx_do_many(c->ctx, "aten::_local_scalar_dense", 1, &c->args[1], &args[1], 1);
    if (status != NBX_OK) return status;
    args[1] = nbx_of_int(nbx_scalar_to_int(&args[1]));
    const bool into = c->schema->params[c->arg_count - 1].written;
    if (!into) return nbx_forward(c, "aten::randint_like", c->arg_count, args);
    const nbx_value like[] = {args[0], args[1], nbx_of_dtype((nbx_dtype)arg_tensor(c, c->arg_count - 1)->dtype)};
    return nbx_forward(c, "aten::randint_like", 3, like);
}

// -------------------------------------------------------------------------------------------------------------- the rows
#define FILL(overload, ...)                                                                                            \
    {.name = "aten::" overload, .infer = fill_infer, .cpu = NBX_CPU_KERNEL_ONE(fill), .flags = NBX_OP_STRIDED_SAME | NBX_OP_RANDOM, .data = &(const nbx_fill_form){__VA_ARGS__}}
#define LIKE(kind, a, b, generator) kind, a, b, generator, -1, -1, 0, 0, 1
#define MAKE(kind, a, b, generator, size) kind, a, b, generator, size, size + 1, -1, 0, 1
const nbx_op nbx_ops_random[] = {
    FILL("uniform", LIKE(DRAW_UNIFORM, 1, 2, 3)),
    FILL("normal_functional", LIKE(DRAW_NORMAL, 1, 2, 3)),
    FILL("log_normal", LIKE(DRAW_LOG_NORMAL, 1, 2, 3)),
    FILL("exponential", LIKE(DRAW_EXPONENTIAL, 1, -1, 2)),
    FILL("geometric", LIKE(DRAW_GEOMETRIC, 1, -1, 2)),
    FILL("cauchy", LIKE(DRAW_CAUCHY, 1, 2, 3)),
    FILL("bernoulli", LIKE(DRAW_BERNOULLI_TENSOR, 0, -1, 1)),
    FILL("bernoulli.p", LIKE(DRAW_BERNOULLI, 1, -1, 2)),
    FILL("bernoulli.Tensor", LIKE(DRAW_BERNOULLI_TENSOR, 1, -1, 2)),
    FILL("random", LIKE(DRAW_FULL, -1, -1, 1)),
    FILL("random.from", LIKE(DRAW_RANGE, 1, 2, 3)),
    FILL("random.to", LIKE(DRAW_RANGE, -1, 1, 2)),
    FILL("poisson", LIKE(DRAW_POISSON, 0, -1, 1)),
    FILL("_standard_gamma", LIKE(DRAW_GAMMA, 0, -1, 1)),
    FILL("binomial", LIKE(DRAW_BINOMIAL, 0, 1, 2)),
    FILL("normal.float_float", MAKE(DRAW_NORMAL, 0, 1, 3, 2)),
    FILL("rand", MAKE(DRAW_UNIFORM, -1, -1, -1, 0)),
    FILL("rand.generator", MAKE(DRAW_UNIFORM, -1, -1, 1, 0)),
    FILL("randn", MAKE(DRAW_NORMAL, -1, -1, -1, 0)),
    FILL("randn.generator", MAKE(DRAW_NORMAL, -1, -1, 1, 0)),
    FILL("randint", MAKE(DRAW_RANGE, -1, 0, -1, 1)),
    FILL("randint.generator", MAKE(DRAW_RANGE, -1, 0, 2, 1)),
    FILL("randint.low", MAKE(DRAW_RANGE, 0, 1, -1, 2)),
    FILL("randint.low_generator", MAKE(DRAW_RANGE, 0, 1, 3, 2)),
    FILL("rand_like", LIKE(DRAW_UNIFORM, -1, -1, -1)),
    FILL("rand_like.generator", LIKE(DRAW_UNIFORM, -1, -1, 1)),
    FILL("randn_like", LIKE(DRAW_NORMAL, -1, -1, -1)),
    FILL("randn_like.generator", LIKE(DRAW_NORMAL, -1, -1, 1)),
    FILL("randint_like", LIKE(DRAW_RANGE, -1, 1, -1)),
    FILL("randint_like.generator", LIKE(DRAW_RANGE, -1, 1, 2)),
    FILL("randint_like.low_dtype", LIKE(DRAW_RANGE, 1, 2, -1)),
    FILL("randint_like.low_generator_dtype", LIKE(DRAW_RANGE, 1, 2, 3)),
    {.name = "aten::randint_like.Tensor", .composite = randint_like_tensor, .flags = NBX_OP_RANDOM | NBX_OP_READS_BACK},
    {.name = "aten::randperm", .infer = randperm_infer, .cpu = NBX_CPU_KERNEL_ONE(randperm), .flags = NBX_OP_STRIDED_SAME | NBX_OP_RANDOM},
    {.name = "aten::randperm.generator", .infer = randperm_infer, .cpu = NBX_CPU_KERNEL_ONE(randperm), .flags = NBX_OP_STRIDED_SAME | NBX_OP_RANDOM},
    NBX_OPS_END,
};
