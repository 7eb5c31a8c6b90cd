// upsample_*: nearest, linear and cubic resampling in one to three dims, with and without antialiasing.
#include <string.h>

#include "ops/resample/resample_table.h"

static const resample_form *form_of(const nbx_op_call *c) { return (const resample_form *)c->op->data; }

// Positions of the arguments after input and sizes.
static int arg_align(const resample_form *f) { return f->kind >= RESAMPLE_LINEAR ? 2 : -1; }
static int arg_scales(const resample_form *f) { return f->kind >= RESAMPLE_LINEAR ? 3 : 2; }

// ------------------------------------------------------------------------------------------------------------- checks
static nbx_status fail_input(nbx_op_call *c, const char *why) {
    char shape[NBX_SHAPE_TEXT];
    const nbx_tensor *x = arg_tensor(c, 0);
    return nbx_call_fail(c, NBX_ERROR_SHAPE, "input %s: %s", nbx_shape_text(x->rank, x->shape, shape, sizeof shape), why);
}

static nbx_status check_dtype(nbx_op_call *c, const resample_form *f) {
    const nbx_dtype d = (nbx_dtype)arg_tensor(c, 0)->dtype;
    const bool narrow = d == NBX_FLOAT16 || d == NBX_BFLOAT16;
    bool fits = nbx_dtype_is_float(d) && !nbx_dtype_is_float8(d) && !(narrow && f->antialias);
    fits |= d == NBX_UINT8 && (f->kind < RESAMPLE_LINEAR || f->dims == 2);
    return fits ? NBX_OK : nbx_call_fail(c, NBX_ERROR_DTYPE, "not defined for %s", nbx_dtype_name(d));
}

// Sizes of the result: given, or floor(size * factor).
static nbx_status read_sizes(nbx_op_call *c, const resample_form *f, int64_t *sizes) {
    const nbx_tensor *x = arg_tensor(c, 0);
    int count;
    const int64_t *given = arg_ints(c, 1, &count);
    if (f->vec) {
        const nbx_value *scales = &c->args[arg_scales(f)];
        const bool by_scale = scales->kind != NBX_KIND_NONE;
        if (by_scale == !arg_is_none(c, 1))
            return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "exactly one of output_size and scale_factors must be given");
        if (by_scale) {
            if (scales->count != f->dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "scale_factors needs %d numbers, found %d", f->dims, scales->count);
            for (int i = 0; i < f->dims; i++) {
                const double size = floor((double)x->shape[2 + i] * scales->as.floats[i]);
                if (!(size > -1 && size < 9e15)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "scale factor %g", scales->as.floats[i]);
                sizes[i] = (int64_t)size;
            }
            return NBX_OK;
        }
    }
    if (count != f->dims) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "output_size needs %d numbers, found %d", f->dims, count);
    for (int i = 0; i < f->dims; i++) sizes[i] = given[i];
    return NBX_OK;
}

static nbx_status infer(nbx_op_call *c) {
    const resample_form *f = form_of(c);
    const nbx_tensor *x = arg_tensor(c, 0);
    int64_t sizes[RESAMPLE_DIMS], shape[5], strides[5];
    if (x->rank != f->dims + 2) return fail_input(c, "wrong number of dims");
    nbx_status status = read_sizes(c, f, sizes);
    if (!status) status = check_dtype(c, f);
    if (status) return status;
    shape[0] = x->shape[0], shape[1] = x->shape[1];
    for (int i = 0; i < f->dims; i++) {
        if (x->shape[2 + i] < 1 || sizes[i] < 1 || x->shape[2 + i] > INT32_MAX || sizes[i] > INT32_MAX)
            return fail_input(c, "sizes of input and result must be positive");
        shape[2 + i] = sizes[i];
    }
    if (x->shape[1] == 0) return fail_input(c, "only the batch may be empty");
    const nbx_memory_format format = nbx_suggest_memory_format(x);
    if (format == NBX_CONTIGUOUS_FORMAT) nbx_strides_contiguous(x->rank, shape, strides);
    else nbx_strides_format(format, x->rank, shape, strides);
    if (!out_new(c, 0, (nbx_dtype)x->dtype, x->rank, shape, strides)) return c->ctx->status;
    nbx_resample p;
    resample_places places;
    nbx_resample_of(c, &p);
    nbx_resample_places(&p, c->ctx->threads, &places);
    c->scratch_bytes = places.total;
    return NBX_OK;
}

// ------------------------------------------------------------------------------------------------------------ numbers
static int taps_of(const nbx_resample *p, int d) {
    const int taps = p->kind == RESAMPLE_LINEAR ? 2 : p->kind == RESAMPLE_CUBIC ? 4 : 1;
    if (!p->antialias) return taps;
    if (p->axis[d].in == p->axis[d].out) return 1;  // copied, whatever the scale says
    const double support = taps * 0.5 * fmax(resample_step(p, d), 1.0);
    return support > 1e9 ? 1 : (int)ceil(support) * 2 + 1;
}

void nbx_resample_of(const nbx_op_call *c, nbx_resample *p) {
    const resample_form *f = form_of(c);
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    memset(p, 0, sizeof *p);
    p->dtype = (nbx_dtype)x->dtype;
    p->kind = (resample_kind)f->kind;
    p->antialias = f->antialias;
    p->dims = f->dims;
    p->align_corners = arg_align(f) >= 0 && arg_bool(c, arg_align(f));
    p->batch = x->shape[0], p->channels = x->shape[1];
    p->in_stride[0] = x->stride[0], p->in_stride[1] = x->stride[1];
    p->out_stride[0] = y->stride[0], p->out_stride[1] = y->stride[1];
    for (int d = 0; d < RESAMPLE_DIMS; d++) p->axis[d] = (resample_axis){1, 1, 0, 1};
    for (int i = 0; i < f->dims; i++) {
        const int d = RESAMPLE_DIMS - f->dims + i;
        const nbx_value *scale = &c->args[arg_scales(f) + (f->vec ? 0 : i)];
        const double factor = scale->kind == NBX_KIND_NONE ? 0 : f->vec ? scale->as.floats[i] : scale->as.real;
        p->axis[d] = (resample_axis){x->shape[2 + i], y->shape[2 + i], factor, 1};
        p->axis[d].taps = taps_of(p, d);
        p->in_stride[2 + d] = x->stride[2 + i], p->out_stride[2 + d] = y->stride[2 + i];
    }
    p->input = x->storage && x->numel ? nbx_data(x) : NULL;
    p->output = y->storage && y->numel ? nbx_data(y) : NULL;
}

void nbx_resample_table(const nbx_resample *p, int d, int32_t *index, double *weight) {
    const int taps = p->axis[d].taps;
    for (int64_t o = 0; o < p->axis[d].out; o++) resample_position(p, d, o, index + o * taps, weight + o * taps);
}

static size_t place(size_t *total, size_t bytes) {
    const size_t at = *total;
    *total += (bytes + 63) & ~(size_t)63;
    return at;
}

void nbx_resample_places(const nbx_resample *p, int threads, resample_places *places) {
    memset(places, 0, sizeof *places);
    for (int d = 0; d < RESAMPLE_DIMS; d++) {
        const size_t entries = (size_t)(p->axis[d].out * p->axis[d].taps);
        places->index[d] = place(&places->total, entries * sizeof(int32_t));
        places->weight[d] = place(&places->total, entries * sizeof(double));
    }
    places->threads = places->total;
    // A row of sums; for bytes, the plane after the first pass.
    if (p->dtype == NBX_UINT8) place(&places->thread_bytes, (size_t)(p->axis[1].in * p->axis[2].out));
    else place(&places->thread_bytes, (size_t)(p->axis[2].in + 16) * sizeof(double));
    places->total += places->thread_bytes * (size_t)threads;
}

static void cost(const nbx_op_call *c, nbx_cost *cost) {
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const double size = (double)nbx_dtype_size((nbx_dtype)x->dtype);
    nbx_resample p;
    nbx_resample_of(c, &p);
    cost->flops = 2 * (double)y->numel * (double)(p.axis[0].taps * p.axis[1].taps + p.axis[2].taps);
    cost->bytes_read = (double)x->numel * size;
    cost->bytes_written = (double)y->numel * size;
    cost->scratch_bytes = c->scratch_bytes;
}

#define RESAMPLE(NAME, KIND, DIMS, AA)                                                                                 \
    {.name = NAME, .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL(resample_cpu), .flags = NBX_OP_EXACT_OUT,       \
     .data = &(const resample_form){KIND, DIMS, AA, false}},                                                           \
    {.name = NAME ".vec", .infer = infer, .cost = cost, .cpu = NBX_CPU_KERNEL(resample_cpu), .flags = NBX_OP_EXACT_OUT,\
     .data = &(const resample_form){KIND, DIMS, AA, true}}

const nbx_op nbx_ops_resample[] = {
    RESAMPLE("aten::upsample_nearest1d", RESAMPLE_NEAREST, 1, false),
    RESAMPLE("aten::upsample_nearest2d", RESAMPLE_NEAREST, 2, false),
    RESAMPLE("aten::upsample_nearest3d", RESAMPLE_NEAREST, 3, false),
    RESAMPLE("aten::_upsample_nearest_exact1d", RESAMPLE_NEAREST_EXACT, 1, false),
    RESAMPLE("aten::_upsample_nearest_exact2d", RESAMPLE_NEAREST_EXACT, 2, false),
    RESAMPLE("aten::_upsample_nearest_exact3d", RESAMPLE_NEAREST_EXACT, 3, false),
    RESAMPLE("aten::upsample_linear1d", RESAMPLE_LINEAR, 1, false),
    RESAMPLE("aten::upsample_bilinear2d", RESAMPLE_LINEAR, 2, false),
    RESAMPLE("aten::upsample_trilinear3d", RESAMPLE_LINEAR, 3, false),
    RESAMPLE("aten::upsample_bicubic2d", RESAMPLE_CUBIC, 2, false),
    RESAMPLE("aten::_upsample_bilinear2d_aa", RESAMPLE_LINEAR, 2, true),
    RESAMPLE("aten::_upsample_bicubic2d_aa", RESAMPLE_CUBIC, 2, true),
    NBX_OPS_END,
};
