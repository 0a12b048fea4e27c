"""Proof of precision/fp16-on-bf16-gpu: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Autocast
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

UNSCALE = "aten::_amp_foreach_non_finite_check_and_unscale_"


def training(us: float = 20, op: str = UNSCALE, device: str = "NVIDIA A100-PCIE-40GB") -> TraceBuilder:
    """Steps of a product of 900 us, and one kernel over all gradients."""
    b = TraceBuilder(device)
    for _ in range(4):
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn", us=900)
            with b.op(op):
                b.kernel("void multi_tensor_apply_kernel<TensorListMetadata<1>, UnaryOpFunctor<float, 1, 1, 0>>", us=us)
            b.sync()
    return b


@fires(cost_ms=0.02, occurrences=4, severity="low", op=UNSCALE)
def gradients_unscaled_in_every_step() -> TraceBuilder:
    return training()


@quiet
def the_same_step_without_a_scaler() -> TraceBuilder:
    return training(op="aten::_foreach_mul_")


@quiet("not_applicable")
def a_volta_that_has_no_bf16() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


# 0.2 % of about 920 us is 1.8.
@edge
def two_thousandths_of_the_step(over: bool) -> TraceBuilder:
    return training(2.2 if over else 1.5)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone(UNSCALE, device="NVIDIA A100-PCIE-40GB")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return kernels_alone("void multi_tensor_apply_kernel<TensorListMetadata<1>>", device="NVIDIA A100-PCIE-40GB")


@fires(cost_ms=0.02, setting="torch.autocast=float16 at train.py:30 → bfloat16")
def a_region_known_to_be_in_fp16() -> TraceBuilder:
    return training().ran_with(autocast=[Autocast("cuda", "float16", "train.py", 30)])
