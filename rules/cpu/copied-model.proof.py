"""Proof of cpu/copied-model: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

PARAMETER = "site-packages/torch/nn/parameter.py(74): __deepcopy__;/usr/lib/python3.11/copy.py(128): deepcopy;"
PLAIN = "site-packages/torch/_tensor.py(90): __deepcopy__;/usr/lib/python3.11/copy.py(128): deepcopy;"
LOADS = "site-packages/torch/nn/modules/module.py(2345): _load_from_state_dict;"
SAVES = "site-packages/torch/nn/modules/module.py(2143): _save_to_state_dict;"
DEEP = [("aten::clone", PARAMETER), ("aten::detach", PARAMETER)]


def training(
    *each: tuple[str, str],
    parameters: int = 20,
    rest_us: float = 1000,
    python_us: float = 20,
    copying_us: float = 2,
    steps: tuple[int, ...] = (0, 1, 2),
    device: str | None = None,
    stacks: bool = True,
) -> TraceBuilder:
    """Three steps of one large operator. In some of them each of a model's parameters goes through operators of *each*, of 2 us.

    Before the first of these is Python of *python_us*. In a clone a copy_ of *copying_us* copies the numbers.
    """
    b = TraceBuilder(device, host_us=0, with_stack=stacks)
    for step in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=rest_us):
                pass
            for _ in range(parameters if step in steps else 0):
                b.idle(us=python_us)
                for name, stack in each:
                    held = {"args": {"Call stack": stack + "train.py(50): main"}} if stacks else {}
                    with b.op(name, us=2, **held):
                        if name == "aten::clone":
                            with b.op("aten::copy_", us=copying_us, **held):
                                pass
            if device:
                b.kernel("sgemm", us=5)
    return b


# 20 clones and as many detaches of 2 us, 19 stretches of Python of 20 us between them: 460 of 1,480 us.
@fires(cost_ms=0.46, occurrences=3, severity="high")
def a_deep_copy_in_each_step() -> TraceBuilder:
    return training(*DEEP)


# Stretches of over 100 us are Python as well: 19 x 200 + 80 us.
@fires(cost_ms=3.88, occurrences=3, severity="high")
def many_modules_between_the_parameters() -> TraceBuilder:
    return training(*DEEP, python_us=200)


# As much of detach, in state_dict(), and of copy_.
@fires(cost_ms=0.46, occurrences=3)
def a_target_that_is_loaded_in_each_step() -> TraceBuilder:
    return training(("aten::detach", SAVES), ("aten::copy_", LOADS))


# Weights of a file, or kept ones: cpu/built-in-step.
@quiet
def weights_that_no_other_model_holds() -> TraceBuilder:
    return training(("aten::copy_", LOADS))


# A deep copy of samples, or of a dictionary of tensors: none of these is a parameter.
@quiet
def plain_tensors() -> TraceBuilder:
    return training(("aten::clone", PLAIN), ("aten::detach", PLAIN.replace("copy.py", "own.py")))


@quiet
def copies_of_the_programs_own() -> TraceBuilder:
    return training(("aten::clone", ""), ("aten::detach", ""))


@quiet
def a_state_that_is_looked_at() -> TraceBuilder:
    return training(("aten::detach", SAVES))


@quiet
def a_copy_in_one_step_of_three() -> TraceBuilder:
    return training(*DEEP, steps=(1,))


# Nearly all of it copies numbers, which stays.
@quiet
def large_tensors() -> TraceBuilder:
    return training(*DEEP, copying_us=2_000, rest_us=10_000)


@edge
def eight_parameters(over: bool) -> TraceBuilder:
    return training(*DEEP, parameters=8 if over else 7)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(*DEEP, device="Tesla V100-SXM2-16GB")


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return training(*DEEP, stacks=False)
