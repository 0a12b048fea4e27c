"""Proof of cpu/repeated-module: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

AGAIN = {"module": "Encoder", "calls": 4, "repeats": 3, "share": 0.75, "file": "model.py", "line": 20}


def decoding(us: float = 500, *, device: str | None = None, again: dict[str, Any] | None = AGAIN) -> TraceBuilder:
    """Steps of four tokens: each runs an encoder, called in line 20 and computing in line 30, and a decoder of 1000 us."""
    b = TraceBuilder(device, host_us=0).ran_with(**({} if again is None else {"repeats": [again] if again else []}))
    for _ in range(3):
        with b.step():
            for _ in range(4):
                stack = "model.py(30): forward;model.py(20): encode;train.py(7): main"
                with b.op("aten::mkldnn_linear", us=us, args={"Call stack": stack}):
                    if device:
                        b.kernel("volta_sgemm_128x64_nn", us=100)
                stack = "model.py(40): forward;model.py(21): decode;train.py(7): main"
                with b.op("aten::mkldnn_linear", us=1000, args={"Call stack": stack}):
                    pass
    return b


# 2 ms of 6 are spent in line 20, and three calls of four compute again: 1.5 ms, of which 80 to 100 % return.
@fires(cost_ms=2.0, occurrences=12, severity="high")
def an_encoder_that_runs_again_for_each_token() -> TraceBuilder:
    return decoding()


# Backward passes of the encoder's calls, of 700 us each, are the encoder's: 4 x (500 + 700) of 4 x 2200 us.
@fires(cost_ms=4.8, occurrences=32, severity="high")
def with_its_backward_pass() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0).ran_with(repeats=[AGAIN])
    stack = "model.py(30): forward;model.py(20): encode;train.py(7): main"
    for step in range(2):
        with b.step():
            for call in range(4):
                with b.op("aten::mkldnn_linear", us=500, seq=10 * step + call, args={"Call stack": stack}):
                    pass
                with b.op(
                    "aten::mkldnn_linear", us=1000, args={"Call stack": "model.py(21): decode;train.py(7): main"}
                ):
                    pass
            for call in range(4):
                with (
                    b.backward("MkldnnLinearBackward0", 10 * step + call),
                    b.op("aten::mkldnn_linear_backward", us=700),
                ):
                    pass
    return b


@quiet
def calls_that_differ() -> TraceBuilder:
    return decoding(again={})


@quiet("not_applicable")
def modules_that_nobody_watched() -> TraceBuilder:
    return decoding(again=None)


@quiet
def another_line_of_the_same_file() -> TraceBuilder:
    return decoding(again=AGAIN | {"line": 2})


@quiet
def a_cheap_module() -> TraceBuilder:
    return decoding(us=20)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return decoding(device="NVIDIA A100-SXM4-80GB")


# 4 us of 4 (us + 1000) at three quarters of it and 0.9: 4.5 % from us = 71.4 on.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return decoding(us=73 if over else 70)
