// torchaudio::_lfilter_core_loop: the feedback of an IIR filter.
//   input_signal_windows [batch, channels, n]    a_coeff_flipped [channels, order]    padded_output_waveform, written in place,
//   [batch, channels, n + order - 1]: y[i + order - 1] = x[i] - sum over k of a[k] y[i + k]
#include "cpu/pool.h"
#include "ops/op.h"
#include "ops/shape/element.h"

static nbx_status infer(nbx_op_call *c) {
    const nbx_tensor *x = arg_tensor(c, 0), *a = arg_tensor(c, 1), *y = arg_tensor(c, 2);
    const nbx_dtype dtype = (nbx_dtype)x->dtype;
    if ((dtype != NBX_FLOAT32 && dtype != NBX_FLOAT64) || a->dtype != x->dtype || y->dtype != x->dtype)
        return nbx_call_fail(c, NBX_ERROR_DTYPE, "needs float32 or float64 throughout");
    if (x->rank != 3 || a->rank != 2 || y->rank != 3 || a->shape[0] != x->shape[1] || a->shape[1] < 1 || y->shape[0] != x->shape[0] ||
        y->shape[1] != x->shape[1] || y->shape[2] != x->shape[2] + a->shape[1] - 1)
        return nbx_call_fail(c, NBX_ERROR_SHAPE, "windows, coefficients and padded output do not fit together");
    if (nbx_has_internal_overlap(y)) return nbx_call_fail(c, NBX_ERROR_ARGUMENT, "some elements of the tensor to write share memory: clone it first");
    return out_tensor(c, 0, y);
}

static char *at(const nbx_tensor *t, int64_t offset) { return (char *)nbx_data(t) + offset * (int64_t)nbx_dtype_size((nbx_dtype)t->dtype); }

typedef struct job { const nbx_tensor *x, *a, *y; } job;

// Lines of one batch and channel. float64 sums in order; float32 the same in double, rounded once a sample.
static void filter_lines(void *arg, int64_t begin, int64_t end, int thread) {
    const job *j = arg;
    const nbx_dtype dtype = (nbx_dtype)j->x->dtype;
    const int64_t channels = j->x->shape[1], n = j->x->shape[2], order = j->a->shape[1];
    (void)thread;
    for (int64_t line = begin; line < end; line++) {
        const int64_t b = line / channels, c = line % channels;
        const int64_t x = b * j->x->stride[0] + c * j->x->stride[1], y = b * j->y->stride[0] + c * j->y->stride[1], a = c * j->a->stride[0];
        for (int64_t i = 0; i < n; i++) {
            double sum = element_double(dtype, at(j->x, x + i * j->x->stride[2]));
            for (int64_t k = 0; k < order; k++)
                sum -= element_double(dtype, at(j->a, a + k * j->a->stride[1])) * element_double(dtype, at(j->y, y + (i + k) * j->y->stride[2]));
            element_set_double(dtype, at(j->y, y + (i + order - 1) * j->y->stride[2]), sum);
        }
    }
}

static nbx_status run(nbx_op_call *c) {
    job j = {arg_tensor(c, 0), arg_tensor(c, 1), arg_tensor(c, 2)};
    if (j.x->numel) nbx_parallel_for(c->pool, j.x->shape[0] * j.x->shape[1], 1 + 4096 / j.x->shape[2], filter_lines, &j);
    return NBX_OK;
}

const nbx_op nbx_ops_lfilter[] = {
    {.name = "torchaudio::_lfilter_core_loop", .infer = infer, .cpu = NBX_CPU_KERNEL_ONE(run), .flags = NBX_OP_IN_PLACE | NBX_OP_EFFECT},
    NBX_OPS_END,
};
