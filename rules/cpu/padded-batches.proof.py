"""Proof of cpu/padded-batches: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet

WIDTH, BATCH, WORDS, FEATURES = 128, 32, 1000, 64


def training(
    us: float = 5000, *, width: int = WIDTH, rest_us: float = 5000, device: str | None = None, **recorded: Any
) -> TraceBuilder:
    """Steps that look words up, compute on them, and on an image of 64 rows."""
    b = TraceBuilder(device, host_us=0).ran_with(**({"batch_width": WIDTH, "batch_longest": 32} | recorded))
    for _ in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[WORDS, FEATURES], [BATCH, width]], us=10):
                pass
            with b.op("aten::addmm", shapes=[[256], [BATCH * width, FEATURES], [FEATURES, 256]], us=us):
                if device:
                    b.kernel("volta_sgemm_128x64_nn", us=100)
            with b.op("aten::mkldnn_convolution", shapes=[[BATCH, 3, 64, 64]], us=rest_us):
                pass
    return b


# 5.01 of 10.01 ms are on 128 positions, of which 96 are padding: three quarters of half the step.
@fires(cost_ms=5.01, cost_share=0.5005, occurrences=6, severity="high")
def rows_of_32_padded_to_128() -> TraceBuilder:
    return training()


@fires(cost_ms=0.51, severity="medium")  # 0.51 of 5.51 ms, 86 % of them: 8 %
def a_small_part_of_the_step() -> TraceBuilder:
    return training(500)


# A recurrent layer takes 128 turns of 40 us, whose shapes do not hold the width, and as many backward: 10.25 of 10.25 ms.
@fires(cost_ms=10.25, cost_share=1.0, severity="high")
def a_recurrent_layer_takes_a_turn_for_each_position() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0).ran_with(batch_width=WIDTH, batch_longest=32)
    for step in range(3):
        with b.step():
            with b.op("aten::embedding", shapes=[[WORDS, FEATURES], [BATCH, WIDTH]], us=10):
                pass
            with b.op("aten::gru", shapes=[[BATCH, WIDTH, FEATURES]]):
                for turn in range(WIDTH):
                    with b.op("aten::addmm", shapes=[[BATCH, FEATURES]], seq=1000 * step + turn, us=40):
                        pass
            for turn in reversed(range(WIDTH)):
                with (
                    b.backward("AddmmBackward0", 1000 * step + turn),
                    b.op("aten::mm", shapes=[[BATCH, FEATURES]], us=40),
                ):
                    pass
    return b


def speech(longest: int = 100, *, width: int = 400, frames: int = 400) -> TraceBuilder:
    """Steps of a convolution that takes each other frame, a layer on what it makes, and one on something else."""
    b = TraceBuilder(None, host_us=0).ran_with(feature_width=width, feature_longest=longest, feature_padding=0.8)
    half = frames // 2
    for _ in range(3):
        with b.step():
            shapes = [[8, 80, frames], [64, 80, 5], [64], [], [], [], [], [], []]
            told = ["", "", "", "[2]", "[2]", "[1]", "False", "[0]", "1"]
            with b.op("aten::convolution", shapes=shapes, values=told, us=1000):
                pass
            with b.op("aten::addmm", shapes=[[64], [8 * half, 64], [64, 64]], us=2000):
                pass
            with b.op("aten::mm", shapes=[[512, 512], [512, 512]], us=3000):
                pass
    return b


# 1 and 2 of 6 ms are on 400 frames and the 200 that a stride of two makes of them; three quarters are padding.
@fires(cost_ms=3.0, cost_share=0.5, occurrences=6, severity="high")
def frames_of_speech_behind_a_convolution_with_a_stride() -> TraceBuilder:
    return speech()


@quiet
def frames_that_fill_the_width() -> TraceBuilder:
    return speech(390)


@quiet
def frames_that_no_layer_takes() -> TraceBuilder:
    return speech(frames=390)


@quiet
def rows_that_fill_the_width() -> TraceBuilder:
    return training(batch_longest=120)


# Numbers in rows of that width, which nothing looks up: features, no words.
@quiet
def rows_that_are_not_looked_up() -> TraceBuilder:
    return training(width=100)


@quiet
def batches_that_were_not_recorded() -> TraceBuilder:
    return training(batch_width=None, batch_longest=None)


@quiet("not_applicable")
def a_program_on_a_gpu() -> TraceBuilder:
    return training(device="Tesla V100-SXM2-16GB")


@edge
def a_fifth_of_the_width(over: bool) -> TraceBuilder:
    return training(batch_width=130, width=130, batch_longest=103 if over else 105)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 10 ms 0.68 on 128 positions with 96 of padding: 5.1 %, and 0.66 make 4.95 %.

    1.15 times that, and 85 % of it, are 4.99 and 4.84 %.
    """
    return training(670 if over else 650, rest_us=9_320 if over else 9_340)
