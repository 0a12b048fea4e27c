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
    return training(dtype="", name="volta_dgemm_128x64_nn")


@fires(cost_ms=0.1, op="aten::mul")
def on_amd() -> TraceBuilder:
    return training(device="AMD Instinct MI300X")


# Matrix Cores multiply float64 as fast as float32.
@quiet
def a_product_of_tensiles_on_amd() -> TraceBuilder:
    return training(dtype="", name="Cijk_Ailk_Bljk_DB_MT64x64x16_MI16x16x4", device="AMD Instinct MI300X")


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
