"""Proof of cpu/repeated-inputs: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

COPIES = {"module": "Encoder", "calls": 1, "repeats": 1, "share": 0.75, "rows": True, "file": "model.py", "line": 20}


def sampling(us: float = 2000, *, device: str | None = None, copies: dict[str, Any] | None = COPIES) -> TraceBuilder:
    """Steps in which an encoder runs over four copies of each prompt, called in line 20, and a decoder of 4 ms behind it."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if copies is None else {"repeats": [copies] if copies else []}))
    for _ in range(3):
        with b.step():
            stack = "model.py(30): forward;model.py(20): sample;train.py(7): main"
            with b.op("aten::gru", us=us, args={"Call stack": stack}):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
            with b.op("aten::mkldnn_linear", us=4000, args={"Call stack": "model.py(22): sample;train.py(7): main"}):
                pass
    return b


# 2 ms of 6 are spent in line 20, and three rows of four are there already.
@fires(cost_ms=2.0, occurrences=3, severity="high")
def an_encoder_behind_repeat_interleave() -> TraceBuilder:
    return sampling()


# A layer on the rows of the source node of each edge, with its backward pass: 500 + 900 of 4000 us a step.
@fires(cost_ms=1.4, occurrences=8, severity="high")
def a_layer_behind_a_gather_with_its_backward_pass() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0).ran_with(repeats=[COPIES | {"module": "Linear", "share": 0.9}])
    for step in range(2):
        with b.step():
            stack = "model.py(20): message;train.py(7): main"
            with b.op("aten::mkldnn_linear", us=500, seq=step, args={"Call stack": stack}):
                pass
            with b.op("aten::index_add_", us=2600, args={"Call stack": "model.py(21): aggregate;train.py(7): main"}):
                pass
            with b.backward("AddmmBackward0", step), b.op("aten::mkldnn_linear_backward", us=900):
                pass
    return b


@quiet
def rows_that_differ() -> TraceBuilder:
    return sampling(copies={})


@quiet
def calls_that_repeat_and_not_their_rows() -> TraceBuilder:
    return sampling(copies=COPIES | {"rows": False})


@quiet("not_applicable")
def modules_that_nobody_watched() -> TraceBuilder:
    return sampling(copies=None)


@quiet
def a_cheap_module() -> TraceBuilder:
    return sampling(us=40)


def on_the_gpu(
    us: float = 2000, *, blocks: int = 108, compared: bool | None = True, stacks: bool = True
) -> TraceBuilder:
    """The same steps on a GPU of 108 multiprocessors: the encoder is one kernel of so many blocks, the decoder one of 4 ms."""
    b = TraceBuilder("NVIDIA A100-PCIE-40GB", host_us=1).ran_with(repeats=[COPIES], rows_compared=compared)
    for _ in range(3):
        with b.step():
            stack = "model.py(30): forward;model.py(20): sample;train.py(7): main"
            with b.op("aten::mm", args={"Call stack": stack} if stacks else {}):
                b.kernel("ampere_sgemm_128x64_tn", us=us, grid=(blocks, 1, 1))
            with b.op("aten::mm", args={"Call stack": "model.py(22): sample;train.py(7): main"} if stacks else {}):
                b.kernel("ampere_sgemm_128x64_tn", us=4000, grid=(1080, 1, 1))
            b.sync()
    return b


# 2 ms of 6, of which all but 5 us depend on the rows.
@fires(cost_ms=2.0, occurrences=3, severity="high", line="model.py:20")
def rows_on_a_gpu() -> TraceBuilder:
    return on_the_gpu()


@quiet
def blocks_that_leave_most_of_the_gpu_idle() -> TraceBuilder:
    return on_the_gpu(blocks=53)


@quiet("not_applicable")
def rows_on_a_gpu_that_nobody_compared() -> TraceBuilder:
    return on_the_gpu(compared=None)


@edge
def half_of_the_gpu(over: bool) -> TraceBuilder:
    return on_the_gpu(blocks=54 if over else 53)


# Three quarters of (us - 5) of us + 4000 us, 0.7 in the middle: 3 % from us = 248 on.
@edge
def three_of_a_hundred_on_a_gpu(over: bool) -> TraceBuilder:
    return on_the_gpu(us=252 if over else 244)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return on_the_gpu(stacks=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("ampere_sgemm_128x64_tn").ran_with(repeats=[COPIES], rows_compared=True)


# us of us + 4000 us, three quarters of it and 0.7 in the middle: 3 % from us = 242.4 on.
@edge
def three_of_a_hundred(over: bool) -> TraceBuilder:
    return sampling(us=246 if over else 239)
