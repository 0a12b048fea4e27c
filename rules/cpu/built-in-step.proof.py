"""Proof of cpu/built-in-step: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LINEAR = "torch/nn/modules/linear.py"
INIT = f"torch/nn/init.py(518): kaiming_uniform_;{LINEAR}(121): reset_parameters;{LINEAR}(112): __init__"


def served(
    us: float = 400,
    *,
    inner: str = INIT,
    op: str = "aten::uniform_",
    built: int = 3,
    stacks: bool = True,
    marked: bool = True,
) -> TraceBuilder:
    """Three steps of 1 ms, of which *built* make a layer in line 7 of a function predict."""
    b = TraceBuilder(None, host_us=0)

    def step(builds: bool) -> None:
        if builds:
            stack = f"{inner};serve.py(7): predict;serve.py(20): main"
            with b.op(op, us=us, args={"Call stack": stack} if stacks else {}):
                pass
        stack = "torch/nn/functional.py(9): linear;serve.py(8): predict;serve.py(20): main"
        with b.op("aten::addmm", us=1000 - us * builds, args={"Call stack": stack} if stacks else {}):
            pass

    for number in range(3):
        if marked:
            with b.step():
                step(number < built)
        else:
            step(number < built)
    return b


@fires(cost_ms=0.4, occurrences=3, severity="high", line="serve.py:7")
def a_layer_made_for_each_request() -> TraceBuilder:
    return served()


@fires(cost_ms=0.4, line="serve.py:7")
def weights_loaded_for_each_request() -> TraceBuilder:
    load = "torch/nn/modules/module.py(2400): _load_from_state_dict;torch/nn/modules/module.py(2590): load_state_dict"
    return served(inner=load, op="aten::copy_")


@quiet
def layers_made_in_the_first_step() -> TraceBuilder:
    return served(built=1)


@quiet
def random_numbers_of_the_program() -> TraceBuilder:
    return served(inner="noise.py(3): noise")


# 0.975 of 20.5 us of 1 ms: 2 %.
@edge
def two_of_a_hundred(over: bool) -> TraceBuilder:
    return served(21.5 if over else 19.5)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return served(stacks=False)


@lacks("steps")
def no_steps() -> TraceBuilder:
    return served(marked=False)
