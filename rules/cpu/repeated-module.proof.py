"""Proof of cpu/repeated-module: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

AGAIN = {"module": "Encoder", "calls": 4, "repeats": 3, "share": 0.75, "file": "model.py", "line": 20}


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU, whose operators have their stacks."""

    def __init__(self, device: str | None, again: dict[str, Any] | None, *, stacks: bool = True, **found: Any) -> None:
        super().__init__(device, host_us=0)
        self.gpu, self.stacks = device is not None, stacks
        self.ran_with(**({} if again is None else {"repeats": [again] if again else []}), **found)

    def run(self, us: float, stack: str, seq: int | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        args = {"Call stack": stack} if self.stacks else {}
        name, us_here = ("aten::linear", 1) if self.gpu else ("aten::mkldnn_linear", us)
        with self.op(name, us=us_here, seq=seq, args=args):
            if self.gpu:
                self.kernel("volta_sgemm_128x64_nn", us=us)

    def run_backward(self, us: float, seq: int) -> None:
        """Add the backward pass of an operator."""
        with self.backward("AddmmBackward0", seq), self.op("aten::mm", us=1 if self.gpu else us):
            if self.gpu:
                self.kernel("volta_sgemm_128x64_nn", us=us)


ENCODE = "model.py(30): forward;model.py(20): encode;train.py(7): main"
DECODE = "model.py(40): forward;model.py(21): decode;train.py(7): main"
V100 = "Tesla V100-SXM2-16GB"


def decoding(
    us: float = 500,
    *,
    device: str | None = None,
    again: dict[str, Any] | None = AGAIN,
    stacks: bool = True,
    **found: Any,
) -> TraceBuilder:
    """Steps of four tokens: each runs an encoder, called in line 20 and computing in line 30, and a decoder of 1000 us."""
    b = Program(device, again, stacks=stacks, **found)
    for _ in range(3):
        with b.step():
            for _ in range(4):
                b.run(us, ENCODE)
                b.run(1000, DECODE)
            if device:
                b.sync()
    return b


# 2 ms of 6 are spent in line 20, and three calls of four compute again: 1.5 ms, of which 80 to 100 % return.
@fires(cost_ms=2.0, occurrences=12, severity="high")
def an_encoder_that_runs_again_for_each_token() -> TraceBuilder:
    return decoding()


SINGLES = {"module": "Encoder", "calls": 4, "loops": 1, "share": 1.0, "file": "model.py", "line": 20}


# Of products of 500 us with many rows one batch spares 0.75 (8 + 0.4 x 492) us, 0.31 of them: less than 0.75.
@fires(cost_ms=2.0, occurrences=12, severity="high")
def calls_of_which_most_compute_again_and_a_batch_would_spare_less() -> TraceBuilder:
    return decoding(singles=[SINGLES])


@quiet
def calls_with_one_sample_each_of_which_some_come_again() -> TraceBuilder:
    return decoding(again=AGAIN | {"repeats": 1, "share": 0.25}, singles=[SINGLES])


# Of 60 % of the calls' time a batch would spare 0.31: 0.18 of all, less than cpu/one-by-one speaks from.
@fires(cost_ms=2.0)
def calls_of_which_a_batch_would_spare_little() -> TraceBuilder:
    return decoding(again=AGAIN | {"repeats": 1, "share": 0.18}, singles=[SINGLES | {"share": 0.6}])


def training(device: str | None = None, *, passes: int = 1, each: bool = False) -> TraceBuilder:
    """Two such steps, with backward passes of the encoder's calls, of 700 us each: of all calls, or with *each* of one alone."""
    b = Program(device, AGAIN)
    for step in range(2):
        with b.step():
            for call in range(4):
                b.run(500, ENCODE, 10 * step + call)
                b.run(1000, DECODE)
            for call in range(4 * passes):
                b.run_backward(700, 10 * step + (call // passes if each else call % 4))
                if each:
                    b.run(20, DECODE)
            if device:
                b.sync()
    return b


# Backward passes of the encoder's calls are the encoder's: 4 x (500 + 700) of 4 x 2200 us.
@fires(cost_ms=4.8, occurrences=32, severity="high")
def with_its_backward_pass() -> TraceBuilder:
    return training()


# Each of both passes goes through the graphs of all calls, and would go through one: 4 x (500 + 2 x 700) us.
@fires(cost_ms=7.6)
def with_two_passes_through_all_of_its_calls() -> TraceBuilder:
    return training(passes=2)


# Whether the passes of a call can be one with those of others is not known: of 4 x (500 + 2 x 700) us a half of three quarters.
@fires(cost_ms=7.6)
def with_passes_that_run_each_graph_twice() -> TraceBuilder:
    return training(passes=2, each=True)


@fires(cost_ms=2.0, occurrences=12, severity="high", line="model.py:20")
def on_a_gpu() -> TraceBuilder:
    return decoding(device=V100)


@fires(cost_ms=4.8, occurrences=32, severity="high")
def on_a_gpu_with_its_backward_pass() -> TraceBuilder:
    return training(V100)


# All of them are made from one line that computes again: cpu/repeated-function.
@quiet
def calls_that_another_line_leads_to() -> TraceBuilder:
    line = {"calls": 3, "share": 0.75, "backward": 0.0, "earlier": 7, "file": "train.py", "line": 7}
    return decoding().ran_with(repeats=[AGAIN], again=[line])


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


@quiet
def calls_on_a_gpu_that_differ() -> TraceBuilder:
    return decoding(device=V100, again={})


# 4 us of 4 (us + 1000) at three quarters of it and 0.9: 4.5 % from us = 71.4 on.
@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    return decoding(us=73 if over else 70)


@lacks("stacks")
def no_stacks_recorded() -> TraceBuilder:
    return decoding(stacks=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn").ran_with(repeats=[AGAIN])
