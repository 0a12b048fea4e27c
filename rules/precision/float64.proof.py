"""Proof of precision/float64: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<double, double, double>>"


def training(
    us: float = 100, dtype: str = "double", name: str = NAME, *, device: str = "NVIDIA A100-PCIE-40GB"
) -> TraceBuilder:
    """Steps of a product of 800 us in fp16, and a pointwise kernel."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[512, 512], [512, 512]], dtypes=["c10::Half", "c10::Half"]):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=800)
            weigh = b.op("aten::mul", shapes=[[1 << 20], [1 << 20]], dtypes=[dtype, dtype])
            with b.python("train.py(12): weigh"), weigh:
                b.kernel(name, us=us)
            b.sync()
    return b


@fires(cost_ms=0.1, occurrences=4, severity="medium", op="aten::mul", line="train.py:12")
def weights_from_numpy() -> TraceBuilder:
    return training()


@fires(cost_ms=0.1)
def a_product_in_float64_by_its_name() -> TraceBuilder:
    return training(dtype="", name="volta_dgemm_128x64_nn", device="Tesla V100-SXM2-16GB")


@fires(cost_ms=0.1, op="aten::mul")
def on_amd() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


# Matrix Cores multiply float64 as fast as float32.
@quiet
def a_product_of_tensiles_on_amd() -> TraceBuilder:
    return training(dtype="", name="Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4", device="AMD Instinct MI300X")


# On A100 and H100 the Tensor Cores multiply float64 at the rate at which the ordinary units multiply float32.
def multiplied(device: str, **settings: bool) -> TraceBuilder:
    b = TraceBuilder(device)
    if settings:
        b.ran_with(**settings)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm", shapes=[[4096, 4096], [4096, 4096]], dtypes=["double", "double"]):
                b.kernel("sm90_xmma_gemm_f64f64_f64f64_f64_nn_n_tilesize128x64x16_stage4_warpsize2x2x1", us=2000)
            b.sync()
    return b


@quiet
def a_product_at_the_rate_of_float32() -> TraceBuilder:
    return multiplied("NVIDIA H100 80GB HBM3")


@fires(cost_ms=2.0, op="aten::mm")
def a_product_that_could_use_tf32() -> TraceBuilder:
    return multiplied("NVIDIA H100 80GB HBM3", tf32_matmul=True)


@fires(cost_ms=2.0, op="aten::mm")
def a_product_on_a_gpu_with_few_units_for_float64() -> TraceBuilder:
    return multiplied("NVIDIA L4")


# What a Gaussian process factorizes and solves needs its 53 bits.
def factorized(op: str) -> TraceBuilder:
    b = TraceBuilder("NVIDIA L4")
    for _ in range(4):
        with b.step():
            with b.op(op), b.op("aten::copy_", shapes=[[4096, 4096]] * 2, dtypes=["double", "double"]):
                b.kernel(NAME, us=500)
            b.sync()
    return b


@quiet
def a_factorization() -> TraceBuilder:
    return factorized("aten::linalg_cholesky_ex")


@quiet
def an_inverse() -> TraceBuilder:
    return factorized("aten::inverse")


@quiet
def the_gradient_of_a_factorization() -> TraceBuilder:
    return factorized("autograd::engine::evaluate_function: LinalgCholeskyExBackward0")


@fires(cost_ms=0.5, op="aten::copy_")
def a_norm_is_no_factorization() -> TraceBuilder:
    return factorized("aten::linalg_vector_norm")


@quiet
def the_same_in_float32() -> TraceBuilder:
    return training(dtype="float", name=NAME.replace("double", "float"))


# The kernel takes floats; its name holds a double among the arguments of a function.
@quiet
def a_name_that_only_mentions_double() -> TraceBuilder:
    return training(dtype="float", name="void nan_to_num_kernel_cuda(at::TensorIteratorBase&, std::optional<double>)")


# 2 % of about 835 us is 16.7.
@edge
def two_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(19 if over else 15)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    with b.step(), b.op("aten::mul", shapes=[[8]], dtypes=["double"]):
        b.call("cudaLaunchKernel", 10)
    return b


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone(NAME, device="NVIDIA A100-PCIE-40GB")
