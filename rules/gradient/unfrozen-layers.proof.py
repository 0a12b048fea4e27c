"""Proof of gradient/unfrozen-layers: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

STORE = "torch::autograd::AccumulateGrad"
HEAD = [[10], [10, 64]]
BACKBONE = [[64], [64, 64], [64, 32]]


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, *, record_shapes: bool) -> None:
        super().__init__(device, record_shapes=record_shapes)
        self.gpu = device is not None


def stored(b: Program, shape: list[int], *, added: bool = False) -> None:
    with b.op(f"autograd::engine::evaluate_function: {STORE}"), b.op(STORE, shapes=[shape]):
        if added:
            with b.op("aten::add_", shapes=[shape, shape, []], us=0.5):
                pass


def backward(b: Program, us: float, numbers: list[int], shapes: list[list[int]], *, added: bool = False) -> None:
    """Run one node for each number, *us* together, and then store gradients: on a GPU on a thread of autograd's."""
    with b.thread(2) if b.gpu else nullcontext():
        for number in numbers:
            with b.backward("MmBackward0", number), b.op("aten::mm", shapes=[[32, 64], [64, 64]]):
                work(b, us / len(numbers))
        for shape in shapes:
            stored(b, shape, added=added)


def work(b: Program, us: float) -> None:
    if not b.gpu:
        with b.op("aten::bmm", us=us):
            pass
    else:
        b.kernel("ampere_sgemm_128x64_nn", us=us)


def forward(b: Program, numbers: list[int], us: float = 1000) -> None:
    for number in numbers:
        with b.op("aten::mm", shapes=[[32, 64], [64, 64]], seq=number):
            work(b, us)


def update(b: Program, shapes: list[list[int]], form: str = "single") -> None:
    with b.annotation("Optimizer.step#SGD.step"):
        if form == "fused":
            with b.op("aten::_fused_sgd_", shapes=[shapes, shapes, [], []]):
                work(b, 10)
        elif form == "foreach":
            with b.op("aten::_foreach_add_", shapes=[shapes if len(shapes) <= 30 else [], shapes, []]):
                work(b, 10)
        else:
            for shape in shapes:
                with b.op("aten::add_", shapes=[shape, shape, []]):
                    work(b, 10)


def training(
    us: float = 2000,
    *,
    updated: list[list[int]] = HEAD,
    form: str = "single",
    device: str | None = None,
    passes: int = 1,
    backbone: list[list[int]] = BACKBONE,
    use: str = "",
    shapes: bool = True,
) -> Program:
    """Four steps: 4 ms forward, 1 ms backward through a head, *us* through the backbone, then a step of the optimizer."""
    b = Program(device, record_shapes=shapes)
    for step in range(4):
        with b.step():
            for each in range(passes):
                number = 10 * (2 * step + each)
                with b.python("train.py(20): embed"):
                    forward(b, [number + 1, number + 2])
                forward(b, [number + 3, number + 4])
                backward(b, 1000, [number + 4, number + 3], HEAD, added=each > 0)
                backward(b, us, [number + 2, number + 1], backbone, added=step + each > 0)
            if use:
                with b.op(use, shapes=[backbone[-1], [], []], us=1):
                    pass
            update(b, updated, form)
            if device is not None:
                b.sync()
    return b


# 2 ms behind the last gradient of the head.
@fires(cost_ms=2.0, occurrences=4, severity="high", line="train.py:20")
def a_head_is_trained_and_the_backbone_is_not_frozen() -> Program:
    return training()


@fires(cost_ms=2.0, occurrences=4)
def the_fused_form() -> Program:
    return training(form="fused")


@fires(cost_ms=2.0, occurrences=4)
def the_form_on_lists() -> Program:
    return training(form="foreach")


@fires(cost_ms=4.0, occurrences=8)
def gradients_of_two_batches_add_up() -> Program:
    return training(passes=2)


@fires(cost_ms=2.0, occurrences=4)
def on_a_gpu() -> Program:
    return training(device="Tesla V100-SXM2-16GB")


# A tensor of the head's shape lies in the backbone, too: the step updates exactly what is stored first.
@fires(cost_ms=2.0)
def a_shape_that_both_have() -> Program:
    return training(backbone=[*BACKBONE, [10, 64]])


@fires(cost_ms=2.0)
def gradients_that_are_clipped_together() -> Program:
    return training(use="aten::mul_")


@quiet
def all_layers_are_trained() -> Program:
    return training(updated=[*HEAD, *BACKBONE])


# The first layer is: gradients have to pass through all.
@quiet
def the_first_layer_is_trained() -> Program:
    return training(updated=[*HEAD, BACKBONE[-1]])


@quiet
def an_update_by_hand() -> Program:
    return training(use="aten::sub_")


@quiet
def the_gradient_of_an_input_is_read() -> Program:
    return training(use="aten::sign")


# The profiler writes lists of up to 30 tensors: which shapes a step on more of them updates is not known.
@quiet("not_run")
def a_list_that_is_too_long_to_be_recorded() -> Program:
    return training(updated=[*HEAD, *[[7]] * 30], form="foreach")


# Shards, and flat copies of parameters, have shapes of their own.
@quiet
def a_step_on_what_no_gradient_has_the_shape_of() -> Program:
    return training(updated=[*HEAD, [4096]])


@edge
def a_fiftieth_of_the_step(over: bool) -> Program:
    # 90 % of 118 us of 5.138 ms are 2.07 %, those of 98 us 1.72 %.
    return training(118 if over else 98)


@lacks("shapes")
def no_shapes_recorded() -> Program:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_nn")
