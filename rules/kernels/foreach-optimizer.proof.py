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

ADAM = (
    "aten::_foreach_mul_", "aten::_foreach_lerp_", "aten::_foreach_mul_", "aten::_foreach_addcmul_", "aten::_foreach_sqrt",
    "aten::_foreach_div_", "aten::_foreach_add_", "aten::_foreach_addcdiv_",
)  # fmt: skip
MOMENTUM = ("aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_")


def training(
    us: float = 25,
    optimizer: str = "AdamW",
    ops: tuple[str, ...] = ADAM,
    name: str = FOREACH,
    *,
    host: bool = True,
) -> TraceBuilder:
    """Steps of a product of 800 us, and an optimizer of eight kernels."""
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


# Eight kernels of 25 us in each step of a millisecond: 55 % of 20 % are 11.
@fires(cost_ms=0.2, occurrences=32, severity="high", op="aten::_foreach_mul_")
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


# Three kernels of 50 us, of which fused five passes of eight stay: a third of 15.8 % are 5.2.
@fires(cost_ms=0.15, severity="medium", op="aten::_foreach_add_")
def sgd_with_momentum() -> TraceBuilder:
    return training(50, optimizer="SGD", ops=MOMENTUM)


# Of about 830 us, 3.2 % is 26: eight kernels of 3.5 or of 3.
@edge
def three_percent_of_the_step(over: bool) -> TraceBuilder:
    return training(3.5 if over else 3)


# Of about 850 us, 5.3 % is 45: three kernels of 16 or of 14.
@edge
def five_percent_of_the_step_with_momentum(over: bool) -> TraceBuilder:
    return training(16 if over else 14, optimizer="SGD", ops=MOMENTUM)


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
