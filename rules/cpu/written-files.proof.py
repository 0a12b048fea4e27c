"""Proof of cpu/written-files: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

SAVE = "/venv/lib/python3.12/site-packages/torch/serialization.py(944): save"
RECORD = "<built-in method write_record of pybind11_builtins object at 0x7f31>"
WRITE = "<built-in method write of _io.TextIOWrapper object at 0x7f32>"
STEPS = 4


def training(
    *calls: str,
    us: float = 2000,
    every: int = 1,
    steps: int = STEPS,
    thread: int | None = None,
    noted: str = "",
    kernels: bool = False,
) -> TraceBuilder:
    """Steps of 10 ms, of which at the end the innermost of *calls*, at a line of the user's, takes *us* in each *every*-th one.

    With *noted* the trace holds no calls of Python, and the recorder's note before the operator that comes behind.
    """
    b = TraceBuilder("Tesla V100-SXM2-16GB" if kernels else None, host_us=0, latency_us=0)
    before = False
    for number in range(steps):
        with b.step():
            args = {"Written before": f"{noted};train.py(30): save;train.py(50): main"} if noted and before else {}
            args["Call stack"] = "train.py(20): train;train.py(50): main"
            before = number % every == 0
            spent = us if before else 0
            if kernels:
                b.kernel("volta_sgemm_128x64_nn", us=10_000 - spent)
                b.sync()
            elif noted:
                place = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 4000, "tid": 4000}
                b.event(place | {"args": args}, us=10_000 - spent)
                b.idle(us=10_000 - spent)
            else:
                with b.op("aten::mm", us=10_000 - spent):
                    pass
            if spent and noted:
                b.idle(us=spent)
            elif spent:
                _call(b, calls, us)
    return b


def _call(b: TraceBuilder, calls: tuple[str, ...], us: float) -> None:
    if not calls:
        b.idle(us=us)
        return
    with b.python(calls[0]):
        _call(b, calls[1:], us)


# 2 ms of 10, in each of four steps.
@fires(cost_ms=2, cost_share=0.2, occurrences=4, severity="high", line="train.py:30")
def a_checkpoint_in_every_step() -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD)


@fires(cost_ms=2, line="train.py:30")
def a_log_is_flushed() -> TraceBuilder:
    return training("train.py(30): log", "<built-in function fsync>")


@fires(cost_ms=1, line="train.py:30")
def every_second_step() -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD, every=2)


@fires(line="train.py:30")
def while_a_gpu_waits() -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD, kernels=True)


# Behind the last operator there is no note: the last step ends as those before it.
@fires(cost_ms=2, occurrences=4, line="train.py:30")
def as_the_recorder_noted_it() -> TraceBuilder:
    return training(noted="1.000 of 2000000 ns in torch.save")


@quiet
def half_of_it_was_something_else() -> TraceBuilder:
    return training(noted="0.450 of 2000000 ns in torch.save")


@quiet
def a_checkpoint_of_one_step() -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD, every=STEPS)


@quiet
def a_buffer_in_memory() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(STEPS):
        with b.step():
            with b.op("aten::mm", us=8000):
                pass
            with b.python("train.py(30): copy"), b.python(SAVE):
                with b.python(RECORD):
                    b.idle(us=1900)
                with b.python("<built-in method flush of _io.BytesIO object at 0x7f33>"):
                    b.idle(us=100)
    return b


@quiet
def texts_are_made_and_not_written() -> TraceBuilder:
    return training("train.py(30): log", "/usr/lib/python3.12/json/__init__.py(183): dumps")


@quiet
def a_function_that_only_saves_by_its_name() -> TraceBuilder:
    return training("train.py(30): keep", "/venv/lib/python3.12/site-packages/trainer/state.py(9): save")


@quiet
def another_thread_writes() -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(STEPS):
        with b.step():
            with b.thread(7, join=False), b.python("train.py(30): keep"), b.python(SAVE), b.python(RECORD):
                b.idle(us=5000)
            with b.op("aten::mm", us=10_000):
                pass
    return b


@lacks("stacks")
def neither_python_nor_lines() -> TraceBuilder:
    return training()


@edge
def a_tenth_of_a_millisecond(over: bool) -> TraceBuilder:
    b = TraceBuilder(None)
    for _ in range(STEPS):
        with b.step():
            for _ in range(10):
                with b.op("aten::mm", us=500):
                    pass
                _call(b, ("train.py(30): log", WRITE), 100 if over else 99.9)
    return b


@edge
def two_of_the_steps(over: bool) -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD, every=2 if over else 4, us=4000)


@edge
def one_step_in_ten(over: bool) -> TraceBuilder:
    return training("train.py(30): keep", SAVE, RECORD, every=10 if over else 11, us=8000, steps=20 if over else 22)


@edge
def a_twenty_fifth_of_the_step(over: bool) -> TraceBuilder:
    """90 % of 0.4 ms of 10 is 3.6 %."""
    return training("train.py(30): keep", SAVE, RECORD, us=402 if over else 398)
