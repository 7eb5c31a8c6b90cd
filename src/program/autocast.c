// The lists of operators that autocast treats, for regions on the CPU and on CUDA, read off the dispatcher of PyTorch 2.11.
#include "program/autocast.h"

#include <stdlib.h>
#include <string.h>

#include "ops/op.h"

enum { KEEP = NBX_AUTOCAST_KEEP, LOWER = NBX_AUTOCAST_LOWER, FULL = NBX_AUTOCAST_FLOAT32, WIDEST = NBX_AUTOCAST_PROMOTE };

typedef struct rule {
    const char *name;  // without "aten::"
    uint8_t cpu, cuda;
} rule;

// clang-format off
// Sorted by name. Composites that are not on PyTorch's list but are made of listed operators (inner, bilinear, ...) carry the
// rule of those, because ours do not pass autocast again inside.
static const rule rules[] = {
    {"_addmm_activation", LOWER, KEEP}, {"_convolution", KEEP, LOWER}, {"_convolution.deprecated", LOWER, LOWER},
    {"_grid_sampler_2d_cpu_fallback", FULL, KEEP}, {"_lu_with_info", FULL, KEEP}, {"_native_multi_head_attention", LOWER, KEEP},
    {"_scaled_dot_product_flash_attention", KEEP, LOWER}, {"_thnn_fused_gru_cell", KEEP, LOWER}, {"_thnn_fused_lstm_cell", KEEP, LOWER},
    {"_upsample_bicubic2d_aa", KEEP, FULL}, {"_upsample_bilinear2d_aa", KEEP, FULL}, {"_upsample_nearest_exact1d", KEEP, FULL},
    {"_upsample_nearest_exact2d", KEEP, FULL}, {"_upsample_nearest_exact3d", KEEP, FULL}, {"acos", KEEP, FULL},
    {"adaptive_avg_pool3d", FULL, KEEP}, {"adaptive_max_pool3d", FULL, KEEP}, {"addbmm", LOWER, LOWER}, {"addcdiv", KEEP, WIDEST},
    {"addcmul", KEEP, WIDEST}, {"addmm", LOWER, LOWER}, {"addmv", KEEP, LOWER}, {"addr", KEEP, LOWER}, {"asin", KEEP, FULL},
    {"atan2", KEEP, WIDEST}, {"avg_pool3d", FULL, KEEP}, {"baddbmm", LOWER, LOWER}, {"bilinear", KEEP, WIDEST},
    {"binary_cross_entropy", FULL, KEEP}, {"binary_cross_entropy_with_logits", FULL, FULL}, {"bmm", LOWER, LOWER},
    {"cat", WIDEST, KEEP}, {"cdist", FULL, FULL}, {"chain_matmul", LOWER, LOWER}, {"cholesky", FULL, KEEP},
    {"cholesky_inverse", FULL, KEEP}, {"cholesky_solve", FULL, KEEP}, {"conv1d", LOWER, LOWER}, {"conv1d.padding", LOWER, LOWER},
    {"conv2d", LOWER, LOWER}, {"conv2d.padding", LOWER, LOWER}, {"conv3d", LOWER, LOWER}, {"conv3d.padding", LOWER, LOWER},
    {"conv_tbc", LOWER, LOWER}, {"conv_transpose1d", LOWER, LOWER}, {"conv_transpose2d.input", LOWER, LOWER},
    {"conv_transpose3d.input", LOWER, LOWER}, {"convolution", KEEP, LOWER}, {"cosh", KEEP, FULL}, {"cosine_embedding_loss", FULL, FULL},
    {"cosine_similarity", KEEP, FULL}, {"cross", KEEP, WIDEST}, {"cross_entropy_loss", FULL, FULL}, {"ctc_loss.IntList", FULL, KEEP},
    {"ctc_loss.Tensor", FULL, KEEP}, {"cudnn_convolution", KEEP, LOWER}, {"cumprod", KEEP, FULL}, {"cumsum", KEEP, FULL},
    {"dist", KEEP, FULL}, {"dot", KEEP, WIDEST}, {"einsum", LOWER, LOWER}, {"erfinv", KEEP, FULL}, {"exp", KEEP, FULL},
    {"expm1", KEEP, FULL}, {"fake_quantize_per_tensor_affine", FULL, KEEP}, {"fft_fft", FULL, KEEP}, {"fft_fft2", FULL, KEEP},
    {"fft_fftn", FULL, KEEP}, {"fft_hfft", FULL, KEEP}, {"fft_ifft", FULL, KEEP}, {"fft_ifft2", FULL, KEEP}, {"fft_ifftn", FULL, KEEP},
    {"fft_ihfft", FULL, KEEP}, {"fft_irfft", FULL, KEEP}, {"fft_irfft2", FULL, KEEP}, {"fft_irfftn", FULL, KEEP},
    {"fft_rfft", FULL, KEEP}, {"fft_rfft2", FULL, KEEP}, {"fft_rfftn", FULL, KEEP}, {"fractional_max_pool2d", FULL, KEEP},
    {"fractional_max_pool3d", FULL, KEEP}, {"frobenius_norm.dim", KEEP, FULL}, {"geqrf", FULL, KEEP}, {"grid_sampler", FULL, WIDEST},
    {"grid_sampler_2d", FULL, KEEP}, {"grid_sampler_3d", FULL, KEEP}, {"group_norm", KEEP, FULL}, {"gru_cell", KEEP, LOWER},
    {"hinge_embedding_loss", FULL, FULL}, {"huber_loss", FULL, FULL}, {"index_copy", WIDEST, KEEP}, {"index_put", KEEP, WIDEST},
    {"inner", LOWER, LOWER}, {"inverse", FULL, KEEP}, {"kl_div", FULL, FULL}, {"l1_loss", FULL, FULL}, {"layer_norm", KEEP, FULL},
    {"linalg_cholesky", FULL, KEEP}, {"linalg_cholesky_ex", FULL, KEEP}, {"linalg_cond", FULL, KEEP}, {"linalg_cond.p_str", FULL, KEEP},
    {"linalg_eig", FULL, KEEP}, {"linalg_eigh", FULL, KEEP}, {"linalg_eigvals", FULL, KEEP}, {"linalg_eigvalsh", FULL, KEEP},
    {"linalg_householder_product", FULL, KEEP}, {"linalg_inv", FULL, KEEP}, {"linalg_inv_ex", FULL, KEEP}, {"linalg_lstsq", FULL, KEEP},
    {"linalg_matrix_norm", KEEP, FULL}, {"linalg_matrix_norm.str_ord", KEEP, FULL}, {"linalg_matrix_rank", FULL, KEEP},
    {"linalg_matrix_rank.atol_rtol_float", FULL, KEEP}, {"linalg_matrix_rank.atol_rtol_tensor", FULL, KEEP},
    {"linalg_matrix_rank.tol_tensor", FULL, KEEP}, {"linalg_multi_dot", LOWER, LOWER}, {"linalg_qr", FULL, KEEP},
    {"linalg_solve", FULL, KEEP}, {"linalg_svd", FULL, KEEP}, {"linalg_svdvals", FULL, KEEP}, {"linalg_tensorinv", FULL, KEEP},
    {"linalg_tensorsolve", FULL, KEEP}, {"linalg_vecdot", LOWER, LOWER}, {"linalg_vector_norm", KEEP, FULL}, {"linear", LOWER, LOWER},
    {"log", KEEP, FULL}, {"log10", KEEP, FULL}, {"log1p", KEEP, FULL}, {"log2", KEEP, FULL}, {"log_softmax.int", KEEP, FULL},
    {"logsumexp", KEEP, FULL}, {"lstm_cell", KEEP, LOWER}, {"lu_solve", FULL, KEEP}, {"margin_ranking_loss", FULL, FULL},
    {"matmul", LOWER, LOWER}, {"max_pool3d", FULL, KEEP}, {"max_unpool2d", FULL, KEEP}, {"max_unpool3d", FULL, KEEP},
    {"mkldnn_rnn_layer", LOWER, KEEP}, {"mm", LOWER, LOWER}, {"mse_loss", FULL, FULL}, {"multi_margin_loss", FULL, FULL},
    {"multilabel_margin_loss", FULL, FULL}, {"multilabel_margin_loss_forward", FULL, KEEP}, {"mv", KEEP, LOWER},
    {"nanquantile", FULL, KEEP}, {"nanquantile.scalar", FULL, KEEP}, {"native_layer_norm", KEEP, FULL}, {"nll_loss", FULL, FULL},
    {"nll_loss2d", FULL, FULL}, {"norm.Scalar", KEEP, FULL}, {"norm.ScalarOpt_dim", KEEP, FULL}, {"nuclear_norm", KEEP, FULL},
    {"nuclear_norm.dim", KEEP, FULL}, {"orgqr", FULL, KEEP}, {"ormqr", FULL, KEEP}, {"pdist", KEEP, FULL}, {"pinverse", FULL, KEEP},
    {"poisson_nll_loss", FULL, FULL}, {"polar", FULL, KEEP}, {"pow.Scalar", KEEP, FULL}, {"pow.Tensor_Scalar", KEEP, FULL},
    {"pow.Tensor_Tensor", KEEP, FULL}, {"prelu", LOWER, LOWER}, {"prod", FULL, FULL}, {"prod.dim_int", FULL, FULL}, {"qr", FULL, KEEP},
    {"quantile", FULL, KEEP}, {"quantile.scalar", FULL, KEEP}, {"reciprocal", KEEP, FULL}, {"reflection_pad1d", FULL, KEEP},
    {"reflection_pad2d", FULL, KEEP}, {"renorm", KEEP, FULL}, {"replication_pad1d", FULL, KEEP}, {"replication_pad2d", FULL, KEEP},
    {"replication_pad3d", FULL, KEEP}, {"rnn_relu_cell", KEEP, LOWER}, {"rnn_tanh_cell", KEEP, LOWER}, {"rsqrt", KEEP, FULL},
    {"scaled_dot_product_attention", LOWER, LOWER}, {"scatter_add", KEEP, WIDEST}, {"sinh", KEEP, FULL}, {"smooth_l1_loss", FULL, FULL},
    {"soft_margin_loss", FULL, FULL}, {"softmax.int", KEEP, FULL}, {"softplus", KEEP, FULL}, {"stack", WIDEST, KEEP},
    {"stft", FULL, KEEP}, {"stft.center", FULL, KEEP}, {"sum", KEEP, FULL}, {"sum.dim_IntList", KEEP, FULL}, {"svd", FULL, KEEP},
    {"tan", KEEP, FULL}, {"tensordot", LOWER, WIDEST}, {"trace", FULL, KEEP}, {"triangular_solve", FULL, KEEP},
    {"triplet_margin_loss", FULL, FULL}, {"upsample_bicubic2d", KEEP, FULL}, {"upsample_bilinear2d", KEEP, FULL},
    {"upsample_linear1d", KEEP, FULL}, {"upsample_nearest1d", KEEP, FULL}, {"upsample_nearest2d", KEEP, FULL},
    {"upsample_nearest3d", KEEP, FULL}, {"upsample_trilinear3d", KEEP, FULL}, {"vdot", KEEP, WIDEST}, {"view_as_complex", FULL, KEEP},
};
// clang-format on

static int by_name(const void *key, const void *row) { return strcmp(key, ((const rule *)row)->name); }

void nbx_autocast_find(const char *name, uint8_t *cpu, uint8_t *cuda) {
    *cpu = *cuda = KEEP;
    if (strncmp(name, "aten::", 6) != 0) return;
    const rule *found = bsearch(name + 6, rules, sizeof rules / sizeof *rules, sizeof *rules, by_name);
    if (!found) return;
    *cpu = found->cpu;
    *cuda = found->cuda;
}

static bool eligible(const nbx_tensor *t) {
    return t && !nbx_is_none(t) && (t->dtype == NBX_FLOAT32 || t->dtype == NBX_FLOAT16 || t->dtype == NBX_BFLOAT16);
}

static nbx_status cast(nbx_context *ctx, const nbx_tensor **t, nbx_dtype dtype) {
    if (!eligible(*t) || (*t)->dtype == dtype) return NBX_OK;
    const nbx_value args[2] = {nbx_of_tensor(*t), nbx_of_dtype(dtype)};
    *t = nbx_do(ctx, "aten::_to_copy", 2, args);
    return *t ? NBX_OK : nbx_last_status(ctx);
}

// float32 as soon as one of the inputs is; a float64 one takes no part.
static nbx_dtype widest(const nbx_value *args, int count, nbx_dtype lower) {
    for (int i = 0; i < count; i++) {
        if (args[i].kind == NBX_KIND_TENSOR && eligible(args[i].as.tensor) && args[i].as.tensor->dtype == NBX_FLOAT32) return NBX_FLOAT32;
        for (int k = 0; args[i].kind == NBX_KIND_TENSORS && k < args[i].count; k++)
            if (eligible(args[i].as.tensors[k]) && args[i].as.tensors[k]->dtype == NBX_FLOAT32) return NBX_FLOAT32;
    }
    return lower;
}

static nbx_status cast_list(nbx_context *ctx, nbx_value *list, nbx_dtype dtype) {
    const nbx_tensor **copy = nbx_scope_alloc(ctx, ((size_t)list->count + 1) * sizeof *copy);
    if (!copy) return nbx_last_status(ctx);
    for (int k = 0; k < list->count; k++) {
        copy[k] = list->as.tensors[k];
        const nbx_status status = cast(ctx, &copy[k], dtype);
        if (status != NBX_OK) return status;
    }
    list->as.tensors = copy;
    return NBX_OK;
}

nbx_status nbx_autocast_apply(nbx_context *ctx, nbx_autocast_policy policy, nbx_dtype lower, nbx_value *args, int count) {
    const nbx_dtype dtype = policy == NBX_AUTOCAST_LOWER     ? lower
                            : policy == NBX_AUTOCAST_FLOAT32 ? NBX_FLOAT32
                                                             : widest(args, count, lower);
    nbx_status status = NBX_OK;
    for (int i = 0; i < count && status == NBX_OK; i++) {
        if (args[i].kind == NBX_KIND_TENSOR) status = cast(ctx, &args[i].as.tensor, dtype);
        else if (args[i].kind == NBX_KIND_TENSORS) status = cast_list(ctx, &args[i], dtype);
    }
    return status;
}
