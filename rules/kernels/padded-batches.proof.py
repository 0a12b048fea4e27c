"""Proof of kernels/padded-batches: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Uneven
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone, launches_alone
from advisor.testing.proof import edge, fires, lacks, quiet

A100 = "NVIDIA A100-SXM4-40GB"
GEMM = "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn"
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128>>"
ADAM = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>"
WIDTH, ROWS, WORDS, FEATURES = 512, 32, 1000, 256


def training(
    us: float = 3000,
    *,
    longest: int = 96,
    attention_us: float = 1000,
    rest_us: float = 4000,
    width: int = WIDTH,
    python: str = "train.py(30): forward",
    device: str | None = A100,
    shapes: bool = True,
    **recorded: Any,
) -> TraceBuilder:
    """Three steps: a lookup of 10 us, a layer on its places and the layer's backward as long, attention, and other work.

    What else there is: an image that passes a convolution, and the optimizer, whose weights are as large as the width.
    """
    b = TraceBuilder(device, record_shapes=shapes, with_stack=True)
    padded = Uneven(rows=ROWS, widths=(WIDTH, WIDTH), padding=0.9, squares=0.99)
    told = {"uneven": (padded,), "batch_width": WIDTH, "batch_longest": longest, "batch_bytes": 8 * ROWS * WIDTH}
    b.ran_with(**(told | recorded))
    for step in range(3):
        with b.step():
            with b.python("train.py(12): train"), b.python(python):
                with b.op("aten::embedding", shapes=[[WORDS, FEATURES], [ROWS, width]]):
                    b.kernel("vectorized_gather_kernel", us=10)
                with b.op("aten::addmm", shapes=[[WIDTH], [ROWS * width, FEATURES], [FEATURES, WIDTH]], seq=step):
                    b.kernel(GEMM, us=us)
                with b.op("aten::scaled_dot_product_attention", shapes=[[ROWS, 4, width, 64]] * 3):
                    b.kernel(FLASH, us=attention_us)
                with b.op("aten::convolution", shapes=[[ROWS, 3, 64, 64], [8, 3, 3, 3]]):
                    b.kernel("implicit_convolve_sgemm", us=rest_us)
            with b.backward("AddmmBackward0", step), b.op("aten::mm", shapes=[[WIDTH, 64], [64, FEATURES]]):
                b.kernel(GEMM, us=us)
            with b.annotation("Optimizer.step#AdamW.step"), b.op("aten::_fused_adamw_", shapes=[[WIDTH, FEATURES]]):
                b.kernel(ADAM, us=500)
            b.sync()
    return b


# 10 + 3000 + 1000 us forward and 3000 us backward, of 11.51 ms.
@fires(cost_ms=7.01, occurrences=3, severity="high", line="train.py:30")
def rows_of_96_padded_to_512() -> TraceBuilder:
    return training()


@fires(cost_ms=6.01, occurrences=3, fix="Pad to the longest row of the batch, in multiples of 64, in collate_fn")
def without_attention() -> TraceBuilder:
    return training(attention_us=0)


@fires(cost_ms=7.01, fix="Pad to the longest row of the batch, in multiples of 64")
def a_model_of_transformers() -> TraceBuilder:
    return training(python="/venv/lib/python3.12/site-packages/transformers/models/bert/modeling_bert.py(9): forward")


def speech(longest: int = 200, *, frames: int = 800) -> TraceBuilder:
    """Steps of a convolution that takes each other frame, a layer on what it makes, and one on something else."""
    b = TraceBuilder(A100)
    padded = Uneven(rows=8, widths=(800, 800), padding=0.8, squares=0.9, time=2, size=80)
    b.ran_with(uneven=(padded,), feature_width=800, feature_longest=longest, feature_padding=0.8, batch_bytes=2_048_000)
    told = ["", "", "", "[2]", "[2]", "[1]", "False", "[0]", "1"]
    for _ in range(3):
        with b.step():
            shapes = [[8, 80, frames], [64, 80, 5], [64], [], [], [], [], [], []]
            with b.op("aten::convolution", shapes=shapes, values=told):
                b.kernel("implicit_convolve_sgemm", us=1000)
            with b.op("aten::addmm", shapes=[[64], [8 * (frames // 2), 64], [64, 64]]):
                b.kernel(GEMM, us=2000)
            with b.op("aten::mm", shapes=[[512, 512], [512, 512]]):
                b.kernel(GEMM, us=3000)
            b.sync()
    return b


# 1 and 2 of 6 ms are on 800 frames, and the 400 that a stride of two makes of them.
@fires(cost_ms=3.0, occurrences=3, severity="high")
def frames_of_speech_behind_a_convolution_with_a_stride() -> TraceBuilder:
    return speech()


@quiet
def frames_that_fill_the_width() -> TraceBuilder:
    return speech(780)


@quiet
def rows_that_fill_the_width() -> TraceBuilder:
    return training(longest=480)


# The rows are put one after the other before they are looked up.
@quiet
def batches_of_another_width() -> TraceBuilder:
    return training(width=300)


@quiet("not_applicable")
def batches_that_were_not_recorded() -> TraceBuilder:
    return training(uneven=(), batch_width=None, batch_longest=None, batch_bytes=None)


# data-loading/unsorted-lengths speaks of these.
@quiet
def batches_that_are_as_wide_as_their_longest_row() -> TraceBuilder:
    return training(batch_width=None, batch_longest=None)


# The GPU takes 1 ms of a step, and waits for the host in the rest: narrower batches leave the step as it is.
@fires(cost_ms=1.0, severity="note")
def the_host_sets_the_pace() -> TraceBuilder:
    b = TraceBuilder(A100)
    padded = Uneven(rows=ROWS, widths=(WIDTH, WIDTH), padding=0.9, squares=0.99)
    b.ran_with(uneven=(padded,), batch_width=WIDTH, batch_longest=96, batch_bytes=8 * ROWS * WIDTH)
    for _ in range(3):
        with b.step():
            for _ in range(100):
                b.idle(us=100)
                with b.op("aten::embedding", shapes=[[WORDS, FEATURES], [ROWS, WIDTH]]):
                    b.kernel("vectorized_gather_kernel", us=10)
            b.sync()
    return b


@edge
def a_fifth_of_the_width(over: bool) -> TraceBuilder:
    return training(longest=409 if over else 410)


@edge
def a_twentieth_of_the_step(over: bool) -> TraceBuilder:
    """Of 10 ms 0.650 on 512 positions with 96 of them real, and 32 more for rounding up: three quarters, or 4.9 %.

    Between 0.65 and 1.1 times that are 4.4 %: 0.9075 times 0.75 times 0.65 ms. Of 0.67 ms they are 4.56 %.
    """
    us = (670 if over else 650) - 10
    return training(us / 2, attention_us=0, rest_us=9_490 - us)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("gpu")
def no_gpu_recorded() -> TraceBuilder:
    return launches_alone("aten::embedding", shapes=[[WORDS, FEATURES], [ROWS, WIDTH]]).ran_with(batch_bytes=1)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone(GEMM).ran_with(batch_bytes=8 * ROWS * WIDTH)
