"""Which family (a file of cases, a folder of src/ops) an operator belongs to."""
import re
from pathlib import Path

SCHEMAS = Path(__file__).parent.parent.parent / "src/ops/schemas.def"

# Base names by family, without a trailing underscore. A pointwise operator that stands nowhere is elementwise, everything else misc.
FAMILIES = {name: set(text.split()) for name, text in {
    "reduce": "all amax amin aminmax any argmax argmin count_nonzero dist frobenius_norm linalg_matrix_norm linalg_norm linalg_vector_norm logsumexp max "
              "mean median min mode nanmean nanmedian nansum norm prod quantile nanquantile std std_mean sum sum_to_size trace var var_mean kthvalue histc "
              "equal allclose is_nonzero trapezoid bincount histogram _aminmax cov corrcoef segment_reduce prims::sum prims::amax prims::var",
    "scan": "cummax cummin cumprod cumsum cumulative_trapezoid diff logcumsumexp",
    "softmax": "_masked_softmax _log_softmax _safe_softmax _softmax log_softmax softmax _softmax_backward_data _log_softmax_backward_data",
    "norm": "_fused_rms_norm _weight_norm _weight_norm_interface batch_norm cudnn_batch_norm group_norm layer_norm native_batch_norm native_group_norm "
            "native_layer_norm rms_norm _batch_norm_impl_index _batch_norm_no_update _batch_norm_with_update _native_batch_norm_legit "
            "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training instance_norm miopen_batch_norm native_group_norm_backward "
            "native_layer_norm_backward renorm local_response_norm",
    "matmul": "_addmm_activation _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _euclidean_dist _grouped_mm _int_mm _scaled_grouped_mm _scaled_mm "
              "_trilinear _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int8pack_mm addbmm addmm addmv addr baddbmm bilinear bmm cdist "
              "cosine_similarity dot einsum ger inner kron linear matmul mm mv outer pairwise_distance pdist tensordot vdot _cdist_forward _pdist_forward "
              "linalg_vecdot linalg_multi_dot linalg_matrix_power nbx::mm_epilogue nbx::addmm_epilogue transformers::grouped_mm_fallback",
    "linalg": "_linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky_inverse cholesky_solve cross geqrf linalg_cholesky "
              "linalg_cholesky_ex linalg_cond linalg_cross linalg_det linalg_eigh linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex "
              "linalg_lstsq linalg_lu_factor linalg_lu_factor_ex linalg_matrix_exp linalg_matrix_rank linalg_pinv linalg_qr linalg_slogdet linalg_solve "
              "linalg_solve_ex linalg_solve_triangular linalg_svd linalg_svdvals logdet matrix_exp triangular_solve",
    "conv": "_convolution_mode _slow_conv2d_forward conv_tbc slow_conv3d slow_conv3d_forward slow_conv_dilated2d slow_conv_dilated3d slow_conv_transpose2d "
            "slow_conv_transpose3d thnn_conv2d _conv_depthwise2d _convolution conv1d conv2d conv3d conv_depthwise3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
            "convolution_backward cudnn_convolution mkldnn_convolution nbx::depthwise_conv2d col2im im2col torchvision::deform_conv2d",
    "pool": "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
            "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d fractional_max_pool2d "
            "fractional_max_pool3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d "
            "max_pool3d_with_indices max_unpool2d max_unpool3d",
    "resample": "_upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d "
                "affine_grid_generator grid_sampler grid_sampler_2d grid_sampler_3d upsample_bicubic2d upsample_bilinear2d upsample_linear1d "
                "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d nbx::interpolate torchvision::roi_align "
                "torchvision::roi_pool torchvision::ps_roi_align torchvision::ps_roi_pool torchvision::nms",
    "index": "_embedding_bag _embedding_bag_forward_only argwhere embedding embedding_bag embedding_renorm embedding_dense_backward gather index index_add "
             "index_copy index_fill index_put index_reduce index_select masked_scatter masked_select masked_fill put scatter scatter_add scatter_reduce "
             "select_scatter slice_scatter diagonal_scatter as_strided_scatter take take_along_dim nonzero nonzero_static _unsafe_index "
             "_unsafe_index_put _unsafe_masked_index _unsafe_masked_index_put_accumulate one_hot unfold_backward isin",
    "shape": "_unsafe_view adjoint as_strided atleast_1d atleast_2d atleast_3d broadcast_tensors broadcast_to chunk diagonal dsplit expand expand_as "
             "flatten hsplit mH mT moveaxis movedim narrow numpy_T permute ravel reshape reshape_as select slice split split_with_sizes squeeze swapaxes "
             "swapdims t tensor_split transpose unbind unflatten unfold unsqueeze view view_as vsplit real imag view_as_complex view_as_real _conj conj "
             "_neg_view resolve_conj resolve_neg alias detach unsafe_chunk unsafe_split unsafe_split_with_sizes _reshape_alias prims::broadcast_in_dim "
             "prims::view_of meshgrid",
    "copy": "_chunk_cat _cast_Byte _cast_Char _cast_Short _cast_Int _cast_Long _cast_Half _cast_Float _cast_Double to_dense _to_copy clone copy to type_as contiguous cat concat stack hstack vstack dstack column_stack repeat repeat_interleave tile flip fliplr flipud "
            "roll rot90 block_diag cartesian_prod _reshape_copy alias_copy as_strided_copy detach_copy diagonal_copy expand_copy lift_fresh "
            "lift_fresh_copy permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy "
            "unfold_copy unsqueeze_copy view_as_complex_copy view_as_real_copy view_copy set pixel_shuffle pixel_unshuffle channel_shuffle "
            "native_channel_shuffle prims::convert_element_type prims::device_put prims::rev nbx::float nbx::half nbx::bfloat16 nbx::int nbx::long "
            "_conj_physical resize resize_as pin_memory _pin_memory",
    "create": "arange range bartlett_window blackman_window empty empty_like empty_permuted empty_strided eye full full_like hamming_window hann_window "
              "kaiser_window linspace logspace new_empty new_empty_strided new_full new_ones new_zeros ones ones_like scalar_tensor tril_indices "
              "triu_indices vander zeros zeros_like zero fill diag diag_embed tril triu complex polar prims::iota",
    "sort": "_unique2 argsort bucketize msort searchsorted sort topk unique_consecutive unique_dim",
    "pad": "constant_pad_nd pad pad_sequence reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d",
    "fft": "_fft_c2c _fft_c2r _fft_r2c fft_fft fft_fft2 fft_fftfreq fft_fftn fft_fftshift fft_hfft fft_ifft fft_ifft2 fft_ifftn fft_ifftshift fft_ihfft "
           "fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftfreq fft_rfftn istft stft prims::fft_r2c",
    "random": "bernoulli dropout multinomial native_dropout native_dropout_backward normal normal_functional rand rand_like randn randn_like uniform alpha_dropout "
              "feature_alpha_dropout feature_dropout exponential random randperm randint randint_like poisson rrelu rrelu_with_noise "
              "rrelu_with_noise_functional",
    "recurrent": "_cudnn_rnn _pack_padded_sequence _pad_packed_sequence gru gru_cell lstm lstm_cell mkldnn_rnn_layer rnn_relu rnn_tanh rnn_tanh_cell "
                 "torchaudio::_lfilter_core_loop",
    "attention": "_cudnn_attention_forward _efficient_attention_forward _flash_attention_forward _fused_sdp_choice _native_multi_head_attention "
                 "_scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention "
                 "_scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
                 "_scaled_dot_product_fused_attention_overrideable _transformer_encoder_layer_fwd scaled_dot_product_attention "
                 "nbx::_scaled_dot_product_attention nbx::rope_fused nbx::swiglu_fused",
    "loss": "_ctc_loss binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss ctc_loss hinge_embedding_loss huber_loss kl_div "
            "l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss2d nll_loss_nd poisson_nll_loss "
            "smooth_l1_loss soft_margin_loss triplet_margin_loss nll_loss2d_forward nll_loss_forward",
    "elementwise": "_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine "
                   "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams __and__ __or__ __xor__ __lshift__ __rshift__ where gradient isclose isreal glu prims::div log_sigmoid_forward prelu _prelu_kernel "
                   "fake_quantize_per_channel_affine fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine "
                   "fake_quantize_per_tensor_affine_cachemask quantized_decomposed::quantize_per_tensor quantized_decomposed::dequantize_per_tensor "
                   "quantized_decomposed::quantize_per_channel quantized_decomposed::dequantize_per_channel "
                   "quantized_decomposed::quantize_per_channel_group quantized_decomposed::dequantize_per_channel_group "
                   "quantized_decomposed::quantize_per_token quantized_decomposed::dequantize_per_token quantized_decomposed::fake_quant_per_channel softplus softshrink hardshrink threshold "
                   "log_sigmoid sigmoid relu relu6 rsub isinf isnan isfinite angle clip ldexp absolute divide fix floor_divide greater greater_equal less "
                   "less_equal multiply negative not_equal subtract hardswish leaky_relu",
    "misc": "is_same_size",
}.items()}
ORDER = ("elementwise reduce shape index create copy matmul softmax norm conv pool scan sort pad resample attention loss recurrent fft linalg random "
         "misc").split()


def read_schemas():
    """Overload name -> (kind, schema text, functional or None, set of tags) of src/ops/schemas.def, names without a schema left out."""
    found = {}
    for line in SCHEMAS.read_text().splitlines():
        match = re.match(r'NBX_(SCHEMA|INPLACE|OUT)\("((?:[^"\\]|\\.)*)"(?:, "([^"]*)")?, (.*)\)$', line)
        if match:
            kind, text, functional, tags = match.groups()
            text = text.replace('\\"', '"')
            found[text.partition("(")[0]] = (kind, text, functional, set(re.findall(r"NBX_TAG_(\w+)", tags)))
    return found


KNOWN = read_schemas()


def base_of(overload):
    """aten::add_.Tensor -> add; other name spaces keep theirs: prims::sum."""
    base = overload.partition(".")[0]
    base = base if base.endswith("__") else base.rstrip("_")
    base = re.sub(r"::__i(\w+__)$", r"::__\1", base)
    return base.removeprefix("aten::")


def family_of(overload):
    base = base_of(overload)
    for name, members in FAMILIES.items():
        if base in members:
            return name
    tags = KNOWN[overload][3] if overload in KNOWN else set()
    functional = KNOWN[overload][2] if overload in KNOWN else None
    if "POINTWISE" in tags or (functional and "POINTWISE" in KNOWN[functional][3]) or base.startswith(("special_", "bitwise_")):
        return "elementwise"
    return "misc"
