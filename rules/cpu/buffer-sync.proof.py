"""Proof of cpu/buffer-sync: traces on which it fires, and traces on which it does not."""

from contextlib import nullcontext

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

BUFFERS = [[512, 8192], [512]]
FLAT = 512 * 8192 + 512
FORWARD = "DistributedDataParallel.forward"


def training(
    *,
    copy_us: float = 400,
    wait_us: float = 1000,
    annotation: str | None = FORWARD,
    first: str | None = None,
    broadcast: bool = True,
    device: str | None = None,
) -> TraceBuilder:
    """Four steps: two buffers are put together, broadcast and copied back, of *copy_us* each; then a network of 10 ms."""
    b = TraceBuilder(device, world_size=2, rank=0, backend="gloo", host_us=0)

    def op(name: str, us: float, *shapes: object, types: list[str] | None = None) -> None:
        with b.op(name, shapes=list(shapes), dtypes=types, us=us):
            if device and name == "aten::mkldnn_convolution":
                b.kernel("convolution", us=500)

    for _ in range(4):
        with b.step(), b.annotation(annotation) if annotation else nullcontext():
            if first:
                op(first, 50, [8, 3])
            op("aten::flatten_dense_tensors", copy_us, BUFFERS)
            if broadcast:
                op("c10d::broadcast_", 50, [[FLAT]])
                with b.thread(77), b.annotation("gloo:broadcast", us=wait_us):
                    pass
            op("aten::unflatten_dense_tensors", 50, [FLAT], BUFFERS, types=["float", "TensorList"])
            op("aten::copy_", copy_us, BUFFERS[0], BUFFERS[0])
            op("aten::copy_", 0, BUFFERS[1], BUFFERS[1])
            op("aten::mkldnn_convolution", 10_000, [8, 1, 40, 101], [24, 1, 3, 3])
    return b


# Two copies of 400 us, two operators of 50, and 1 ms of waiting: 1.9 ms of 11.9.
@fires(cost_ms=1.9, cost_share=1.9 / 11.9, occurrences=4, severity="high")
def a_table_and_a_window_are_broadcast_in_every_forward() -> TraceBuilder:
    return training()


@fires(cost_ms=0.9, occurrences=4)
def an_operator_that_waits_itself() -> TraceBuilder:
    return training(wait_us=0)


@quiet
def tensors_that_the_program_joins_itself() -> TraceBuilder:
    return training(annotation="my exchange")


@quiet
def outside_of_any_forward() -> TraceBuilder:
    return training(annotation=None)


# Behind the first operator of the model, it is the model's own.
@quiet
def the_models_own_exchange() -> TraceBuilder:
    return training(first="aten::mul")


@quiet
def nothing_is_sent() -> TraceBuilder:
    return training(broadcast=False)


# 0.75 of 2 % is 1.5 %: of the copies, 100 us and the network of 10 ms, 52.1 us each are 2.00 %.
@edge
def one_and_a_half_per_cent(over: bool) -> TraceBuilder:
    return training(copy_us=53 if over else 51, wait_us=0)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


@lacks("host", verdict="not_applicable")
def kernels_of_a_gpu() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn")
