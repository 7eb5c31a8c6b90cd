// Runs the passes of a call, and fills in the half of a spectrum of real numbers that symmetry gives.
#include "cpu/simd.h"

#include <string.h>

#include "cpu/pool.h"
#include "ops/shape/move.h"
#include "ops/fft/fft_job.h"

typedef struct mirror_job {
    const nbx_tensor *y;
    uint64_t dims;
    int last;
} mirror_job;

// y[..., k] = conj(y[..., n - k]) with the other transformed dims mirrored, for k > n / 2.
static void mirror_lines(void *arg, int64_t begin, int64_t end, int thread)
{
    const mirror_job *m = arg;
    const nbx_tensor *y = m->y;
    const int64_t n = y->shape[m->last], step = y->stride[m->last];
    const size_t size = nbx_dtype_size((nbx_dtype)y->dtype);
    char *data = nbx_data(y);
    (void)thread;
    for (int64_t line = begin; line < end; line++) {
        int64_t left = line, to = 0, from = 0;
        for (int d = y->rank - 1; d >= 0; d--) {
            if (d == m->last) continue;
            const int64_t i = left % y->shape[d];
            left /= y->shape[d];
            to += i * y->stride[d];
            from += ((m->dims >> d & 1) && i ? y->shape[d] - i : i) * y->stride[d];
        }
        for (int64_t k = n / 2 + 1; k < n; k++) {
            char *a = data + (to + k * step) * (int64_t)size;
            const char *b = data + (from + (n - k) * step) * (int64_t)size;
            memcpy(a, b, size);
            if (size == 8) ((float *)(void *)a)[1] = -((float *)(void *)a)[1];
            else ((double *)(void *)a)[1] = -((double *)(void *)a)[1];
        }
    }
}

nbx_status NBX_KERNEL(fft_cpu)(nbx_op_call *call)
{
    fft_job *job = call->state;
    const nbx_tensor *x = arg_tensor(call, 0), *y = out_get(call, 0);
    if (y->numel == 0) return NBX_OK;
    if (job->passes == 0) nbx_move_tensor(call->pool, y, x);
    void *buffer[3] = {nbx_data(x), nbx_data(y), call->scratch};
    char *work = (char *)call->scratch + job->work_at;
    for (int i = 0; i < job->passes; i++) {
        fft_pass *pass = &job->pass[i];
        const fft_plan *plan = (const fft_plan *)(const void *)((const char *)job + pass->plan);
        pass->lines.in = buffer[pass->from], pass->lines.out = buffer[pass->to];
        if (plan->double_precision) NBX_KERNEL(fft_run_f64)(plan, &pass->lines, call->pool, work);
        else NBX_KERNEL(fft_run_f32)(plan, &pass->lines, call->pool, work);
    }
    if (job->mirror) {
        mirror_job m = {y, job->dims, job->last};
        nbx_parallel_for(call->pool, y->numel / y->shape[job->last], 1 + 4096 / y->shape[job->last], mirror_lines, &m);
    }
    return NBX_OK;
}
