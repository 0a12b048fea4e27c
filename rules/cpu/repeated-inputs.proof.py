"""Proof of cpu/repeated-inputs: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

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


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return sampling(device="NVIDIA A100-SXM4-80GB")


# us of us + 4000 us, three quarters of it and 0.7 in the middle: 3 % from us = 242.4 on.
@edge
def three_of_a_hundred(over: bool) -> TraceBuilder:
    return sampling(us=246 if over else 239)
