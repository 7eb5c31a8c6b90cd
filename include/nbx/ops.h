// Operators by name, typed. Each is one of the table's operators with its most used arguments; anything else goes through
// nbx_call (nbx/call.h), by the same door. Semantics, dtypes, promotion and broadcasting are ATen's of that name.
//
//   Results belong to the innermost scope. NULL: the context says why; a NULL argument passes through with its message.
//   Optional tensors take NBX_NONE. Dims count from the end when negative. `shape`, `dims` and the like are arrays with
//   their length in front of them.
//   Tensors of two arguments broadcast: shapes are aligned at their ends, and a size of 1 stretches. Their dtypes promote:
//   integer, then float, then complex; within a kind the wider one wins.
//   errors: SHAPE, DTYPE, INDEX, ARGUMENT, DEVICE (tensors of several devices), MEMORY; the message names operator and argument
#ifndef NBX_OPS_H
#define NBX_OPS_H

#include "nbx/call.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NBX_1(name) NBX_API nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *x)
#define NBX_2(name) NBX_API nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b)
#define NBX_K(name) NBX_API nbx_tensor *nbx_##name(nbx_context *ctx, const nbx_tensor *a, double b)

// ---------------------------------------------------------------------------------------------------------- creation
// On the context's device. NBX_DTYPE_NONE: float32 (full: float32, too; its value is a float).
NBX_API nbx_tensor *nbx_zeros(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape);
NBX_API nbx_tensor *nbx_ones(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape);
NBX_API nbx_tensor *nbx_full(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape, double value);
// start, start + step, ... before end: ceil((end - start) / step) numbers; ARGUMENT when step is 0 or leads away from end
NBX_API nbx_tensor *nbx_arange(nbx_context *ctx, nbx_dtype dtype, double start, double end, double step);
NBX_API nbx_tensor *nbx_eye(nbx_context *ctx, nbx_dtype dtype, int64_t n);  // [n, n], 1 on the diagonal
// uniform in [0, 1) and standard normal, from the context's generator (nbx_manual_seed): PyTorch's numbers on the CPU
NBX_API nbx_tensor *nbx_rand(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape);
NBX_API nbx_tensor *nbx_randn(nbx_context *ctx, nbx_dtype dtype, int rank, const int64_t *shape);
NBX_1(zeros_like);
NBX_1(ones_like);

// ------------------------------------------------------------------------------------------------------- elementwise
// Of one tensor: result like x. exp to erf (but square) and sigmoid give float32 for integers and bool; silu and gelu refuse them,
// relu refuses bool (DTYPE).
NBX_1(abs);
NBX_1(neg);
NBX_1(exp);
NBX_1(log);
NBX_1(sqrt);
NBX_1(rsqrt);       // 1 / sqrt(x)
NBX_1(reciprocal);  // 1 / x
NBX_1(square);      // x * x
NBX_1(sin);
NBX_1(cos);
NBX_1(tanh);
NBX_1(erf);
NBX_1(floor);
NBX_1(ceil);
NBX_1(round);       // half to even
NBX_1(sigmoid);     // 1 / (1 + exp(-x))
NBX_1(relu);        // max(x, 0), NaN stays
NBX_1(silu);        // x * sigmoid(x)
NBX_1(gelu);        // 0.5 x (1 + erf(x / sqrt 2))
NBX_1(gelu_tanh);   // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
NBX_1(logical_not); // bool
NBX_1(isnan);       // bool
NBX_2(add);
NBX_2(sub);
NBX_2(mul);
NBX_2(div);         // true division: integers give the default float
NBX_2(pow);
NBX_2(maximum);     // NaN wins
NBX_2(minimum);
NBX_2(eq);          // comparisons give bool
NBX_2(ne);
NBX_2(lt);
NBX_2(le);
NBX_2(gt);
NBX_2(ge);
NBX_2(logical_and); // bool, of x != 0
NBX_2(logical_or);
// With a number, which counts as a float: integer tensors become float32, float ones keep their dtype. (nbx_call with an INT
// keeps integers.)
NBX_K(add_scalar);
NBX_K(sub_scalar);
NBX_K(mul_scalar);
NBX_K(div_scalar);
NBX_K(pow_scalar);
NBX_K(eq_scalar);
NBX_K(lt_scalar);
NBX_K(gt_scalar);
// condition ? a : b, all broadcast; condition is bool
NBX_API nbx_tensor *nbx_where(nbx_context *ctx, const nbx_tensor *condition, const nbx_tensor *a, const nbx_tensor *b);
// min(max(x, low), high), NaN stays; integers become float32
NBX_API nbx_tensor *nbx_clamp(nbx_context *ctx, const nbx_tensor *x, double low, double high);
// x where mask is false, value where it is true
NBX_API nbx_tensor *nbx_masked_fill(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *mask, double value);
// another dtype (the same tensor if it has it)
NBX_API nbx_tensor *nbx_to_dtype(nbx_context *ctx, const nbx_tensor *x, nbx_dtype dtype);

// -------------------------------------------------------------------------------------------------------- reductions
// Over the dims given (0 of them: all). keepdim leaves them with size 1. sum and mean of float16 and bfloat16 add in float32;
// sum of integers and bool gives int64; mean and var refuse integers (DTYPE). amax and amin refuse empty dims (INDEX).
NBX_API nbx_tensor *nbx_sum(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, bool keepdim);
NBX_API nbx_tensor *nbx_mean(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, bool keepdim);
NBX_API nbx_tensor *nbx_amax(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, bool keepdim);
NBX_API nbx_tensor *nbx_amin(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, bool keepdim);
// sum of squared deviations from the mean over max(0, N - correction): 1 is the unbiased variance, 0 the population's
NBX_API nbx_tensor *nbx_var(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims, double correction, bool keepdim);
NBX_API nbx_tensor *nbx_argmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim, bool keepdim);  // int64, first of equals
// y[i] = x[0] + ... + x[i] along dim; integers give int64
NBX_API nbx_tensor *nbx_cumsum(nbx_context *ctx, const nbx_tensor *x, int64_t dim);
// exp(x) / sum exp(x) over dim; a row of only -inf gives NaN. Integers are refused (DTYPE)
NBX_API nbx_tensor *nbx_softmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim);
// x - log sum exp(x) over dim
NBX_API nbx_tensor *nbx_log_softmax(nbx_context *ctx, const nbx_tensor *x, int64_t dim);
// The k largest along dim, sorted, with their places (int64). Both results have size k there; NULL on failure.
NBX_API NBX_MUST_CHECK nbx_status nbx_topk(nbx_context *ctx, const nbx_tensor *x, int64_t k, int64_t dim, nbx_tensor **values,
                                           nbx_tensor **indices);
// All along dim, in order, NaN as the largest; equal ones in any order.
NBX_API NBX_MUST_CHECK nbx_status nbx_sort(nbx_context *ctx, const nbx_tensor *x, int64_t dim, bool descending,
                                           nbx_tensor **values, nbx_tensor **indices);

// ------------------------------------------------------------------------------------------------------------- norms
// weight and bias may be NBX_NONE; eps is added to the variance. Mean and variance are taken in float32 for half precision.
// (x - mean) / sqrt(var + eps) * weight + bias over the last `rank` dims, whose sizes are shape; weight, bias [shape]
NBX_API nbx_tensor *nbx_layer_norm(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape, const nbx_tensor *weight,
                                   const nbx_tensor *bias, double eps);
// x / sqrt(mean(x^2) + eps) * weight over the last `rank` dims, whose sizes are shape; weight [shape]
NBX_API nbx_tensor *nbx_rms_norm(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape, const nbx_tensor *weight, double eps);
// x [n, c, ...]: the same over each of `groups` groups of channels (c a multiple of them) and all dims behind; weight, bias [c]
NBX_API nbx_tensor *nbx_group_norm(nbx_context *ctx, const nbx_tensor *x, int64_t groups, const nbx_tensor *weight,
                                   const nbx_tensor *bias, double eps);
// inference form: (x - running_mean) / sqrt(running_var + eps) * weight + bias, by channel; x [n, c, ...], all others [c]
NBX_API nbx_tensor *nbx_batch_norm(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias,
                                   const nbx_tensor *running_mean, const nbx_tensor *running_var, double eps);

// ----------------------------------------------------------------------------------------------------------- products
// Operands have one dtype (DTYPE otherwise). Sums are in float32 for half precision, and rounded once.
NBX_2(mm);      // [m, k] x [k, n]
NBX_2(bmm);     // [b, m, k] x [b, k, n]
NBX_2(matmul);  // any ranks from 1 on, batch dims broadcast
// x [..., k] x weight [n, k] transposed + bias [n] or NBX_NONE
NBX_API nbx_tensor *nbx_linear(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias);
// bias + a x b: a [m, k], b [k, n], bias broadcast to [m, n]
NBX_API nbx_tensor *nbx_addmm(nbx_context *ctx, const nbx_tensor *bias, const nbx_tensor *a, const nbx_tensor *b);
// x [n, c, h, w], weight [out, c / groups, kh, kw], bias [out] or NBX_NONE; stride, padding, dilation of both dims
NBX_API nbx_tensor *nbx_conv2d(nbx_context *ctx, const nbx_tensor *x, const nbx_tensor *weight, const nbx_tensor *bias,
                               const int64_t stride[2], const int64_t padding[2], const int64_t dilation[2], int64_t groups);
// x [n, c, h, w] or [c, h, w]; out size (in + 2 padding - kernel) / stride + 1, rounded down; padding at most kernel / 2.
// max_pool2d pads with -inf; avg_pool2d with zeros, which count.
NBX_API nbx_tensor *nbx_max_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t kernel[2], const int64_t stride[2],
                                   const int64_t padding[2]);
NBX_API nbx_tensor *nbx_avg_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t kernel[2], const int64_t stride[2],
                                   const int64_t padding[2]);
// output [..., size]: element i is the mean from floor(i in / size) to before ceil((i + 1) in / size)
NBX_API nbx_tensor *nbx_adaptive_avg_pool2d(nbx_context *ctx, const nbx_tensor *x, const int64_t size[2]);
// softmax(q k^T * scale + mask) v over [..., heads, length, depth]; mask bool (true: attend), additive, or NBX_NONE;
// causal masks the upper triangle; scale 0 means 1 / sqrt(depth); gqa lets key and value have fewer heads
NBX_API nbx_tensor *nbx_scaled_dot_product_attention(nbx_context *ctx, const nbx_tensor *query, const nbx_tensor *key,
                                                     const nbx_tensor *value, const nbx_tensor *mask, bool causal, double scale,
                                                     bool gqa);

// ------------------------------------------------------------------------------------------------------ shape and views
// Views copy nothing: they share storage with their argument. All here are views but contiguous, clone, cat, stack and repeat.
NBX_API nbx_tensor *nbx_view(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape);     // view; one size may be -1
NBX_API nbx_tensor *nbx_reshape(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape);  // view, or copy if it must
// dims first to last (inclusive) become one; a copy where strides do not allow a view
NBX_API nbx_tensor *nbx_flatten(nbx_context *ctx, const nbx_tensor *x, int64_t first, int64_t last);
// dim d of the result is dim dims[d] of x; count is the rank of x
NBX_API nbx_tensor *nbx_permute(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *dims);
NBX_API nbx_tensor *nbx_transpose(nbx_context *ctx, const nbx_tensor *x, int64_t a, int64_t b);
NBX_API nbx_tensor *nbx_squeeze(nbx_context *ctx, const nbx_tensor *x, int64_t dim);    // drops the dim if its size is 1
NBX_API nbx_tensor *nbx_unsqueeze(nbx_context *ctx, const nbx_tensor *x, int64_t dim);  // a dim of size 1 in front of dim
NBX_API nbx_tensor *nbx_expand(nbx_context *ctx, const nbx_tensor *x, int rank, const int64_t *shape);  // -1 keeps a size
// narrow: INDEX when start + length lies past the end. slice: start and end count from the end when negative and are cut to
// the size; step is at least 1. select: the dim goes away.
NBX_API nbx_tensor *nbx_narrow(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t start, int64_t length);
NBX_API nbx_tensor *nbx_slice(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step);
NBX_API nbx_tensor *nbx_select(nbx_context *ctx, const nbx_tensor *x, int64_t dim, int64_t index);
NBX_1(t);           // [m, n] -> [n, m]; rank 0 and 1 as they are
NBX_1(contiguous);  // the same tensor if it is contiguous
NBX_1(clone);       // keeps dense strides
// cat: along dim, other sizes are equal, dtypes promote; stack: along a new dim, all shapes equal; repeat: size d times repeats[d]
NBX_API nbx_tensor *nbx_cat(nbx_context *ctx, int count, const nbx_tensor *const *tensors, int64_t dim);
NBX_API nbx_tensor *nbx_stack(nbx_context *ctx, int count, const nbx_tensor *const *tensors, int64_t dim);
NBX_API nbx_tensor *nbx_repeat(nbx_context *ctx, const nbx_tensor *x, int count, const int64_t *repeats);

// ----------------------------------------------------------------------------------------------------------- indexing
// Indices are int32 or int64; one out of range is INDEX, on a GPU at the next synchronisation.
// embedding: weight[indices], weight [rows, n] -> [indices' shape, n]; index_select: index [k], dim of size k; gather:
// y[.., i, ..] = x[.., index[.., i, ..], ..], y like index
NBX_API nbx_tensor *nbx_embedding(nbx_context *ctx, const nbx_tensor *weight, const nbx_tensor *indices);
NBX_API nbx_tensor *nbx_index_select(nbx_context *ctx, const nbx_tensor *x, int64_t dim, const nbx_tensor *index);
NBX_API nbx_tensor *nbx_gather(nbx_context *ctx, const nbx_tensor *x, int64_t dim, const nbx_tensor *index);

// ----------------------------------------------------------------------------------------------------------- commands
// They write an existing tensor (through a view, into its base), whose dtype stays: DTYPE where the result's does not fit into
// it. The _out forms give out the result's shape where it has another.
NBX_API NBX_MUST_CHECK nbx_status nbx_copy_(nbx_context *ctx, nbx_tensor *to, const nbx_tensor *from);  // broadcast, converted
NBX_API NBX_MUST_CHECK nbx_status nbx_fill_(nbx_context *ctx, nbx_tensor *x, double value);
NBX_API NBX_MUST_CHECK nbx_status nbx_add_(nbx_context *ctx, nbx_tensor *x, const nbx_tensor *other);
NBX_API NBX_MUST_CHECK nbx_status nbx_add_out(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b, nbx_tensor *out);
NBX_API NBX_MUST_CHECK nbx_status nbx_mm_out(nbx_context *ctx, const nbx_tensor *a, const nbx_tensor *b, nbx_tensor *out);
// x[..., index[dim], ...] = source along dim: how a key/value cache is written
NBX_API NBX_MUST_CHECK nbx_status nbx_index_copy_(nbx_context *ctx, nbx_tensor *x, int64_t dim, const nbx_tensor *index,
                                                  const nbx_tensor *source);

#undef NBX_1
#undef NBX_2
#undef NBX_K

#ifdef __cplusplus
}
#endif
#endif
