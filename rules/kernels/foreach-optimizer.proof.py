"""Proof of kernels/foreach-optimizer: traces on which it fires, and traces on which it does not."""

from advisor.reading.program_settings import Optimizer
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpScalarFunctor>"
)
FUSED = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, FusedAdam>"
)

ADAM = ("aten::_foreach_mul_", "aten::_foreach_mul_", "aten::_foreach_addcmul_", "aten::_foreach_addcdiv_")


def training(
    us: float = 50,
    optimizer: str = "AdamW",
    ops: tuple[str, ...] = ADAM,
    name: str = FOREACH,
    *,
    host: bool = True,
) -> TraceBuilder:
    """Steps of a product of 800 us, and an optimizer of four kernels."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB")
    for _ in range(4):
        if not host:
            b.kernel(name, us=us, launched=False)
            continue
        with b.step():
            with b.op("aten::mm"):
                b.kernel("ampere_sgemm_128x64_tn", us=800)
            with b.annotation(f"Optimizer.step#{optimizer}.step"):
                for op in ops:
                    with b.op(op):
                        b.kernel(name, us=us)
            b.sync()
    return b


# Four kernels of 50 us in each step.
@fires(cost_ms=0.2, occurrences=16, severity="medium", op="aten::_foreach_mul_")
def a_foreach_step_of_a_fifth() -> TraceBuilder:
    return training()


@quiet
def the_same_step_fused() -> TraceBuilder:
    return training(ops=4 * ("aten::_fused_adamw_",), name=FUSED)


@quiet
def an_optimizer_of_another_library_that_is_fused() -> TraceBuilder:
    return training(optimizer="FusedAdam")


@quiet
def an_optimizer_without_a_fused_form() -> TraceBuilder:
    return training(optimizer="NAdam")


# One operator for all parameters: the fused form reads and writes as much.
@quiet
def plain_sgd() -> TraceBuilder:
    return training(optimizer="SGD", ops=4 * ("aten::_foreach_add_",))


@fires(cost_ms=0.15, op="aten::_foreach_add_")
def sgd_with_momentum() -> TraceBuilder:
    return training(optimizer="SGD", ops=("aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_"))


# Of about 860 us, 5 % is 43: four kernels of 11.5 or of 10.
@edge
def five_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(11.5 if over else 10)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::_foreach_mul_", annotation="Optimizer.step#AdamW.step")


@lacks("host")
def no_host_recorded() -> TraceBuilder:
    return training(host=False)


@fires(cost_ms=0.2, setting="AdamW(fused=None) at train.py:50 → True")
def an_optimizer_left_to_itself() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("AdamW", file="train.py", line=50)])


# What is left of foreach beside a fused step is not for this rule.
@quiet
def an_optimizer_known_to_be_fused() -> TraceBuilder:
    return training().ran_with(optimizers=[Optimizer("AdamW", fused=True)])
