"""Proof of data-loading/unsorted-lengths: traces on which it fires, and traces on which it does not."""

from typing import Any

from advisor.reading.program_settings import Uneven
from advisor.testing import TraceBuilder
from advisor.testing.incomplete import kernels_alone
from advisor.testing.proof import edge, fires, lacks, quiet

BATCH, WORDS, FEATURES = 32, 1000, 48
WIDTHS = (100, 120, 110, 90)
V100 = "Tesla V100-SXM2-16GB"


class Program(TraceBuilder):
    """A program on the CPU, or on a GPU."""

    def __init__(self, device: str | None, **options: Any) -> None:
        super().__init__(device, **(options if device else {"host_us": 0} | options))
        self.gpu = device is not None

    def run(self, name: str, us: float, shapes: list[Any], values: list[str] | None = None) -> None:
        """Add an operator of so many us: on a GPU they are its kernel's."""
        with self.op(name, shapes=shapes, values=values, us=0 if self.gpu else us):
            if self.gpu:
                self.kernel("volta_sgemm_128x64_nn", us=us)


def training(
    us: float = 4000,
    *,
    padding: float = 0.5,
    attention_us: float = 0,
    rest_us: float = 6000,
    rows: int = BATCH,
    device: str | None = None,
    shapes: bool = True,
    packed: bool = False,
    **recorded: Any,
) -> TraceBuilder:
    """Steps of batches of their own widths: a lookup, a product on the places, attention, and an image's convolution."""
    b = Program(device, record_shapes=shapes)
    uneven = Uneven(rows=rows, widths=(95, 105), padding=padding, squares=0.75)
    b.ran_with(**({"uneven": (uneven,)} | recorded))
    for width in WIDTHS:
        with b.step():
            b.run("aten::embedding", 10, [[WORDS, FEATURES], [rows, width]])
            places = 1234 if packed else rows * width
            b.run("aten::addmm", us, [[256], [places, FEATURES], [FEATURES, 256]])
            if attention_us:
                b.run("aten::scaled_dot_product_attention", attention_us, [[rows, 4, width, 12]] * 3)
            b.run("aten::convolution", rest_us, [[rows, 3, 64, 64], [8, 3, 3, 3]])
            if device:
                b.sync()
    return b


# 4.01 of 10.01 ms are on the places of the batch, half of which are padding.
@fires(cost_ms=4.01, cost_share=0.4006, occurrences=4, severity="high")
def words_of_which_half_are_padding() -> TraceBuilder:
    return training()


@fires(cost_ms=5.01, occurrences=4, severity="high")
def attention_has_the_part_of_its_square() -> TraceBuilder:
    return training(attention_us=1000)


@fires(cost_ms=4.01, occurrences=4, severity="high")
def on_a_gpu() -> TraceBuilder:
    return training(device=V100)


def series(size: int = 40, *, time: int = 1, width: int = 100, took: int = 40) -> TraceBuilder:
    """Steps that take frames of so many features: turned, thinned out by a convolution, multiplied, and beside it other work."""
    b = Program(None)
    b.ran_with(uneven=(Uneven(rows=8, widths=(400, 440), padding=0.5, squares=0.7, time=time, size=size),))
    told = ["", "", "", "[2]", "[2]", "[1]", "False", "[0]", "1"]
    for frames in (400, 420, 440):
        shape = [8, frames, took] if time == 1 else [frames, 8, took]
        with b.step():
            b.run("aten::transpose", 0, [shape, [], []])
            b.run("aten::convolution", 1000, [[8, took, frames], [64, took, 5], [64], [], [], [], [], [], []], told)
            b.run("aten::addmm", 2000, [[64], [8 * (frames // 2), 64], [64, 64]])
            b.run("aten::mm", 3000, [[512, 512], [512, 512]])
    return b


@fires(cost_ms=3.0, cost_share=0.5, occurrences=3, severity="high")
def frames_of_speech_behind_a_convolution_with_a_stride() -> TraceBuilder:
    return series()


@fires(cost_ms=3.0, occurrences=3)
def frames_whose_first_dimension_is_time() -> TraceBuilder:
    return series(time=0)


@quiet
def frames_of_another_size_than_the_batch_has() -> TraceBuilder:
    return series(took=41)


@quiet
def rows_of_like_length() -> TraceBuilder:
    return training(padding=0.1)


@quiet
def packed_rows() -> TraceBuilder:
    return training(packed=True)


@quiet
def batches_of_one_row() -> TraceBuilder:
    return training(rows=1)


@quiet
def batches_that_were_not_recorded() -> TraceBuilder:
    return training(uneven=())


# cpu/padded-batches speaks: no row is nearly as long as the width.
@quiet
def rows_that_are_padded_to_a_fixed_width() -> TraceBuilder:
    uneven = Uneven(rows=BATCH, widths=(110, 110), padding=0.6, squares=0.8)
    return training(uneven=(uneven,), batch_width=110, batch_longest=60)


@edge
def a_quarter_of_the_places(over: bool) -> TraceBuilder:
    return training(padding=0.25 if over else 0.249, rest_us=100)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return training(shapes=False)


@lacks("host")
def no_host() -> TraceBuilder:
    return kernels_alone("volta_sgemm_128x64_nn")
