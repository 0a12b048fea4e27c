"""Proof of kernels/far-from-limit: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

H100 = "NVIDIA H100 80GB HBM3"
NAME = "void mylib::row_sums_kernel<float>(float const*, float*, int)"


def training(us: float = 1000, *, device: str = H100, name: str = NAME, shapes: bool = True) -> TraceBuilder:
    """Steps of a softmax over 268 MB, which takes 163 us at what an H100's memory reaches, and of a product of 1 ms."""
    b = TraceBuilder(device, record_shapes=shapes)
    for _ in range(4):
        with b.step():
            with b.op("aten::_softmax", shapes=[[4096, 16384], [], []], dtypes=["float", "Scalar", "Scalar"]):
                b.kernel(name, us=us)
            with b.op("aten::mm"):
                b.kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT", us=1000)
            b.sync()
    return b


def one(op: str, name: str, shapes: list[list[int]]) -> TraceBuilder:
    """Steps of one operator in bf16, of 2 ms."""
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            with b.op(op, shapes=shapes, dtypes=["c10::BFloat16" if shape else "Scalar" for shape in shapes]):
                b.kernel(name, us=2000)
            b.sync()
    return b


@fires(cost_ms=1.0, occurrences=4, severity="medium", op="aten::_softmax")
def a_softmax_at_a_sixth_of_the_memory_s_rate() -> TraceBuilder:
    return training()


def attention(backend: str, kernel: str, device: str = H100) -> TraceBuilder:
    b = TraceBuilder(device)
    qkv = [8, 16, 4096, 128]
    for _ in range(4):
        with b.step():
            with b.op(
                f"aten::_scaled_dot_product_{backend}_attention", shapes=[qkv, qkv, qkv], dtypes=["c10::BFloat16"] * 3
            ):
                b.kernel(kernel, us=30_000)
            b.sync()
    return b


# A number for each head, query and key, as ALiBi's: it need not be read.
@fires(
    cost_ms=30.0,
    severity="medium",
    fix="Compute the bias inside the attention (flex_attention), or read less of it",
)
def attention_with_a_bias_of_each_head() -> TraceBuilder:
    b = TraceBuilder(H100)
    qkv, bias = [2, 16, 4096, 64], [1, 16, 4096, 4096]
    for _ in range(4):
        with b.step():
            with b.op(
                "aten::_scaled_dot_product_efficient_attention",
                shapes=[qkv, qkv, qkv, bias],
                strides=[[4096 * 1024, 64, 1024, 1]] * 3 + [[16 * 4096**2, 4096**2, 4096, 1]],
                dtypes=["c10::BFloat16"] * 4,
            ):
                b.kernel("fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)", us=30_000)
            b.sync()
    return b


# A product of 137 GFLOP, and a convolution of 237, take an H100 under half a ms: plain compiling leaves them to the library.
@fires(cost_ms=2.0, fix="Let the compiler try kernels of its own for these products")
def a_product() -> TraceBuilder:
    return one("aten::mm", "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_nn", [[4096, 4096], [4096, 4096]])


# The products of a vocabulary of 50,257 are another finding's: what is left here is a softmax, which no template multiplies.
@fires(cost_ms=1.0, fix="Look at these kernels: another form of the operator, or a compiled one")
def a_softmax_beside_longer_products_of_another_finding() -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[8192, 1024], [1024, 50257]], dtypes=["c10::BFloat16"] * 2):
                b.kernel(
                    "void cutlass::Kernel2<cutlass_75_wmma_tensorop_bf16_s161616gemm_bf16_32x32_32x1_tn_align1>",
                    us=5000,
                )
            with b.op("aten::_softmax", shapes=[[4096, 16384], [], []], dtypes=["float", "Scalar", "Scalar"]):
                b.kernel(NAME, us=1000)
            b.sync()
    return b


SHAPES = [[64, 256, 56, 56], [256, 256, 3, 3], [], [], [], [], [], [], []]


@fires(fix="Give these convolutions another layout, and let kernels be tried out")
def a_convolution() -> TraceBuilder:
    return one("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nchwkcrs_nchw", SHAPES)


# A kernel that reads channels_last already: another layout is the slower one.
@fires(fix="Let other kernels be tried out for these convolutions")
def a_convolution_in_channels_last() -> TraceBuilder:
    return one("aten::cudnn_convolution", "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", SHAPES)


# What a factorization multiplies its operands' shapes do not give: the least that it moves is no limit of it.
@quiet
def a_factorization() -> TraceBuilder:
    return one("aten::linalg_cholesky_ex", "void getrf_wo_pivot<getrf_params_<double, 256>>", [[4096, 4096], [], []])


# 16 heads of 128 over 4,096 positions, eight times: 1.1 TFLOP take an H100 some 2 ms at what it reaches.
@fires(cost_ms=30.0, fix="Try the other backends of attention")
def attention_of_the_library() -> TraceBuilder:
    kernel = "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)"
    return attention("efficient", kernel)


# There both fused backends launch this kernel, of AOTriton.
@fires(cost_ms=30.0, fix="Try Composable Kernel's attention in place of AOTriton's")
def attention_of_amds_library() -> TraceBuilder:
    return attention("flash", "attn_fwd.kd", "AMD Instinct MI300X")


@fires(cost_ms=1.0)
def on_a_gpu_of_amd() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


@quiet
def one_at_85_percent() -> TraceBuilder:
    return training(us=206)


# 537 MB read and written take 176 us, if the cache holds none of them.
@edge
def half_of_what_the_device_reaches(over: bool) -> TraceBuilder:
    return training(us=365 if over else 340)


def fused(us: float) -> TraceBuilder:
    """Steps of SiLU times a gate over 268 million numbers of bf16, as Inductor fuses them: of two buffers it may write one anew."""
    shapes = [[8, 4096, 8192], [32768, 8192], []]
    b = TraceBuilder("AMD Instinct MI300X")
    for _ in range(4):
        with b.step():
            name = "triton_poi_fused__unsafe_view_mul_silu_2"
            with b.op(
                name, shapes=shapes, dtypes=["c10::BFloat16", "c10::BFloat16", "Scalar"], values=["", "", "268435456"]
            ):
                b.kernel(name, us=us)
            b.sync()
    return b


# 1.07 GB that are named take 256 us; with one buffer read and written 1.61 GB, 384 us: 527 is no distance that is shown.
@edge
def a_fused_kernel_whose_arguments_name_less_than_it_moves(over: bool) -> TraceBuilder:
    return fused(us=1000 if over else 527)


@edge
def kernels_of_20_us(over: bool) -> TraceBuilder:
    b = TraceBuilder(H100)
    for _ in range(4):
        with b.step():
            for _ in range(20):
                with b.op("aten::_softmax", shapes=[[4096, 128], [], []], dtypes=["float", "Scalar", "Scalar"]):
                    b.kernel(NAME, us=20 if over else 19.9)
    return b


@quiet("not_applicable")
def a_gpu_whose_rates_are_not_known() -> TraceBuilder:
    return training(device="Accelerator 9000")


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::_softmax", shapes=[[64, 65]], device=H100)
