"""Proof of cpu/tiny-operators: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def loop(
    count: int = 300,
    us: float = 5,
    *,
    between_us: float = 5,
    rest_us: float = 0,
    device: str | None = None,
    numbers: int = 1,
) -> TraceBuilder:
    """Steps of *count* operators of *us* with Python between, and one large operator beside them."""
    b = TraceBuilder(device)
    for _ in range(3):
        with b.step():
            for _ in range(count):
                with b.op("aten::mul", us=us, shapes=[[numbers], [numbers]]):
                    pass
                b.idle(us=between_us)
            if rest_us:
                with b.op("aten::mkldnn_convolution", us=rest_us):
                    pass
    return b


# 300 operators of 5 us, and 5 us of Python before each but the first of the recording: 2.995, 3 and 3 ms.
@fires(cost_ms=2.99833, cost_share=0.99944, occurrences=900, severity="high")
def a_loop_over_small_tensors() -> TraceBuilder:
    return loop()


# The same beside 3 ms of real work, to which the last stretch of Python leads.
@fires(cost_ms=2.995, cost_share=0.49917, severity="high")
def half_of_the_step_is_real_work() -> TraceBuilder:
    return loop(rest_us=3000)


# 60,000 numbers take 72 us on one core: these operators are as fast as their bytes. Nothing but the Python would go.
@quiet
def operators_as_fast_as_their_bytes() -> TraceBuilder:
    return loop(us=9.9, between_us=0, numbers=60_000)


# Python of 0.1 ms is no way from one operator to the next: what is left are 300 operators of 5 us, 4 % of the step.
@quiet
def long_stretches_of_python_between() -> TraceBuilder:
    return loop(between_us=120)


# A recurrent layer's own loop, and the backward of its turns: no Python stands between them.
@quiet
def the_loop_of_a_recurrent_layer() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    for step in range(3):
        with b.step():
            with b.op("aten::gru"):
                for turn in range(300):
                    with b.op("aten::addmm", seq=1000 * step + turn, us=5):
                        pass
            for turn in reversed(range(300)):
                with b.backward("AddmmBackward0", 1000 * step + turn), b.op("aten::mm", us=5):
                    pass
    return b


@quiet
def the_same_time_in_operators_that_compute() -> TraceBuilder:
    return loop(300, 50)


@quiet
def small_operators_around_a_large_one() -> TraceBuilder:
    return loop(rest_us=30_000)


@quiet
def too_few_to_matter() -> TraceBuilder:
    return loop(100)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    b = loop(device="Tesla V100-SXM2-16GB")
    with b.step():
        b.kernel("volta_sgemm_128x64_nn", us=100)
    return b


@quiet("not_applicable")
def text_token_by_token() -> TraceBuilder:
    """One query of each sequence against one key more each time: a loop that stays."""
    b = loop()
    for length in range(64, 80):
        shapes = [[8, 4, 1, 64], [8, 4, length, 64], [8, 4, length, 64]]
        with b.op("aten::scaled_dot_product_attention", us=5, shapes=shapes):
            pass
    return b


@edge
def operators_of_ten_microseconds(over: bool) -> TraceBuilder:
    return loop(us=9.999 if over else 10)


@edge
def two_hundred_a_step(over: bool) -> TraceBuilder:
    return loop(200 if over else 199)


def windows(*lengths: int) -> TraceBuilder:
    """Steps of a line that calls an encoder's small operators on windows of so many tokens, twenty times each."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step(), b.python("windows.py(12): forward"):
            for turn in range(100):
                length = lengths[turn % len(lengths)]
                for name in ("aten::add", "aten::_softmax", "aten::gelu", "aten::mul"):
                    with b.op(name, us=5, shapes=[[2, length, length]]):
                        pass
    return b


@fires(cost_ms=2, severity="high")
def windows_of_one_length() -> TraceBuilder:
    return windows(8)


@edge
def windows_of_four_lengths(over: bool) -> TraceBuilder:
    return windows(5, 6, 7) if over else windows(5, 6, 7, 8)


def on_one_line(us: float, *, turns: int = 100, name: str = "aten::index_add") -> TraceBuilder:
    """Steps of a line that calls three operators of 2 us and a longer one in each turn, beside 12 ms of real work."""
    b = TraceBuilder(None, host_us=0)
    for _ in range(3):
        with b.step():
            with b.python("graph.py(27): forward"):
                for _ in range(turns):
                    for _ in range(3):
                        with b.op("aten::index", us=2):
                            pass
                    with b.op(name, us=us):
                        pass
            with b.op("aten::mkldnn_convolution", us=12_000):
                pass
    return b


# 0.6 ms in operators of 2 us, and 4 ms in those of 40 us on their line.
@fires(cost_ms=4.6, cost_share=0.27711, occurrences=1200, severity="high")
def the_longer_operators_of_the_loop() -> TraceBuilder:
    return on_one_line(40)


@edge
def a_tenth_of_a_millisecond_each(over: bool) -> TraceBuilder:
    return on_one_line(99.9 if over else 100)


# 49 turns are 196 calls of the line a step: no loop, and 147 tiny operators are too few.
@quiet
def a_line_that_calls_few() -> TraceBuilder:
    return on_one_line(40, turns=49)


# 40 us are half a million multiplications or more, wherever they are called: 0.6 ms in operators of 2 us are 4 % of the step.
@quiet
def products_of_the_loop_that_compute() -> TraceBuilder:
    return on_one_line(40, name="aten::addmm")
