"""Proof of kernels/layout-transpose: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

INTO, BACK = (
    f"void cudnn::ops::{way}Kernel<__half, __half, float, false, true>" for way in ("nchwToNhwc", "nhwcToNchw")
)
CONVOLUTION = "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x32"


def steps(
    us: float = 50, *, around: tuple[str, ...] = (INTO, BACK), device: str = "NVIDIA A100-PCIE-40GB"
) -> TraceBuilder:
    """Steps of a convolution of 900 us, with a kernel of *us* before it and one behind it."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.op("aten::conv2d"), b.op("aten::cudnn_convolution"):
                for name in around[:1]:
                    b.kernel(name, us=us)
                b.kernel(CONVOLUTION, us=900)
                for name in around[1:]:
                    b.kernel(name, us=us)
            b.sync()
    return b


# Two transposes of 50 us in each step of about 1 ms.
@fires(cost_ms=0.1, occurrences=8, severity="medium", op="aten::cudnn_convolution")
def transposed_before_and_behind() -> TraceBuilder:
    return steps()


@quiet
def the_same_convolution_in_channels_last() -> TraceBuilder:
    return steps(around=())


# MIOpen's transposes: also two of 50 us in each step of about 1 ms, and known by their names where no operator is.
@fires(cost_ms=0.1, severity="medium", op="aten::cudnn_convolution")
def miopen_transposes_too() -> TraceBuilder:
    return steps(around=("batched_transpose_16x32_half", "batched_transpose_32x16_half"), device="AMD Instinct MI300X")


@fires(cost_share=0.1, occurrences=4, severity="medium")
def miopen_transposes_without_a_host() -> TraceBuilder:
    # 0.1 of 1 ms, four times over.
    b = TraceBuilder("AMD Instinct MI210")
    for number in range(4):
        b.kernel("batched_transpose_16x64_pack_1x4_ediv_1x2_half", us=100, launched=False, at_us=1000 * number)
        b.kernel("igemm_fwd_gtcx2_nhwc_bf16", us=900, launched=False, at_us=1000 * number + 100)
    return b


# MIOpen casts a workspace between the product and the turning back: 2 times 50 us of 1 ms, four times over.
@fires(cost_share=0.1, occurrences=8, severity="medium")
def a_transpose_behind_the_cast_of_a_workspace() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI210")
    names = (
        ("batched_transpose_16x64_pack_1x4_ediv_1x2_half", 50),
        ("igemm_fwd_gtcx2_nhwc_bf16", 800),
        ("SubTensorOpWithCastTensor1d", 50),
        ("batched_transpose_64x16_pack_4x1_ediv_2x1_half", 50),
        ("void at::native::vectorized_elementwise_kernel<4>", 50),
    )
    at = 0
    for _ in range(4):
        for name, us in names:
            b.kernel(name, us=us, launched=False, at_us=at)
            at += us
    return b


NORM = "void cudnn::bn_fw_tr_1C11_kernel_NCHW<__half, float, int, 128, true, 1, true>(cudnnTensorStruct)"


def normalized(channels: int, *, around: tuple[str, ...] = (INTO, BACK), norm: str = NORM) -> TraceBuilder:
    """Steps of a convolution of 700 us with kernels of 50 us around it, and of a batch norm of 200 us over so many channels."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::conv2d"), b.op("aten::cudnn_convolution"):
                for name in (*around[:1], CONVOLUTION, *around[1:]):
                    b.kernel(name, us=700 if name == CONVOLUTION else 50)
            with b.op("aten::cudnn_batch_norm"):
                b.kernel(norm, us=200, grid=(channels, 1, 1))
            b.sync()
    return b


# Two transposes of 50 us, and 64 blocks on 108 multiprocessors for 200 us.
@fires(cost_ms=0.3, occurrences=12, severity="high", op="aten::cudnn_batch_norm")
def a_batch_norm_over_few_blocks_too() -> TraceBuilder:
    return normalized(64)


# 256 blocks are more than two a multiprocessor: the transposes alone.
@fires(cost_ms=0.1, occurrences=8, severity="medium")
def a_batch_norm_over_many_blocks() -> TraceBuilder:
    return normalized(256)


@fires(cost_ms=0.1, occurrences=8, severity="medium")
def a_batch_norm_in_channels_last() -> TraceBuilder:
    return normalized(
        64, norm="void at::native::batch_norm_transform_input_channels_last_kernel<float, float, float, 4>"
    )


# Convolutions in fp32 do not want channels_last: no reason to turn the batch norm over.
@quiet
def a_batch_norm_where_nothing_is_transposed() -> TraceBuilder:
    return normalized(64, around=())


def between_norms(norm: str, *, norms: int, dims: tuple[int, ...] = (8, 64, 56, 56)) -> TraceBuilder:
    """Steps of four convolutions of 200 us with transposes of 50 us around each, and so many norms of the same input."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            for number in range(4):
                convolution = b.op("aten::convolution", shapes=[list(dims), [64, 64, *(3 for _ in dims[2:])]])
                with convolution, b.op("aten::cudnn_convolution"):
                    for name in (INTO, CONVOLUTION, BACK):
                        b.kernel(name, us=200 if name == CONVOLUTION else 50)
                if number < norms:
                    with b.op(norm, shapes=[list(dims)]):
                        b.kernel("void at::native::RowwiseMomentsCUDAKernel<c10::BFloat16>", us=20)
            b.sync()
    return b


# Group norms make their input contiguous on a GPU: each brings two copies, as many as channels_last spares at a convolution.
@quiet
def group_norms_between_the_convolutions() -> TraceBuilder:
    return between_norms("aten::native_group_norm", norms=3)


@quiet
def instance_norms_between_the_convolutions() -> TraceBuilder:
    return between_norms("aten::instance_norm", norms=4)


# One norm for four convolutions: three quarters of the transposes can go.
@fires(cost_ms=0.4, occurrences=32, op="aten::cudnn_convolution")
def a_group_norm_for_four_convolutions() -> TraceBuilder:
    return between_norms("aten::native_group_norm", norms=1)


# A convolution of one dimension: another fix.
@fires(cost_ms=0.4, fix="Run the 1-D convolutions as 2-D ones of height 1, in channels_last")
def a_convolution_of_one_dimension() -> TraceBuilder:
    return between_norms("aten::native_group_norm", norms=0, dims=(8, 64, 4096))


@fires(cost_ms=0.4, fix="Keep the model and its inputs in channels_last_3d")
def a_convolution_of_three_dimensions() -> TraceBuilder:
    return between_norms("aten::native_group_norm", norms=0, dims=(2, 64, 16, 56, 56))


# Only group and instance norms are known to turn the layout of images back.
@fires(cost_ms=0.4, occurrences=32, op="aten::cudnn_convolution")
def a_layer_norm_between_the_convolutions() -> TraceBuilder:
    return between_norms("aten::native_layer_norm", norms=4)


# The batch norm within an instance norm of 64 channels: its few blocks stay, in whatever layout its input was.
@fires(cost_ms=0.1, occurrences=8)
def a_batch_norm_within_an_instance_norm() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            for _ in range(3):
                with b.op("aten::convolution", shapes=[[8, 64, 56, 56], [64, 64, 3, 3]]):
                    b.kernel(CONVOLUTION, us=300)
            with b.op("aten::convolution", shapes=[[8, 64, 56, 56], [64, 64, 3, 3]]):
                for name in (INTO, CONVOLUTION, BACK):
                    b.kernel(name, us=300 if name == CONVOLUTION else 50)
            with b.op("aten::instance_norm", shapes=[[1, 64, 56, 56]]), b.op("aten::cudnn_batch_norm"):
                b.kernel(NORM, us=200, grid=(64, 1, 1))
            b.sync()
    return b


# A transpose that no convolution asked for.
@quiet
def a_transpose_of_the_program_s_own() -> TraceBuilder:
    b = TraceBuilder("AMD Instinct MI300X")
    for _ in range(4):
        with b.step():
            with b.op("aten::copy_"):
                b.kernel("batched_transpose_kernel(float*)", us=100)
            b.kernel("Cijk_Alik_Bljk_HHS_BH_MT128x128x32", us=900)
            b.sync()
    return b


# The name of cuDNN's transpose, but around an interpolation, and a product beside it.
@quiet
def a_transpose_away_from_any_convolution() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        with b.step():
            with b.op("aten::upsample_bilinear2d"):
                b.kernel(INTO, us=100)
            with b.op("aten::mm"):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=900)
            b.sync()
    return b


@quiet("not_applicable")
def a_gpu_of_another_maker() -> TraceBuilder:
    b = TraceBuilder("Intel Data Center GPU Max 1550", vendor="intel")
    with b.step():
        b.kernel(INTO, us=100)
    return b


# 2 % of about 930 us is 18.6: two of 10 or of 8.5.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return steps(10 if over else 8.5)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::conv2d")
