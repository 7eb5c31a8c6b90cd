// Normalisations on CUDA.
//   layer_norm, rms_norm   a warp (to 1024 elements) or a block per row; rows of at most 16384 dense elements stay in
//                          registers: read once, moments exact in two steps; longer ones are read again (from L2)
//   group_norm             a dense group is held in the registers of a block (to 64 KB), in its shared memory (to 200 KB), or in
//                          that of a cluster, 73 KB in each: read once
//   batch_norm, group_norm otherwise: moments by the reduction engine, then one elementwise pass (x - mean) * scale + shift
#include "cuda/cluster.cuh"
#include "ops/elementwise/engine.cuh"
#include "ops/norm/norm.h"
#include "ops/reduce/reduce_cuda.cuh"

#include <string.h>

// ------------------------------------------------------------------------------------------------------------ layer norm
enum { NORM_DIMS = 12 };

typedef struct norm_call {
    const char *x;
    char *y, *mean, *rstd;              // mean, rstd may be NULL
    const char *weight, *bias;          // may be NULL; dense unless parameter_rank > 0
    int in, weight_dtype, bias_dtype, stat_dtype;
    bool rms, dense;                    // dense: elements of a row are neighbours, rows are aligned for vectors
    double eps;
    int64_t rows, length;
    int kept, reduced;
    int64_t kept_shape[NORM_DIMS], kept_step[NORM_DIMS], kept_to[NORM_DIMS], reduced_shape[NORM_DIMS], reduced_step[NORM_DIMS];
    int parameter_rank;                 // of weight and bias that do not lie dense: element strides below, last dim first
    int64_t parameter_shape[NORM_DIMS], weight_step[NORM_DIMS], bias_step[NORM_DIMS];
} norm_call;

template <typename C, int THREADS> static __device__ __forceinline__ C sum_over(C v) {
    __shared__ C part[THREADS / 32 > 1 ? THREADS / 32 : 1];
#pragma unroll
    for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
    if (THREADS == 32) return v;
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++) v += part[w];
    return v;
}

static __device__ __forceinline__ int64_t element_offset(const norm_call &p, int64_t i) {
    int64_t offset = 0;
    for (int d = 0; d < p.reduced; d++) {
        const int64_t rest = i / p.reduced_shape[d];
        offset += (i - rest * p.reduced_shape[d]) * p.reduced_step[d];
        i = rest;
    }
    return offset;
}

template <typename C>
static __device__ __forceinline__ C parameter(const norm_call &p, const char *at, int dtype, const int64_t *step, int64_t i, C absent) {
    if (!at) return absent;
    int64_t offset = p.parameter_rank ? 0 : i;
    for (int d = 0; d < p.parameter_rank; d++) {
        const int64_t rest = i / p.parameter_shape[d];
        offset += (i - rest * p.parameter_shape[d]) * step[d];
        i = rest;
    }
    return ewc_load<C>(dtype, at + offset * nbx_cuda_dtype_bytes(dtype));
}

// PER > 0: a row has at most THREADS * PER * 8 elements, kept in registers. PER 0: any length and strides, read twice or thrice.
// DTYPE: of x, y, weight and bias; -1: any.
template <typename C, int THREADS, int PER, int DTYPE> static __global__ void __launch_bounds__(THREADS == 32 ? 256 : THREADS) normalize_rows(const __grid_constant__ norm_call p) {
    constexpr int ROWS = THREADS == 32 ? 8 : 1;
    const int lane = (int)threadIdx.x % THREADS;
    const int64_t row = (int64_t)blockIdx.x * ROWS + threadIdx.x / THREADS;
    if (row >= p.rows) return;
    int64_t from = 0, to = 0, rest = row;
    for (int d = 0; d < p.kept; d++) {
        const int64_t further = d + 1 < p.kept ? quotient_of(rest, p.kept_shape[d]) : 0, at = rest - further * p.kept_shape[d];
        rest = further;
        from += at * p.kept_step[d];
        to += at * p.kept_to[d];
    }
    const char *x = p.x + from;
    const int dtype = DTYPE < 0 ? p.in : DTYPE, size = nbx_cuda_dtype_bytes(dtype);
    char *y = p.y + to * p.length * size;
    constexpr int N = PER > 0 ? PER : 1;
    C v[N][EWC_LANES], sum = 0, square = 0;
    if (PER > 0) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int64_t i = ((int64_t)k * THREADS + lane) * EWC_LANES;
            if (i < p.length) ewc_load_dense<C>(dtype, x + i * size, v[k]);
            else
#pragma unroll
                for (int j = 0; j < EWC_LANES; j++) v[k][j] = 0;
        }
#pragma unroll
        for (int k = 0; k < N; k++)
#pragma unroll
            for (int j = 0; j < EWC_LANES; j++) sum += p.rms ? v[k][j] * v[k][j] : v[k][j];
    } else {
        for (int64_t i = lane; i < p.length; i += THREADS) {
            const C e = ewc_load<C>(p.in, x + element_offset(p, i));
            sum += p.rms ? e * e : e;
        }
    }
    sum = sum_over<C, THREADS>(sum);
    const C mean = p.rms ? (C)0 : sum / (C)p.length;
    if (p.rms) {
        square = sum;
    } else {
        if (PER > 0) {
#pragma unroll
            for (int k = 0; k < N; k++)
                if (((int64_t)k * THREADS + lane) * EWC_LANES < p.length)
#pragma unroll
                    for (int j = 0; j < EWC_LANES; j++) square += (v[k][j] - mean) * (v[k][j] - mean);
        } else {
            for (int64_t i = lane; i < p.length; i += THREADS) {
                const C e = ewc_load<C>(p.in, x + element_offset(p, i)) - mean;
                square += e * e;
            }
        }
        square = sum_over<C, THREADS>(square);
    }
    const C rstd = (C)1 / (C)sqrt(square / (C)p.length + (C)p.eps);
    if (lane == 0) {
        const int stat = nbx_cuda_dtype_bytes(p.stat_dtype);
        if (p.mean) ewc_store<C>(p.stat_dtype, p.mean + to * stat, mean);
        if (p.rstd) ewc_store<C>(p.stat_dtype, p.rstd + to * stat, rstd);
    }
    if (PER > 0) {
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int64_t i = ((int64_t)k * THREADS + lane) * EWC_LANES;
            if (i >= p.length) continue;
            C w[EWC_LANES], b[EWC_LANES];
            const int weight_dtype = DTYPE < 0 ? p.weight_dtype : DTYPE, bias_dtype = DTYPE < 0 ? p.bias_dtype : DTYPE;
            if (p.weight) ewc_load_dense<C>(weight_dtype, p.weight + i * nbx_cuda_dtype_bytes(weight_dtype), w);
            if (p.bias) ewc_load_dense<C>(bias_dtype, p.bias + i * nbx_cuda_dtype_bytes(bias_dtype), b);
#pragma unroll
            for (int j = 0; j < EWC_LANES; j++) {
                C e = (v[k][j] - mean) * rstd;
                if (p.weight) e *= w[j];
                v[k][j] = p.bias ? e + b[j] : e;
            }
            ewc_store_dense<C>(dtype, y + i * size, v[k]);
        }
    } else {
        for (int64_t i = lane; i < p.length; i += THREADS) {
            const C e = (ewc_load<C>(p.in, x + element_offset(p, i)) - mean) * rstd;
            const C w = parameter<C>(p, p.weight, p.weight_dtype, p.weight_step, i, 1), b = parameter<C>(p, p.bias, p.bias_dtype, p.bias_step, i, 0);
            ewc_store<C>(p.in, y + i * size, e * w + b);
        }
    }
}

template <typename C, int DTYPE> static void launch_dense(const norm_call &p, cudaStream_t stream) {
    const unsigned rows = (unsigned)p.rows, eighth = (unsigned)((p.rows + 7) / 8);
    const bool many = p.rows >= 8192 && DTYPE >= 0;  // enough rows for few threads each
    if (p.length <= 256) normalize_rows<C, 32, 1, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 1024) normalize_rows<C, 32, 4, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 2048 && many) normalize_rows<C, 32, 8, DTYPE><<<eighth, 256, 0, stream>>>(p);
    else if (p.length <= 2048) normalize_rows<C, 256, 1, DTYPE><<<rows, 256, 0, stream>>>(p);
    else if (p.length <= 4096 && many) normalize_rows<C, 128, 4, DTYPE><<<rows, 128, 0, stream>>>(p);
    else if (p.length <= 4096) normalize_rows<C, 256, 2, DTYPE><<<rows, 256, 0, stream>>>(p);
    else if (p.length <= 8192) normalize_rows<C, 512, 2, DTYPE><<<rows, 512, 0, stream>>>(p);
    else normalize_rows<C, 512, 4, DTYPE><<<rows, 512, 0, stream>>>(p);
}

static bool all_of(const norm_call &p, int dtype) {
    return p.in == dtype && (!p.weight || p.weight_dtype == dtype) && (!p.bias || p.bias_dtype == dtype);
}

template <typename C> static void launch_rows(const norm_call &p, cudaStream_t stream) {
    const unsigned rows = (unsigned)p.rows, eighth = (unsigned)((p.rows + 7) / 8);
    if (!p.dense || p.length > 16384) {
        if (p.length <= 1024) normalize_rows<C, 32, 0, -1><<<eighth, 256, 0, stream>>>(p);
        else normalize_rows<C, 512, 0, -1><<<rows, 512, 0, stream>>>(p);
    } else if (sizeof(C) == 4 && all_of(p, NBX_FLOAT32)) launch_dense<C, sizeof(C) == 4 ? NBX_FLOAT32 : -1>(p, stream);
    else if (sizeof(C) == 4 && all_of(p, NBX_BFLOAT16)) launch_dense<C, sizeof(C) == 4 ? NBX_BFLOAT16 : -1>(p, stream);
    else if (sizeof(C) == 4 && all_of(p, NBX_FLOAT16)) launch_dense<C, sizeof(C) == 4 ? NBX_FLOAT16 : -1>(p, stream);
    else launch_dense<C, -1>(p, stream);
}

static bool aligned(const void *at) { return (uintptr_t)at % 16 == 0; }

static nbx_status layer_norm_cuda(nbx_op_call *c) {
    const layer_norm_job *job = (const layer_norm_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const uint64_t all = x->rank >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << x->rank) - 1, kept = ((uint64_t)1 << (x->rank - job->normalized)) - 1;
    reduce_job walk;
    memset(&walk, 0, sizeof walk);
    walk.in = x->dtype;
    walk.mask = all & ~kept;
    walk.ordered = true;
    reduce_plan plan;
    reduce_plan_make(&plan, &walk, x->rank, x->shape, x->stride);
    if (plan.kept_count == 0) return NBX_OK;
    if (plan.kept > NORM_DIMS || plan.reduced > NORM_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims that do not merge on CUDA", NORM_DIMS);
    norm_call p;
    memset(&p, 0, sizeof p);
    const nbx_tensor *weight = job->weight >= 0 ? arg_tensor(c, job->weight) : NULL, *bias = job->bias >= 0 ? arg_tensor(c, job->bias) : NULL;
    if ((weight && !weight->contiguous) || (bias && !bias->contiguous)) {
        p.parameter_rank = job->normalized;
        if (p.parameter_rank > NORM_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d normalized dims that are not dense on CUDA", NORM_DIMS);
        for (int d = 0; d < p.parameter_rank; d++) {
            const int from = p.parameter_rank - 1 - d;
            p.parameter_shape[d] = (weight ? weight : bias)->shape[from];
            p.weight_step[d] = weight ? weight->stride[from] : 0;
            p.bias_step[d] = bias ? bias->stride[from] : 0;
        }
    }
    p.x = (const char *)nbx_data(x), p.y = (char *)nbx_data(y);
    p.in = x->dtype;
    if (weight) p.weight = (const char *)nbx_data(weight), p.weight_dtype = weight->dtype;
    if (bias) p.bias = (const char *)nbx_data(bias), p.bias_dtype = bias->dtype;
    for (int k = 0; k < 2; k++) {
        const int at = k ? job->rstd : job->mean;
        const nbx_tensor *t = at >= 0 ? out_get(c, at) : NULL;
        if (!t) continue;
        (k ? p.rstd : p.mean) = (char *)nbx_data(t);
        p.stat_dtype = t->dtype;
    }
    p.rms = job->rms;
    p.eps = job->eps;
    p.rows = plan.kept_count, p.length = plan.reduced_count;
    p.kept = plan.kept, p.reduced = plan.reduced;
    const int64_t size = (int64_t)nbx_dtype_size((nbx_dtype)x->dtype);
    p.dense = plan.reduced <= 1 && (plan.reduced == 0 || plan.reduced_step[0] == size) && p.length % EWC_LANES == 0 && p.length > 0 && !p.parameter_rank && aligned(p.x) &&
              aligned(p.y) && aligned(p.weight) && aligned(p.bias);
    for (int d = 0; d < plan.kept; d++) {
        p.kept_shape[d] = plan.kept_shape[d], p.kept_step[d] = plan.kept_step[d], p.kept_to[d] = plan.kept_to[d];
        p.dense = p.dense && plan.kept_step[d] % 16 == 0;
    }
    for (int d = 0; d < plan.reduced; d++) p.reduced_shape[d] = plan.reduced_shape[d], p.reduced_step[d] = plan.reduced_step[d];
    if (x->dtype == NBX_FLOAT64) launch_rows<double>(p, stream_of(c));
    else launch_rows<float>(p, stream_of(c));
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::layer_norm", layer_norm_cuda)
NBX_CUDA_KERNEL("aten::native_layer_norm", layer_norm_cuda)
NBX_CUDA_KERNEL("aten::_fused_rms_norm", layer_norm_cuda)

// ----------------------------------------------------------------------------------------------------- scale and shift
struct affine_group {  // (x - mean) * scale + shift
    enum { INPUTS = 4, OUTPUTS = 1, CLASSES = EWC_FLOATS };
    template <typename C> static __device__ __forceinline__ void eval(int, const C (&x)[4][EWC_LANES], const ewc_params &, C (&r)[1][EWC_LANES]) {
#pragma unroll
        for (int i = 0; i < EWC_LANES; i++) r[0][i] = fma(x[0][i] - x[1][i], x[2][i], x[3][i]);
    }
};

// y [N, C, ...] from x and doubles: mean and scale [C] or [N, C], shift [C].
static nbx_status apply_affine(nbx_op_call *c, const nbx_tensor *x, const nbx_tensor *y, double *mean, double *scale, double *shift, bool per_sample) {
    device_view views[3];
    double *data[3] = {mean, scale, shift};
    const nbx_tensor *tensors[5] = {y, x};
    for (int k = 0; k < 3; k++) {
        for (int d = 0; d < x->rank; d++) views[k].shape[d] = x->shape[d], views[k].stride[d] = 0;
        if (x->rank > 1) views[k].stride[1] = 1;
        if (per_sample && k < 2) views[k].stride[0] = x->shape[1];
        tensors[2 + k] = view_of(&views[k], data[k], NBX_FLOAT64, x->rank);
    }
    ewc_plan p;
    bool empty;
    const nbx_status status = ewc_plan_operands(c, 1, 5, tensors, &p, &empty);
    if (status != NBX_OK || empty) return status;
    p.compute = x->dtype;
    if (x->dtype == NBX_FLOAT64) ewc_launch<affine_group, double>(p, stream_of(c));
    else ewc_launch<affine_group, float>(p, stream_of(c));
    return launch_status(c);
}

typedef struct parameter_ref {
    const void *data;
    int dtype;
    int64_t step;  // in elements
} parameter_ref;

static parameter_ref reference(const nbx_tensor *t) {
    parameter_ref r = {NULL, 0, 1};
    if (t && t->numel) r.data = nbx_data(t), r.dtype = t->dtype, r.step = t->rank ? t->stride[t->rank - 1] : 1;
    return r;
}
static __device__ __forceinline__ double read(const parameter_ref &r, int64_t i, double absent) {
    return r.data ? ewc_load<double>(r.dtype, (const char *)r.data + i * r.step * nbx_cuda_dtype_bytes(r.dtype)) : absent;
}
static __device__ __forceinline__ void write(const parameter_ref &r, int64_t i, double v) {
    if (r.data) ewc_store<double>(r.dtype, (char *)r.data + i * r.step * nbx_cuda_dtype_bytes(r.dtype), v);
}

// ----------------------------------------------------------------------------------------------------------- batch norm
typedef struct batch_call {
    parameter_ref weight, bias, running_mean, running_var, new_mean, new_var, mean, rstd;
    double *mean_of, *scale, *shift, *var;
    double eps, momentum, unbiased;
    bool training, moments;
    int64_t channels;
} batch_call;

static __global__ void batch_parameters(const batch_call p) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.channels) return;
    double mean, var;
    if (p.moments) {
        mean = p.mean_of[i], var = p.var[i];
        write(p.new_mean, i, (1 - p.momentum) * read(p.running_mean, i, 0) + p.momentum * mean);
        write(p.new_var, i, (1 - p.momentum) * read(p.running_var, i, 0) + p.momentum * var * p.unbiased);
    } else {
        mean = read(p.running_mean, i, 0), var = read(p.running_var, i, 1);
        if (p.new_mean.data != p.running_mean.data) write(p.new_mean, i, read(p.running_mean, i, 0));
        if (p.new_var.data != p.running_var.data) write(p.new_var, i, read(p.running_var, i, 0));
    }
    const double rstd = 1 / sqrt(var + p.eps);
    if (p.training) {
        write(p.mean, i, mean);
        write(p.rstd, i, rstd);
    }
    p.mean_of[i] = mean;
    p.scale[i] = rstd * read(p.weight, i, 1);
    p.shift[i] = read(p.bias, i, 0);
}

static reduce_job moments_job(const nbx_tensor *x, uint64_t mask) {
    reduce_job job;
    memset(&job, 0, sizeof job);
    job.op = REDUCE_MOMENTS, job.finish = REDUCE_VAR, job.mask = mask;
    job.in = job.cast = x->dtype;
    job.domain = x->dtype == NBX_FLOAT64 ? REDUCE_F64 : REDUCE_F32;
    return job;
}

static nbx_status batch_norm_cuda(nbx_op_call *c) {
    const batch_norm_job *job = (const batch_norm_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t channels = x->rank > 1 ? x->shape[1] : 0, n = channels ? x->numel / channels : 0;
    if (channels == 0 || (x->numel == 0 && job->new_mean < 0)) return NBX_OK;
    double *memory = (double *)c->scratch;
    batch_call p;
    memset(&p, 0, sizeof p);
    p.mean_of = memory, p.scale = memory + channels, p.shift = memory + 2 * channels, p.var = memory + 3 * channels;
    const nbx_tensor *running_mean = job->running_mean >= 0 ? arg_tensor(c, job->running_mean) : NULL;
    const nbx_tensor *running_var = job->running_var >= 0 ? arg_tensor(c, job->running_var) : NULL;
    p.weight = reference(job->weight >= 0 ? arg_tensor(c, job->weight) : NULL);
    p.bias = reference(job->bias >= 0 ? arg_tensor(c, job->bias) : NULL);
    p.running_mean = reference(running_mean), p.running_var = reference(running_var);
    p.new_mean = reference(job->new_mean < 0 ? running_mean : out_get(c, job->new_mean));
    p.new_var = reference(job->new_var < 0 ? running_var : out_get(c, job->new_var));
    p.mean = reference(job->mean >= 0 ? out_get(c, job->mean) : NULL);
    p.rstd = reference(job->rstd >= 0 ? out_get(c, job->rstd) : NULL);
    p.eps = job->eps, p.momentum = job->momentum, p.training = job->training, p.channels = channels;
    p.moments = job->training && x->numel > 0;
    p.unbiased = (double)n / (double)(n - 1);
    if (p.moments) {
        const reduce_job moments = moments_job(x, ~(uint64_t)2 & (((uint64_t)1 << x->rank) - 1));
        void *const out[2] = {p.var, p.mean_of};
        const nbx_dtype dtype[2] = {NBX_FLOAT64, NBX_FLOAT64};
        nbx_status status = nbx_cuda_reduce(c, &moments, x, out, dtype, memory + 4 * channels);
        // The mean again, from a sum: of infinities it is infinite, as ATen's, where the moments' is NaN.
        reduce_job mean = moments;
        mean.op = REDUCE_SUM, mean.finish = REDUCE_MEAN;
        void *const mean_only[2] = {p.mean_of, NULL};
        if (status == NBX_OK) status = nbx_cuda_reduce(c, &mean, x, mean_only, dtype, memory + 4 * channels);
        if (status != NBX_OK) return status;
    }
    batch_parameters<<<(unsigned)((channels + 127) / 128), 128, 0, stream_of(c)>>>(p);
    return apply_affine(c, x, out_get(c, 0), p.mean_of, p.scale, p.shift, false);
}

NBX_CUDA_KERNEL("aten::batch_norm", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::native_batch_norm", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_native_batch_norm_legit", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_native_batch_norm_legit.no_stats", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_native_batch_norm_legit_no_training", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_native_batch_norm_legit_functional", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_batch_norm_with_update", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_batch_norm_with_update_functional", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_batch_norm_no_update", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::_batch_norm_impl_index", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::cudnn_batch_norm", batch_norm_cuda)
NBX_CUDA_KERNEL("aten::miopen_batch_norm", batch_norm_cuda)

// ----------------------------------------------------------------------------------------------------------- group norm
typedef struct group_call {
    parameter_ref weight, bias, mean_out, rstd_out;
    double *mean, *var, *channel_mean, *channel_scale, *shift;
    double eps;
    int64_t batch, channels, groups;
    bool empty;
} group_call;

static __global__ void group_parameters(const group_call p) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.batch * p.channels) return;
    const int64_t size = p.channels / p.groups, channel = i % p.channels, g = i / p.channels * p.groups + channel / size;
    const double mean = p.empty ? NAN : p.mean[g], rstd = p.empty ? NAN : 1 / sqrt(p.var[g] + p.eps);
    p.channel_mean[i] = mean;
    p.channel_scale[i] = rstd * read(p.weight, channel, 1);
    if (i < p.channels) p.shift[i] = read(p.bias, channel, 0);
    if (channel % size == 0) {
        write(p.mean_out, g, mean);
        write(p.rstd_out, g, rstd);
    }
}

// Groups that lie dense, every channel a whole number of vectors.
typedef struct held_groups {
    const char *x;
    char *y;
    parameter_ref weight, bias, mean_out, rstd_out;
    float eps;
    int64_t count;
    int vectors;                     // in a group
    uint32_t groups, group_channels; // in a sample; in a group
    ewc_divisor by_area;             // vectors of a channel
} held_groups;

enum { BLOCK_BYTES = 200 * 1024 };  // of a group that one block holds

// Keeps 16 bytes as they are: else the compiler remembers what they were widened to, in twice the registers.
static __device__ __forceinline__ void stay_packed(uint4 &w) { asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w)); }

static __device__ __forceinline__ void write_moments(const held_groups &p, uint32_t group, float mean, float rstd) {
    write(p.mean_out, group, mean);
    write(p.rstd_out, group, rstd);
}

// A group in the registers of a block: PER vectors of 8 for a thread.
template <int DTYPE, int PER> static __global__ void __launch_bounds__(512, 2) normalize_groups(const __grid_constant__ held_groups p) {
    constexpr int THREADS = 512, SIZE = DTYPE == NBX_FLOAT32 ? 4 : 2, WORDS = SIZE * EWC_LANES / 16;
    const int tid = (int)threadIdx.x;
    const uint32_t group = blockIdx.x;
    const float count = (float)p.vectors * EWC_LANES;
    const uint4 *x = (const uint4 *)p.x + (int64_t)group * p.vectors * WORDS;
    char *y = p.y + (int64_t)group * p.vectors * EWC_LANES * SIZE;
    uint4 held[PER][WORDS];
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * THREADS + tid;
#pragma unroll
        for (int w = 0; w < WORDS; w++) held[k][w] = i < p.vectors ? x[(int64_t)i * WORDS + w] : make_uint4(0, 0, 0, 0);
    }
    float v[EWC_LANES], sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        ewc_load_dense<float>(DTYPE, held[k], v);
#pragma unroll
        for (int j = 0; j < EWC_LANES; j++) sum += v[j];
    }
    float mean = sum_over<float, THREADS>(sum) / count;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        if (k * THREADS + tid >= p.vectors) continue;
#pragma unroll
        for (int w = 0; w < WORDS; w++) stay_packed(held[k][w]);
        ewc_load_dense<float>(DTYPE, held[k], v);
#pragma unroll
        for (int j = 0; j < EWC_LANES; j++) square += (v[j] - mean) * (v[j] - mean);
    }
    square = sum_over<float, THREADS>(square);
    if (square != square) mean = square;  // of infinities too
    const float rstd = 1 / sqrtf(square / count + p.eps);
    if (tid == 0) write_moments(p, group, mean, rstd);
    const uint32_t channels = group % p.groups * p.group_channels;
#pragma unroll
    for (int k = 0; k < PER; k++) {
        const int i = k * THREADS + tid;
        if (i >= p.vectors) continue;
        const int64_t channel = channels + ewc_quotient((uint32_t)i, p.by_area);
        const float scale = rstd * (float)read(p.weight, channel, 1), shift = (float)read(p.bias, channel, 0);
#pragma unroll
        for (int w = 0; w < WORDS; w++) stay_packed(held[k][w]);
        ewc_load_dense<float>(DTYPE, held[k], v);
#pragma unroll
        for (int j = 0; j < EWC_LANES; j++) v[j] = fmaf(v[j] - mean, scale, shift);
        ewc_store_dense<float>(DTYPE, y + (int64_t)i * EWC_LANES * SIZE, v);
    }
}

// A group in the shared memory of a block or a cluster. Each block has the moments of its slice; these are joined. by_area: words of
// a channel.
template <int DTYPE, int CLUSTER>
static __global__ void __launch_bounds__(CLUSTER == 1 ? 512 : 256, CLUSTER == 1 ? 1 : 3) NBX_CLUSTER(CLUSTER) normalize_slices(const __grid_constant__ held_groups p) {
    constexpr int THREADS = CLUSTER == 1 ? 512 : 256, LANES = ewc_word<DTYPE>::LANES, AFFINES = 128;
    extern __shared__ uint4 held[];
    __shared__ uint64_t arrived[SLICE_PARTS];
    __shared__ float means[CLUSTER], squares[CLUSTER], scales[AFFINES], shifts[AFFINES];
    const int block = (int)blockIdx.x % CLUSTER, tid = (int)threadIdx.x;
    const uint32_t group = blockIdx.x / CLUSTER;
    const int words = p.vectors * (EWC_LANES / LANES), share = (words + CLUSTER - 1) / CLUSTER, first = block * share;
    const auto words_of = [&](int b) { return words - b * share < 0 ? 0 : words - b * share < share ? words - b * share : share; };
    const int count = words_of(block);
    const int64_t start = (int64_t)group * words + first;
    if (tid == 0) fetch_slice(held, arrived, (const uint4 *)p.x + start, count);
    if (CLUSTER > 1) cluster_arrive();
    // of the channels in the slice, as many as there is room for
    const uint32_t channels = group % p.groups * p.group_channels, channel = ewc_quotient((uint32_t)first, p.by_area);
    for (uint32_t k = tid; k < AFFINES && channel + k < p.group_channels; k += THREADS)
        scales[k] = (float)read(p.weight, channels + channel + k, 1), shifts[k] = (float)read(p.bias, channels + channel + k, 0);
    __syncthreads();
    float sum = 0, square = 0;
    first_over_slice<THREADS>(arrived, count, [&](int i) {
        float v[LANES];
        ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
        for (int j = 0; j < LANES; j++) sum += v[j];
    });
    sum = sum_over<float, THREADS>(sum);
    float mean = count ? sum / ((float)count * LANES) : 0;
    over_slice<THREADS>(count, [&](int i) {
        float v[LANES];
        ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
        for (int j = 0; j < LANES; j++) square += (v[j] - mean) * (v[j] - mean);
    });
    square = sum_over<float, THREADS>(square);
    if (CLUSTER > 1) {
        cluster_wait();  // the others have begun, their shared memory is there
        if (tid < CLUSTER) {
            cluster_store(&means[block], tid, mean);
            cluster_store(&squares[block], tid, square);
        }
        cluster_arrive();
        cluster_wait();
        mean = square = 0;
#pragma unroll
        for (int b = 0; b < CLUSTER; b++) mean += means[b] * (float)words_of(b);
        mean /= (float)words;
#pragma unroll
        for (int b = 0; b < CLUSTER; b++) square += squares[b] + (means[b] - mean) * (means[b] - mean) * ((float)words_of(b) * LANES);
    }
    if (square != square) mean = square;  // of infinities too
    const float rstd = 1 / sqrtf(square / ((float)words * LANES) + p.eps);
    if (block == 0 && tid == 0) write_moments(p, group, mean, rstd);
    uint4 *y = (uint4 *)p.y + start;
    const auto put = [&](int i, float scale, float shift) {
        float v[LANES];
        ewc_widen_word<DTYPE>(held[i], v);
#pragma unroll
        for (int j = 0; j < LANES; j++) v[j] = fmaf(v[j] - mean, rstd * scale, shift);
        y[i] = ewc_narrow_word<DTYPE>(v);
    };
    // A loop without a branch: then several words are under way.
    const uint32_t last = ewc_quotient((uint32_t)(first + (count ? count - 1 : 0)), p.by_area);
    if (last - channel < AFFINES)
        over_slice<THREADS>(count, [&](int i) {
            const uint32_t k = ewc_quotient((uint32_t)(first + i), p.by_area) - channel;
            put(i, scales[k], shifts[k]);
        });
    else
        over_slice<THREADS>(count, [&](int i) {
            const uint32_t at = channels + ewc_quotient((uint32_t)(first + i), p.by_area);
            put(i, (float)read(p.weight, at, 1), (float)read(p.bias, at, 0));
        });
}

template <int DTYPE, int CLUSTER> static bool launch_slices(held_groups p, int64_t area, int device, cudaStream_t stream) {
    constexpr int LANES = ewc_word<DTYPE>::LANES;
    static int room[CLUSTER_DEVICES];
    if (!clusters_known(room, device, (const void *)normalize_slices<DTYPE, CLUSTER == 1 ? 4 : CLUSTER>)) return false;
    const int words = p.vectors * (EWC_LANES / LANES);
    p.by_area = ewc_divisor_of(area / LANES);
    shared_limit<normalize_slices<DTYPE, CLUSTER>>(CLUSTER == 1 ? (int)BLOCK_BYTES : (int)SLICE_BYTES);
    normalize_slices<DTYPE, CLUSTER><<<(unsigned)p.count * CLUSTER, CLUSTER == 1 ? 512 : 256, (size_t)((words + CLUSTER - 1) / CLUSTER) * 16, stream>>>(p);
    return true;
}

template <int DTYPE> static bool launch_groups(const held_groups &p, int64_t area, int device, cudaStream_t stream) {
    constexpr int PER = DTYPE == NBX_FLOAT32 ? 4 : 8;
    const int64_t bytes = (int64_t)p.vectors * EWC_LANES * (DTYPE == NBX_FLOAT32 ? 4 : 2);
    if (p.vectors <= 512) normalize_groups<DTYPE, 1><<<(unsigned)p.count, 512, 0, stream>>>(p);
    else if (p.vectors <= PER * 512) normalize_groups<DTYPE, PER><<<(unsigned)p.count, 512, 0, stream>>>(p);
    else if (bytes <= BLOCK_BYTES) return launch_slices<DTYPE, 1>(p, area, device, stream);
    else if (bytes <= 4 * SLICE_BYTES) return launch_slices<DTYPE, 4>(p, area, device, stream);
    else return bytes <= 8 * SLICE_BYTES && launch_slices<DTYPE, 8>(p, area, device, stream);
    return true;
}

static bool hold_groups(nbx_op_call *c, const group_call &p) {
    const group_norm_job *job = (const group_norm_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    const int64_t size = job->channels / job->groups, vectors = size * job->area / EWC_LANES, groups = job->batch * job->groups;
    if (!x->contiguous || !y->contiguous || job->area % EWC_LANES != 0 || !aligned(nbx_data(x)) || !aligned(nbx_data(y))) return false;
    if (p.empty || vectors > 1 << 20 || groups > INT32_MAX / 8) return false;
    const held_groups h = {(const char *)nbx_data(x), (char *)nbx_data(y), p.weight, p.bias, p.mean_out, p.rstd_out, (float)p.eps, groups, (int)vectors,
                           (uint32_t)job->groups, (uint32_t)size, ewc_divisor_of(job->area / EWC_LANES)};
    switch (x->dtype) {
    case NBX_FLOAT32: return launch_groups<NBX_FLOAT32>(h, job->area, c->device.index, stream_of(c));
    case NBX_BFLOAT16: return launch_groups<NBX_BFLOAT16>(h, job->area, c->device.index, stream_of(c));
    case NBX_FLOAT16: return launch_groups<NBX_FLOAT16>(h, job->area, c->device.index, stream_of(c));
    default: return false;
    }
}

static nbx_status group_norm_cuda(nbx_op_call *c) {
    const group_norm_job *job = (const group_norm_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0);
    const int64_t groups = job->batch * job->groups, size = job->channels / job->groups, cells = job->batch * job->channels;
    if (cells == 0) return NBX_OK;
    double *memory = (double *)c->scratch;
    group_call p;
    memset(&p, 0, sizeof p);
    p.mean = memory, p.var = memory + groups, p.shift = p.var + groups, p.channel_mean = p.shift + job->channels, p.channel_scale = p.channel_mean + cells;
    p.weight = reference(arg_tensor(c, 1)), p.bias = reference(arg_tensor(c, 2));
    p.mean_out = reference(out_get(c, 1)), p.rstd_out = reference(out_get(c, 2));
    p.mean_out.step = p.rstd_out.step = 1;
    p.eps = job->eps, p.batch = job->batch, p.channels = job->channels, p.groups = job->groups;
    p.empty = x->numel == 0;
    if (hold_groups(c, p)) return launch_status(c);
    if (!p.empty) {  // x as [batch, groups, channels of a group, ...]: moments over all but the first two
        device_view view;
        view.shape[0] = x->shape[0], view.stride[0] = x->stride[0];
        view.shape[1] = job->groups, view.stride[1] = x->stride[1] * size;
        view.shape[2] = size, view.stride[2] = x->stride[1];
        for (int d = 2; d < x->rank; d++) view.shape[d + 1] = x->shape[d], view.stride[d + 1] = x->stride[d];
        const nbx_tensor *grouped = view_of(&view, nbx_data(x), (nbx_dtype)x->dtype, x->rank + 1);
        const reduce_job moments = moments_job(x, (((uint64_t)1 << (x->rank + 1)) - 1) & ~(uint64_t)3);
        void *const out[2] = {p.var, p.mean};
        const nbx_dtype dtype[2] = {NBX_FLOAT64, NBX_FLOAT64};
        const nbx_status status = nbx_cuda_reduce(c, &moments, grouped, out, dtype, p.channel_scale + cells);
        if (status != NBX_OK) return status;
    }
    group_parameters<<<(unsigned)((cells + 127) / 128), 128, 0, stream_of(c)>>>(p);
    return apply_affine(c, x, out_get(c, 0), p.channel_mean, p.channel_scale, p.shift, true);
}

NBX_CUDA_KERNEL("aten::native_group_norm", group_norm_cuda)
