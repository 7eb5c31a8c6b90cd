// torchvision's operators on CUDA: pooled regions, suppressed boxes, deformable convolution. Compiled without contraction, so
// that every step is rounded as on the CPU.
#include "cuda/flat.cuh"
#include "ops/vision/deform.h"
#include "ops/vision/nms.h"
#include "ops/vision/roi_regions.h"

// ------------------------------------------------------------------------------------------------------------- regions
static __device__ void align_position(const nbx_roi &j, const region &r, grid g, int64_t k, int64_t c, int64_t bin, nbx_dtype d) {
    const int64_t *s = j.stride, base = r.image * s[0] + c * s[1];
    const double samples = g.h * g.w > 1 ? in_dtype((double)(g.h * g.w), d) : 1;
    double sum = 0;
    for (int64_t iy = 0; iy < g.h; iy++)
        for (int64_t ix = 0; ix < g.w; ix++) {
            const double y = sample_place(r.y, bin / j.bins_w, r.bin_h, iy, g.h, d), x = sample_place(r.x, bin % j.bins_w, r.bin_w, ix, g.w, d);
            bilinear b;
            if (bilinear_clamped(&b, y, x, j.height, j.width, s[2], s[3], d)) sum = in_dtype(sum + bilinear_value(&b, j.input, base, d), d);
        }
    store_real(j.output, (k * j.channels + c) * j.bins + bin, d, sum / samples);
}

// A thread per element of the result.
static __global__ void __launch_bounds__(FLAT_THREADS) pool_regions(const __grid_constant__ nbx_roi j, nbx_fault_slot *fault, int op) {
    const int64_t item = flat_item();
    if (item >= j.regions * j.channels * j.bins) return;
    const nbx_dtype d = j.dtype;
    const int64_t bin = item % j.bins, c = item / j.bins % j.channels, k = item / j.bins / j.channels;
    const double image = roi_number(&j, k, 0, d);
    if (!(image > -1 && image < (double)j.images)) {
        raise_fault(fault, op, NBX_FAULT_INDEX, (long long)image, j.images);
        return;
    }
    const region r = region_of(&j, k, d);
    if (j.kind == ROI_POOL || j.kind == ROI_PS_POOL) {
        pool_bin(&j, &r, k, c, bin, d);
        return;
    }
    const grid g = grid_of(&j, &r);
    if (j.kind == ROI_PS_ALIGN) ps_align_bin(&j, &r, g, k, c, bin, d);
    else if (g.h * g.w < 0) raise_fault(fault, op, NBX_FAULT_ASSERT, k, 0);
    else align_position(j, r, g, k, c, bin, d);
}

static nbx_status roi_cuda(nbx_op_call *c) {
    nbx_roi j;
    int op;
    nbx_roi_of(c, &j);
    if (j.output == NULL) return NBX_OK;
    if (j.input == NULL) return nbx_call_fail(c, NBX_ERROR_SHAPE, "the input is empty");
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    pool_regions<<<flat_blocks(j.regions * j.channels * j.bins), FLAT_THREADS, 0, stream_of(c)>>>(j, fault, op);
    return launch_status(c);
}

NBX_CUDA_KERNEL("torchvision::roi_align", roi_cuda)
NBX_CUDA_KERNEL("torchvision::roi_pool", roi_cuda)
NBX_CUDA_KERNEL("torchvision::ps_roi_align", roi_cuda)
NBX_CUDA_KERNEL("torchvision::ps_roi_pool", roi_cuda)

// ----------------------------------------------------------------------------------------------------------------- nms
// Rows of a matrix of bits say which later boxes a box overlaps; one block goes through them in order. Some rows at a time.
enum { NMS_ROWS = 1024, NMS_THREADS = 256 };

static __global__ void __launch_bounds__(NMS_THREADS) mark_overlaps(nbx_dtype d, const char *boxes, const int64_t *order, int64_t count, int64_t first, int64_t rows,
                                                                   double threshold, uint64_t *bits, int64_t words) {
    const int64_t item = (int64_t)blockIdx.x * NMS_THREADS + threadIdx.x;
    if (item >= rows * words) return;
    const int64_t row = first + item / words, word = item % words;
    uint64_t mask = 0;
    if (word * 64 + 63 > row) {
        const nms_box box = nms_box_at(boxes, order[row], d);
        for (int i = 0; i < 64; i++) {
            const int64_t at = word * 64 + i;
            if (at <= row || at >= count) continue;
            const nms_box rival = nms_box_at(boxes, order[at], d);
            if (nms_overlap(&box, &rival, threshold, d)) mask |= (uint64_t)1 << i;
        }
    }
    bits[item] = mask;
}

// gone: a bit for each box; keep: their number, then the boxes that stay.
static __global__ void __launch_bounds__(NMS_THREADS) keep_boxes(const int64_t *order, int64_t first, int64_t rows, const uint64_t *bits, int64_t words, uint64_t *gone,
                                                                int64_t *keep) {
    __shared__ int64_t kept;
    if (threadIdx.x == 0) kept = keep[0];
    __syncthreads();
    for (int64_t row = 0; row < rows; row++) {
        const int64_t at = first + row;
        const bool stays = !(gone[at / 64] >> at % 64 & 1);  // the same for all threads
        __syncthreads();
        if (stays) {
            if (threadIdx.x == 0) keep[++kept] = order[at];
            for (int64_t w = at / 64 + threadIdx.x; w < words; w += NMS_THREADS) gone[w] |= bits[row * words + w];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) keep[0] = kept;
}

static nbx_status nms_cuda(nbx_op_call *c) {
    nbx_context *ctx = c->ctx;
    const nbx_tensor *boxes, *order;
    if (nbx_nms_prepare(c, &boxes, &order) != NBX_OK) return ctx->status;
    const int64_t count = order->numel, words = (count + 63) / 64, bits_count = words * NMS_ROWS, keep_count = count + 1;
    int64_t kept = 0;
    if (count > 0) {
        const nbx_tensor *bits = nbx_new(ctx, c->device, NBX_INT64, 1, &bits_count), *gone = nbx_new(ctx, c->device, NBX_INT64, 1, &words);
        const nbx_tensor *keep = nbx_new(ctx, c->device, NBX_INT64, 1, &keep_count);
        if (!bits || !gone || !keep) return ctx->status;
        cudaStream_t stream = (cudaStream_t)ctx->stream;
        nbx_status status = nbx_cuda_status(c, cudaMemsetAsync(nbx_data(gone), 0, (size_t)words * 8, stream));
        if (status == NBX_OK) status = nbx_cuda_status(c, cudaMemsetAsync(nbx_data(keep), 0, 8, stream));
        if (status != NBX_OK) return status;
        for (int64_t first = 0; first < count; first += NMS_ROWS) {
            const int64_t rows = count - first < NMS_ROWS ? count - first : NMS_ROWS, items = rows * words;
            mark_overlaps<<<(unsigned)((items + NMS_THREADS - 1) / NMS_THREADS), NMS_THREADS, 0, stream>>>(
                (nbx_dtype)boxes->dtype, (const char *)nbx_data(boxes), (const int64_t *)nbx_data(order), count, first, rows, arg_float(c, 2), (uint64_t *)nbx_data(bits), words);
            keep_boxes<<<1, NMS_THREADS, 0, stream>>>((const int64_t *)nbx_data(order), first, rows, (const uint64_t *)nbx_data(bits), words, (uint64_t *)nbx_data(gone),
                                                      (int64_t *)nbx_data(keep));
        }
        status = launch_status(c);
        const nbx_value first[] = {nbx_of_tensor(keep), nbx_of_int(0), nbx_of_int(0), nbx_of_int(1)};
        const nbx_tensor *number = status == NBX_OK ? nbx_do(ctx, "aten::narrow", 4, first) : NULL;
        if (!number || nbx_tensor_read(ctx, number, &kept) != NBX_OK) return ctx->status;
        const nbx_value rest[] = {nbx_of_tensor(keep), nbx_of_int(0), nbx_of_int(1), nbx_of_int(kept)};
        const nbx_value stay = nbx_of_tensor(nbx_do(ctx, "aten::narrow", 4, rest));
        return stay.as.tensor ? out_tensor(c, 0, nbx_do(ctx, "aten::clone", 1, &stay)) : ctx->status;
    }
    return out_tensor(c, 0, nbx_new(ctx, c->device, NBX_INT64, 1, &kept));
}

NBX_CUDA_KERNEL("torchvision::nms", nms_cuda)

// ------------------------------------------------------------------------------------------------------------- deformed
static __global__ void __launch_bounds__(FLAT_THREADS) expand_columns(const __grid_constant__ deform_job j, int64_t image, char *columns) {
    const int64_t item = flat_item();
    if (item < j.channels * j.taps * j.positions)
        store_real(columns, item, j.dtype, deform_column(&j, image, item / j.positions, item % j.positions, j.dtype));
}

static nbx_status pack(nbx_op_call *c, const nbx_tensor *from, char *to) {
    device_view v;
    int64_t stride = 1;
    for (int d = from->rank - 1; d >= 0; d--) v.shape[d] = from->shape[d], v.stride[d] = stride, stride *= from->shape[d];
    return nbx_cuda_copy(c, view_of(&v, to, (nbx_dtype)from->dtype, from->rank), from);
}

// The columns of an image, then the product of the weight with them, group by group.
static nbx_status deform_cuda(nbx_op_call *c) {
    deform_job *j = (deform_job *)c->state;
    const nbx_tensor *y = out_get(c, 0), *w = arg_tensor(c, 1), *bias = arg_tensor(c, 4);
    if (y->numel == 0) return NBX_OK;
    nbx_deform_pointers(c, j);
    const int64_t size = (int64_t)nbx_dtype_size(j->dtype), items = j->channels * j->taps * j->positions, k = w->shape[1] * j->taps, m = j->out_channels / j->groups;
    char *columns = (char *)c->scratch, *weight = columns + items * size, *biases = weight + w->numel * size;
    nbx_status status = pack(c, bias, biases);
    if (status == NBX_OK && w->numel) status = pack(c, w, weight);
    nbx_product p = {};
    p.dtype = p.out_dtype = j->dtype;
    p.m = m, p.n = j->positions, p.k = k;
    p.alpha[0] = p.beta[0] = 1, p.alpha_int = p.beta_int = 1;
    p.a.row = k, p.a.col = 1, p.b.row = j->positions, p.b.col = 1, p.self.row = 1, p.c.row = j->positions, p.c.col = 1;
    for (int64_t n = 0; n < j->batch && status == NBX_OK; n++) {
        if (items) expand_columns<<<flat_blocks(items), FLAT_THREADS, 0, stream_of(c)>>>(*j, n, columns);
        for (int64_t i = 0; i < j->groups && status == NBX_OK; i++) {
            p.a.data = weight + i * m * k * size, p.b.data = columns + i * k * j->positions * size, p.self.data = biases + i * m * size;
            p.c.data = (char *)nbx_data(y) + (n * j->groups + i) * m * j->positions * size;
            status = nbx_cuda_product(c, &p);
        }
    }
    return status == NBX_OK ? launch_status(c) : status;
}

NBX_CUDA_KERNEL("torchvision::deform_conv2d", deform_cuda)
