// Fourier transforms on CUDA: one kernel, a block for each line, column or row of up to 8192 points, which it holds in shared
// memory. Radices 2 to 8 after Stockham, so points come out in order. How points are read and written - real, half a
// spectrum, times a chirp, a spectrum or twiddle factors - is part of the pass. Only forward transforms are computed: an
// inverse one exchanges real and imaginary parts before and after. Factors are taken in double.
#include "cuda/flat.cuh"
#include "ops/fft/fft_device.h"
#include "ops/fft/fft_job.h"

enum { FFT_THREADS = 512, FFT_STAGES = 24 };
typedef enum point_kind { POINT_COMPLEX, POINT_REAL, POINT_HALF, POINT_CHIRP } point_kind;

template <typename R> struct pair { R re, im; };
template <typename R> static __device__ __forceinline__ pair<R> operator+(pair<R> a, pair<R> b) { return {a.re + b.re, a.im + b.im}; }
template <typename R> static __device__ __forceinline__ pair<R> operator-(pair<R> a, pair<R> b) { return {a.re - b.re, a.im - b.im}; }
template <typename R> static __device__ __forceinline__ pair<R> operator*(pair<R> a, pair<R> b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <typename R> static __device__ __forceinline__ pair<R> minus_i(pair<R> a) { return {a.im, -a.re}; }  // times -i
template <typename R> static __device__ __forceinline__ pair<R> exchanged(pair<R> a) { return {a.im, a.re}; }

// Where the points of all lines are. Strides count reals.
typedef struct points {
    void *data;
    int kind, rank;
    int64_t n, step;    // points of a line; between them
    int64_t shape[NBX_MAX_RANK], stride[NBX_MAX_RANK];
} points;

typedef struct fft_stage { int radix; int64_t done; } fft_stage;

typedef struct fft_call {
    points in, out;
    int64_t first;                  // line of block 0
    int64_t n, inner;               // points of a block; blocks of a line
    int64_t in_block, in_step, out_block, out_step;  // the number of point i of block b: b * block + i * step
    int64_t twiddle, chirp;         // 0: none; the length that factors belong to
    bool chirp_in, chirp_out, swap_in, unswap, swap_out;
    const void *spectrum;           // or NULL
    double scale;
    int stages;
    int radix[FFT_STAGES];
} fft_call;

// ------------------------------------------------------------------------------------------------------------- factors
// exp(-2 pi i k / n), 0 <= k < n
static __device__ __forceinline__ pair<double> root_of(int64_t k, int64_t n) {
    pair<double> w;
    sincospi(-2.0 * (double)k / (double)n, &w.im, &w.re);
    return w;
}
// exp(-pi i j^2 / n)
static __device__ __forceinline__ pair<double> chirp_of(int64_t j, int64_t n) { return root_of(j * j % (2 * n), 2 * n); }
template <typename R> static __device__ __forceinline__ pair<R> narrow(pair<double> w) { return {(R)w.re, (R)w.im}; }

// --------------------------------------------------------------------------------------------------------------- points
static __device__ __forceinline__ int64_t line_offset(const points &p, int64_t line) {
    int64_t offset = 0;
    for (int d = 0; d < p.rank; d++) {
        const int64_t rest = quotient_of(line, p.shape[d]);
        offset += (line - rest * p.shape[d]) * p.stride[d];
        line = rest;
    }
    return offset;
}

template <typename R> static __device__ pair<R> read_point(const fft_call &f, const R *line, int64_t j) {
    const points &p = f.in;
    pair<R> x = {0, 0};
    if (p.kind == POINT_CHIRP) {
        const int64_t m = f.n * f.inner, k = j < p.n ? j : m - j;
        if (k < p.n) x = narrow<R>(chirp_of(k, p.n)), x.im = -x.im;
    } else if (j < p.n) {
        const bool beyond = p.kind == POINT_HALF && j > p.n / 2;
        const R *at = line + (beyond ? p.n - j : j) * p.step;
        x.re = at[0];
        if (p.kind == POINT_COMPLEX) x.im = at[1];
        else if (p.kind == POINT_HALF && j > 0 && 2 * j != p.n) x.im = beyond ? -at[1] : at[1];
    }
    if (f.swap_in) x = exchanged(x);
    return f.chirp_in && j < p.n ? x * narrow<R>(chirp_of(j, f.chirp)) : x;
}

template <typename R> static __device__ void write_point(const fft_call &f, R *line, int64_t block, int64_t i, pair<R> x) {
    const points &p = f.out;
    const int64_t j = block * f.out_block + i * f.out_step;
    if (j >= p.n) return;
    if (f.unswap) x = exchanged(x);
    if (f.twiddle) x = x * narrow<R>(root_of(block * i, f.twiddle));
    if (f.spectrum) x = x * ((const pair<R> *)f.spectrum)[j];
    if (f.chirp_out) x = x * narrow<R>(chirp_of(j, f.chirp));
    if (f.scale != 1) x = {(R)(x.re * (R)f.scale), (R)(x.im * (R)f.scale)};
    if (f.swap_out) x = exchanged(x);
    line[j * p.step] = x.re;
    if (p.kind == POINT_COMPLEX) line[j * p.step + 1] = x.im;
}

// ---------------------------------------------------------------------------------------------------------- butterflies
template <typename R> static __device__ __forceinline__ void dft2(pair<R> &a, pair<R> &b) {
    const pair<R> sum = a + b;
    b = a - b, a = sum;
}
template <typename R> static __device__ __forceinline__ void dft4(pair<R> &a, pair<R> &b, pair<R> &c, pair<R> &d) {
    dft2(a, c), dft2(b, d);
    d = minus_i(d);
    dft2(a, b), dft2(c, d);
    const pair<R> swap = b;
    b = c, c = swap;
}

// cos and sin of 2 pi i / r, i = 1 ... (r - 1) / 2
template <int RADIX> static __device__ __forceinline__ double odd_root(int i, bool sine);
template <> __device__ __forceinline__ double odd_root<3>(int, bool sine) { return sine ? 0.86602540378443864676 : -0.5; }
template <> __device__ __forceinline__ double odd_root<5>(int i, bool sine) {
    return i == 1 ? (sine ? 0.95105651629515357212 : 0.30901699437494742410) : (sine ? 0.58778525229247312917 : -0.80901699437494742410);
}
template <> __device__ __forceinline__ double odd_root<7>(int i, bool sine) {
    return i == 1   ? (sine ? 0.78183148246802980871 : 0.62348980185873353053)
           : i == 2 ? (sine ? 0.97492791218182360702 : -0.22252093395631440429)
                    : (sine ? 0.43388373911755812048 : -0.90096886790241912624);
}

template <typename R, int RADIX> static __device__ __forceinline__ void dft(pair<R> (&x)[RADIX]) {
    constexpr int HALF = RADIX / 2;
    pair<R> sum[HALF + 1], gap[HALF + 1], y[RADIX];
    y[0] = x[0];
#pragma unroll
    for (int i = 1; i <= HALF; i++) sum[i] = x[i] + x[RADIX - i], gap[i] = x[i] - x[RADIX - i], y[0] = y[0] + sum[i];
#pragma unroll
    for (int q = 1; q <= HALF; q++) {
        pair<R> even = x[0], odd = {0, 0};
#pragma unroll
        for (int i = 1; i <= HALF; i++) {
            const int k = i * q % RADIX;
            const R c = (R)odd_root<RADIX>(k > HALF ? RADIX - k : k, false), s = (R)odd_root<RADIX>(k > HALF ? RADIX - k : k, true);
            const R sine = k > HALF ? -s : s;
            even = {even.re + c * sum[i].re, even.im + c * sum[i].im};
            odd = {odd.re + sine * gap[i].re, odd.im + sine * gap[i].im};
        }
        y[q] = even + minus_i(odd), y[RADIX - q] = even - minus_i(odd);
    }
#pragma unroll
    for (int i = 0; i < RADIX; i++) x[i] = y[i];
}
template <> __device__ __forceinline__ void dft<float, 2>(pair<float> (&x)[2]) { dft2(x[0], x[1]); }
template <> __device__ __forceinline__ void dft<double, 2>(pair<double> (&x)[2]) { dft2(x[0], x[1]); }
template <> __device__ __forceinline__ void dft<float, 4>(pair<float> (&x)[4]) { dft4(x[0], x[1], x[2], x[3]); }
template <> __device__ __forceinline__ void dft<double, 4>(pair<double> (&x)[4]) { dft4(x[0], x[1], x[2], x[3]); }

// One stage: transforms of `done` points become those of done * RADIX.
template <typename R, int RADIX> static __device__ void run_stage(const pair<R> *x, pair<R> *y, int n, int done) {
    const int count = n / RADIX;
    for (int j = (int)threadIdx.x; j < count; j += (int)blockDim.x) {
        const int k = j % done;
        pair<R> v[RADIX];
        v[0] = x[j];
        const pair<double> w = root_of(k, (int64_t)done * RADIX);
        pair<double> power = w;
#pragma unroll
        for (int i = 1; i < RADIX; i++) {
            v[i] = x[j + i * count] * narrow<R>(power);
            power = power * w;
        }
        dft<R, RADIX>(v);
        pair<R> *to = y + (j - k) * RADIX + k;
#pragma unroll
        for (int i = 0; i < RADIX; i++) to[i * done] = v[i];
    }
}

template <typename R> static __global__ void __launch_bounds__(FFT_THREADS) fft_lines_of(const __grid_constant__ fft_call f) {
    extern __shared__ char shared_points[];
    pair<R> *x = (pair<R> *)shared_points, *y = x + f.n;
    const int64_t line = f.first + blockIdx.x / f.inner, block = blockIdx.x % f.inner;
    const R *from = (const R *)f.in.data + line_offset(f.in, line);
    R *to = (R *)f.out.data + line_offset(f.out, line);
    const int n = (int)f.n;
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) x[i] = read_point<R>(f, from, block * f.in_block + i * f.in_step);
    __syncthreads();
    int done = 1;
    for (int s = 0; s < f.stages; s++) {
        switch (f.radix[s]) {
        case 2: run_stage<R, 2>(x, y, n, done); break;
        case 3: run_stage<R, 3>(x, y, n, done); break;
        case 4: run_stage<R, 4>(x, y, n, done); break;
        case 5: run_stage<R, 5>(x, y, n, done); break;
        default: run_stage<R, 7>(x, y, n, done); break;
        }
        __syncthreads();
        done *= f.radix[s];
        pair<R> *swap = x;
        x = y, y = swap;
    }
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x) write_point<R>(f, to, block, i, x[i]);
}

// ---------------------------------------------------------------------------------------------------------------- entry
static nbx_status launch(nbx_op_call *c, fft_call f, int64_t lines, bool wide) {
    int64_t left = f.n;
    for (f.stages = 0; left > 1; left /= f.radix[f.stages++])
        f.radix[f.stages] = left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : left % 5 == 0 ? 5 : 7;
    const size_t shared = (size_t)f.n * (wide ? 32 : 16);
    const int64_t blocks = lines * f.inner, quarter = (f.n / 4 + 31) / 32 * 32;
    const unsigned threads = (unsigned)(quarter < 32 ? 32 : quarter > FFT_THREADS ? FFT_THREADS : quarter);
    if (blocks > INT32_MAX) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than 2^31 lines on CUDA");
    if (shared > 48 << 10) {
        const cudaError_t error = wide ? cudaFuncSetAttribute(fft_lines_of<double>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared)
                                       : cudaFuncSetAttribute(fft_lines_of<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (error != cudaSuccess) return nbx_cuda_status(c, error);
    }
    if (wide) fft_lines_of<double><<<(unsigned)blocks, threads, shared, stream_of(c)>>>(f);
    else fft_lines_of<float><<<(unsigned)blocks, threads, shared, stream_of(c)>>>(f);
    return launch_status(c);
}

static points packed_lines(void *data, int64_t n, int64_t first, bool wide) {
    points p = {};
    p.kind = POINT_COMPLEX, p.rank = 1, p.n = n, p.step = 2, p.shape[0] = INT64_MAX, p.stride[0] = 2 * n;
    p.data = (char *)data - first * n * (wide ? 16 : 8);
    return p;
}

// d->m points of `lines` lines, by way of `columns` when they are split.
static nbx_status transform(nbx_op_call *c, const fft_device *d, fft_call f, int64_t lines, void *columns, bool wide) {
    if (d->n2 == 1) {
        f.n = d->n1, f.inner = 1, f.in_step = f.out_step = 1;
        return launch(c, f, lines, wide);
    }
    fft_call first = f, second = f;
    first.n = d->n1, first.inner = d->n2, first.in_block = 1, first.in_step = d->n2, first.out_block = 1, first.out_step = d->n2;
    first.twiddle = d->m, first.scale = 1, first.spectrum = NULL;
    first.chirp_out = first.unswap = first.swap_out = false;
    first.out = packed_lines(columns, d->m, f.first, wide);
    second.n = d->n2, second.inner = d->n1, second.in_block = d->n2, second.in_step = 1, second.out_block = 1, second.out_step = d->n1;
    second.chirp_in = second.swap_in = false;
    second.in = first.out;
    const nbx_status status = launch(c, first, lines, wide);
    return status == NBX_OK ? launch(c, second, lines, wide) : status;
}

static nbx_status run_pass(nbx_op_call *c, const fft_pass *pass, const fft_plan *plan, void *in, void *out, char *work) {
    const fft_lines *l = &pass->lines;
    const bool wide = plan->double_precision != 0, inverse = plan->kind == FFT_C2R || l->inverse;
    const int64_t n = plan->n;
    fft_device d;
    if (!fft_device_plan(&d, n, l->count, wide)) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "lines of %lld points on CUDA", (long long)n);
    fft_call f = {};
    f.in.data = in, f.in.kind = plan->kind == FFT_R2C ? POINT_REAL : plan->kind == FFT_C2R ? POINT_HALF : POINT_COMPLEX;
    f.out.data = out, f.out.kind = plan->kind == FFT_C2R ? POINT_REAL : POINT_COMPLEX;
    f.in.n = n, f.out.n = plan->kind == FFT_R2C ? n / 2 + 1 : n;
    f.in.step = l->in_step, f.out.step = l->out_step, f.in.rank = f.out.rank = l->rank;
    for (int i = 0; i < l->rank; i++) f.in.shape[i] = f.out.shape[i] = l->shape[i], f.in.stride[i] = l->in_stride[i], f.out.stride[i] = l->out_stride[i];
    f.scale = l->scale, f.swap_in = f.swap_out = inverse;
    const bool chirp = d.spectrum_bytes != 0;
    char *middle = work + d.spectrum_bytes, *columns = middle + (chirp ? (size_t)d.chunk * d.line_bytes : 0);
    nbx_status status = NBX_OK;
    if (chirp) {
        fft_call s = {};
        s.in.kind = POINT_CHIRP, s.in.n = n, s.scale = 1;
        s.out = packed_lines(work, d.m, 0, wide);
        status = transform(c, &d, s, 1, columns, wide);
    }
    for (int64_t i = 0; i < l->count && status == NBX_OK; i += d.chunk) {
        const int64_t lines = l->count - i < d.chunk ? l->count - i : d.chunk;
        f.first = i;
        if (!chirp) {
            status = transform(c, &d, f, lines, columns, wide);
            continue;
        }
        fft_call there = f, back = f;
        there.chirp = back.chirp = n;
        there.chirp_in = back.chirp_out = back.unswap = true;
        there.scale = 1, there.spectrum = work, there.swap_out = true, there.out = packed_lines(middle, d.m, i, wide);
        back.scale = f.scale / (double)d.m, back.swap_in = false, back.in = there.out;
        status = transform(c, &d, there, lines, columns, wide);
        if (status == NBX_OK) status = transform(c, &d, back, lines, columns, wide);
    }
    return status;
}

// --------------------------------------------------------------------------------------------------------------- mirror
typedef struct mirror_call {
    void *data;
    int64_t count, shape[FLAT_DIMS], stride[FLAT_DIMS];
    uint64_t dims;
    int rank, last;
} mirror_call;

// y[..., k] = conj(y[..., n - k]) with the other transformed dims mirrored, for k > n / 2.
template <typename R> static __global__ void __launch_bounds__(FLAT_THREADS) mirror_points(const __grid_constant__ mirror_call p) {
    int64_t left = flat_item(), to = 0, from = 0;
    if (left >= p.count) return;
    for (int d = p.rank - 1; d >= 0; d--) {
        const int64_t size = p.shape[d], i = left % size;
        left /= size;
        if (d == p.last && i <= size / 2) return;
        to += i * p.stride[d];
        from += ((p.dims >> d & 1) && i ? size - i : i) * p.stride[d];
    }
    const pair<R> x = ((const pair<R> *)p.data)[from];
    ((pair<R> *)p.data)[to] = {x.re, -x.im};
}

static nbx_status mirror(nbx_op_call *c, const fft_job *job, const nbx_tensor *y) {
    mirror_call p = {};
    if (y->rank > FLAT_DIMS) return nbx_call_fail(c, NBX_ERROR_UNSUPPORTED, "more than %d dims on CUDA", FLAT_DIMS);
    p.data = nbx_data(y), p.count = y->numel, p.dims = job->dims, p.rank = y->rank, p.last = job->last;
    for (int d = 0; d < y->rank; d++) p.shape[d] = y->shape[d], p.stride[d] = y->stride[d];
    if (y->dtype == NBX_COMPLEX128) mirror_points<double><<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
    else mirror_points<float><<<flat_blocks(p.count), FLAT_THREADS, 0, stream_of(c)>>>(p);
    return launch_status(c);
}

static nbx_status fft_cuda(nbx_op_call *c) {
    const fft_job *job = (const fft_job *)c->state;
    const nbx_tensor *x = arg_tensor(c, 0), *y = out_get(c, 0);
    nbx_status status = NBX_OK;
    if (y->numel == 0) return NBX_OK;
    if (job->passes == 0) return nbx_cuda_copy(c, y, x);
    void *const buffer[3] = {nbx_data(x), nbx_data(y), c->scratch};
    for (int i = 0; i < job->passes && status == NBX_OK; i++) {
        const fft_pass *pass = &job->pass[i];
        status = run_pass(c, pass, (const fft_plan *)((const char *)job + pass->plan), buffer[pass->from], buffer[pass->to], (char *)c->scratch + job->work_at);
    }
    return status == NBX_OK && job->mirror ? mirror(c, job, y) : status;
}

NBX_CUDA_KERNEL("aten::_fft_c2c", fft_cuda)
NBX_CUDA_KERNEL("aten::_fft_r2c", fft_cuda)
NBX_CUDA_KERNEL("aten::_fft_c2r", fft_cuda)
