"""Proof of cpu/printed-tensors: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

PRINTS = "site-packages/torch/_tensor_str.py(214): format;"
ASKS = "site-packages/torch/_tensor.py(1136): __format__;"


def logging(operators: int = 200, *, stack: str = PRINTS, asks: int = 0, rest_us: float = 1000) -> TraceBuilder:
    """Steps of one large operator, and of so many small ones: 2 us each behind 3 us of Python; *asks* more are the tensor's own."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            with b.op("aten::mkldnn_convolution", us=rest_us):
                pass
            for number in range(operators + asks):
                b.idle(us=3)
                inner = stack if number < operators else ASKS
                with b.op("aten::item", us=2, args={"Call stack": inner + "model.py(30): forward;train.py(9): main"}):
                    pass
    return b


# 200 x 5 us of 2 ms.
@fires(cost_ms=1.0, cost_share=0.5, occurrences=600, severity="high", line="model.py:30")
def a_debug_message_of_each_layer() -> TraceBuilder:
    return logging()


# 100 numbers that the printer asks the tensor for are of its text too.
@fires(cost_ms=1.5, occurrences=900)
def numbers_that_the_printer_asks_for() -> TraceBuilder:
    return logging(asks=100)


@quiet
def a_loss_in_a_text() -> TraceBuilder:
    return logging(stack=ASKS)


@quiet
def numbers_that_the_program_reads() -> TraceBuilder:
    return logging(stack="")


@quiet
def beside_a_step_of_much_more_work() -> TraceBuilder:
    return logging(rest_us=150_000)


@quiet
def a_tensor_that_is_printed_once() -> TraceBuilder:
    b = logging(0)
    with b.step():
        for _ in range(2_000):
            with b.op("aten::item", us=2, args={"Call stack": PRINTS + "train.py(9): main"}):
                pass
    return b


@edge
def fifty_operators_a_step(over: bool) -> TraceBuilder:
    return logging(50 if over else 49)


@lacks("stacks")
def without_lines() -> TraceBuilder:
    b = TraceBuilder(None)
    with b.step():
        for _ in range(300):
            with b.op("aten::item", us=2):
                pass
    return b


@lacks("host")
def kernels_of_the_gpu_alone() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
