// Gradients of pooling, unpooling and fractional pooling on CUDA. A thread per element of the result; sums are taken in the
// order of the positions, as on the CPU, and of equal indices the last one wins.
#include "cuda/flat.cuh"
#include "ops/pool/pool_planes.h"

// ----------------------------------------------------------------------------------------------------------- gradients
typedef struct range { int64_t first, last; } range;

// Positions whose window may hold input i.
static __device__ range positions_of(const nbx_pooling &p, int d, int64_t i) {
    range r;
    if (p.kind == POOL_ADAPTIVE_AVG) {
        r.first = i * p.out[d] / p.in[d] - 1, r.last = ((i + 1) * p.out[d] - 1) / p.in[d] + 1;
    } else {
        const int64_t reach = i + p.padding[d] - (p.kernel[d] - 1) * p.step[d];
        r.first = reach > 0 ? (reach + p.stride[d] - 1) / p.stride[d] : 0, r.last = (i + p.padding[d]) / p.stride[d];
    }
    if (r.first < 0) r.first = 0;
    if (r.last > p.out[d] - 1) r.last = p.out[d] - 1;
    return r;
}

// Indices that no window of this pooling can have made are looked for in the whole plane: `wild` says of which planes.
static __global__ void __launch_bounds__(FLAT_THREADS) find_wild(const __grid_constant__ nbx_pooling p, int64_t count, int *wild, nbx_fault_slot *fault, int op) {
    const int64_t item = flat_item();
    if (item >= count) return;
    const int64_t ox = item % p.out[2], oy = item / p.out[2] % p.out[1], plane = item / p.out[2] / p.out[1], *s = p.index_stride;
    const int64_t index = p.indices[plane / p.channels * s[0] + plane % p.channels * s[1] + oy * s[3] + ox * s[4]];
    if (index < -1 || index >= p.in[1] * p.in[2]) raise_fault(fault, op, NBX_FAULT_INDEX, index, p.in[1] * p.in[2]);
    if (index < 0) return;
    const range y = positions_of(p, 1, index / p.in[2]), x = positions_of(p, 2, index % p.in[2]);
    if (oy < y.first || oy > y.last || ox < x.first || ox > x.last) wild[plane] = 1;
}

static __global__ void __launch_bounds__(FLAT_THREADS) gather_gradients(const __grid_constant__ nbx_pooling p, int64_t count, const int *wild) {
    const int64_t item = flat_item();
    if (item >= count) return;
    const nbx_dtype d = p.dtype;
    const int64_t ix = item % p.in[2], iy = item / p.in[2] % p.in[1], plane = item / p.in[2] / p.in[1];
    const int64_t n = plane / p.channels, c = plane % p.channels, *from = p.out_stride, *is = p.index_stride, *to = p.in_stride;
    range y = positions_of(p, 1, iy), x = positions_of(p, 2, ix);
    if (wild && wild[plane]) y.first = x.first = 0, y.last = p.out[1] - 1, x.last = p.out[2] - 1;
    double sum = 0;
    int64_t whole = 0;
    for (int64_t oy = y.first; oy <= y.last; oy++) {
        const pool_window wy = nbx_pooling_window(&p, 1, oy);
        if (!p.indices && (iy < wy.start || iy >= wy.end)) continue;
        for (int64_t ox = x.first; ox <= x.last; ox++) {
            const int64_t at = n * from[0] + c * from[1] + oy * from[3] + ox * from[4];
            if (p.indices) {
                if (p.indices[n * is[0] + c * is[1] + oy * is[3] + ox * is[4]] == iy * p.in[2] + ix) sum = in_dtype(sum + load_real(p.input, at, d), d);
                continue;
            }
            const pool_window wx = nbx_pooling_window(&p, 2, ox);
            if (ix < wx.start || ix >= wx.end) continue;
            if (d == NBX_INT64) whole += (int64_t)pool_share(&p, (double)((const int64_t *)p.input)[at], wy, wx, d);
            else sum = in_dtype(sum + pool_share(&p, load_real(p.input, at, d), wy, wx, d), d);
        }
    }
    const int64_t place = n * to[0] + c * to[1] + iy * to[3] + ix * to[4];
    if (d == NBX_INT64) ((int64_t *)p.output)[place] = whole;
    else store_real(p.output, place, d, sum);
}

static nbx_status pool_gradient_cuda(nbx_op_call *c) {
    nbx_pooling p;
    nbx_status status = nbx_pool_gradient_of(c, &p);
    const int64_t planes = p.batch * p.channels, inputs = planes * p.in[1] * p.in[2], positions = planes * p.out[1] * p.out[2];
    if (status != NBX_OK || inputs == 0) return status;
    int *wild = NULL, op;
    if (p.indices) {
        wild = (int *)c->scratch;
        status = nbx_cuda_set_bytes(c, wild, 0, sizeof(int) * (size_t)planes);
        if (status != NBX_OK) return status;
        nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
        find_wild<<<flat_blocks(positions), FLAT_THREADS, 0, stream_of(c)>>>(p, positions, wild, fault, op);
    }
    gather_gradients<<<flat_blocks(inputs), FLAT_THREADS, 0, stream_of(c)>>>(p, inputs, wild);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::_adaptive_avg_pool2d_backward", pool_gradient_cuda)
NBX_CUDA_KERNEL("aten::avg_pool2d_backward", pool_gradient_cuda)
NBX_CUDA_KERNEL("aten::max_pool2d_with_indices_backward", pool_gradient_cuda)

// ------------------------------------------------------------------------------------------------------------ unpooling
static __global__ void __launch_bounds__(FLAT_THREADS) claim_places(const __grid_constant__ flat indices, int64_t plane_in, int64_t plane_out, long long *winner,
                                                                    nbx_fault_slot *fault, int op) {
    const int64_t i = flat_item();
    if (i >= indices.count) return;
    const int64_t index = *(const int64_t *)flat_at(indices, i);
    if (index < 0 || index >= plane_out) raise_fault(fault, op, NBX_FAULT_INDEX, index, plane_out);
    else atomicMax(&winner[i / plane_in * plane_out + index], (long long)i);
}

static __global__ void __launch_bounds__(FLAT_THREADS) take_winners(const __grid_constant__ flat x, const __grid_constant__ flat y, const long long *winner) {
    const int64_t i = flat_item();
    const uint64_t zero = 0;
    if (i < y.count) copy_element(y.width, flat_at(y, i), winner[i] < 0 ? (const char *)&zero : flat_at(x, winner[i]));
}

static nbx_status unpool_cuda(nbx_op_call *c) {
    const nbx_tensor *self = arg_tensor(c, 0), *out = out_get(c, 0);
    const int dims = ((const pool_form *)c->op->data)->dims;
    if (out->numel == 0) return NBX_OK;
    flat x, indices, y;
    nbx_status status = flat_of(c, self, &x);
    if (status == NBX_OK) status = flat_of(c, arg_tensor(c, 1), &indices);
    if (status == NBX_OK) status = flat_of(c, out, &y);
    if (status == NBX_OK) status = nbx_cuda_set_bytes(c, c->scratch, 0xff, sizeof(int64_t) * (size_t)out->numel);
    if (status != NBX_OK) return status;
    int64_t plane_in = 1, plane_out = 1;
    for (int d = self->rank - dims; d < self->rank; d++) plane_in *= self->shape[d], plane_out *= out->shape[d];
    int op;
    nbx_fault_slot *fault = nbx_cuda_fault_slot(c, &op);
    claim_places<<<flat_blocks(indices.count), FLAT_THREADS, 0, stream_of(c)>>>(indices, plane_in, plane_out, (long long *)c->scratch, fault, op);
    take_winners<<<flat_blocks(y.count), FLAT_THREADS, 0, stream_of(c)>>>(x, y, (const long long *)c->scratch);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::max_unpool2d", unpool_cuda)
NBX_CUDA_KERNEL("aten::max_unpool3d", unpool_cuda)

// ----------------------------------------------------------------------------------------------------------- fractional
static __global__ void __launch_bounds__(FLAT_THREADS) fractional_windows(const __grid_constant__ nbx_fractional f) {
    const int64_t i = flat_item();
    if (i < f.planes * f.out_plane) fractional_position(&f, i / f.out_plane, i % f.out_plane, f.dtype);
}

static nbx_status fractional_cuda(nbx_op_call *c) {
    nbx_fractional f;
    nbx_fractional_of(c, &f);
    if (f.planes > 0) fractional_windows<<<flat_blocks(f.planes * f.out_plane), FLAT_THREADS, 0, stream_of(c)>>>(f);
    return launch_status(c);
}

NBX_CUDA_KERNEL("aten::fractional_max_pool2d", fractional_cuda)
NBX_CUDA_KERNEL("aten::fractional_max_pool3d", fractional_cuda)
