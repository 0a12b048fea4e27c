"""Proof of cpu/state-dict-in-loop: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

SAVES = "site-packages/torch/nn/modules/module.py(2143): _save_to_state_dict;"
WALKS = "site-packages/torch/nn/modules/module.py(2194): state_dict;"


def averaging(
    tensors: int = 300, *, stack: str = SAVES + WALKS, rest_us: float = 1000, device: str | None = None
) -> TraceBuilder:
    """Steps of one large operator, and of so many detached tensors: 2 us each behind 3 us of Python."""
    b = TraceBuilder(device, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=rest_us):
                pass
            for _ in range(tensors):
                b.idle(us=3)
                with b.op("aten::detach", us=2, args={"Call stack": stack + "ema.py(50): update;train.py(9): main"}):
                    pass
    return b


# 300 x 5 us of 2.5 ms.
@fires(cost_ms=1.5, cost_share=0.6, occurrences=900, severity="high")
def a_dictionary_for_each_tensor() -> TraceBuilder:
    return averaging()


@fires(cost_ms=1.5, occurrences=900)
def the_call_itself() -> TraceBuilder:
    return averaging(stack=WALKS)


@quiet
def tensors_that_the_program_detaches() -> TraceBuilder:
    return averaging(stack="")


@quiet
def beside_a_step_of_much_more_work() -> TraceBuilder:
    return averaging(rest_us=100_000)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = averaging(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@edge
def two_hundred_a_step(over: bool) -> TraceBuilder:
    return averaging(200 if over else 199)


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
