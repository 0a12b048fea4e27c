"""Proof of data-loading/late-crop: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

VOLUME = [64, 96, 96]
CROP = [32, 32, 32]
Call = tuple[str, list[list[int]], list[str], list[str], float]
"""An operator: its name, the shapes, types and recorded values of its operands, and the us that it takes."""


def cut(shape: list[int], dim: int, length: int = 32) -> Call:
    values = ["", str(dim), "10", str(10 + length), "1"]
    return ("aten::slice", [shape, [], [], [], []], ["float", *["Scalar"] * 4], values, 1)


CUTS = [cut(VOLUME, 0), cut([32, 96, 96], 1), cut([32, 32, 96], 2)]


def mul(us: float = 1000, shape: list[int] = VOLUME) -> Call:
    return ("aten::mul", [shape, []], ["float", "Scalar"], ["", "0.5"], us)


def training(
    *calls: Call, steps: int = 4, samples: int = 2, workers: int = 0, shapes: bool = True, device: str | None = None
) -> TraceBuilder:
    """Steps of 10 ms, of which the wait is what its samples take and 100 us; the rest is a convolution."""
    b = TraceBuilder(device, host_us=0, record_shapes=shapes)
    for _ in range(steps):
        with b.step():
            with b.loader(workers=workers):
                for _ in range(samples):
                    for name, dims, types, values, us in calls:
                        with b.op(name, shapes=dims, dtypes=types, values=values, us=us):
                            pass
                b.idle(100)
            with b.op("aten::mkldnn_convolution", shapes=[[2, 1, *CROP], [8, 1, 3, 3, 3]], us=4000):
                if device:
                    b.kernel("convolution", us=1000)
    return b


# Two samples of two operators of 1 ms: 4 of 4.1 ms are computed whole, and a crop has a 18th of the elements.
@fires(cost_ms=4.106, occurrences=4, severity="high")
def a_volume_is_scaled_and_then_cut() -> TraceBuilder:
    return training(mul(), mul(), *CUTS)


@fires(occurrences=4)
def a_picture_and_its_labels_are_cut_alike() -> TraceBuilder:
    return training(mul(), mul(), *CUTS, *CUTS)


@fires(occurrences=4)
def a_window_of_a_series() -> TraceBuilder:
    series = [8, 100_000]
    return training(mul(shape=series), cut(series, 1, 4096))


@fires(occurrences=4)
def a_warp_of_which_a_patch_is_kept() -> TraceBuilder:
    made = ["", "[1, 1, 64, 96, 96]", "False"]
    grid: Call = ("aten::affine_grid_generator", [[1, 3, 4], [], []], ["float", "", "Scalar"], made, 1000)
    given, kinds = [[1, 1, *VOLUME], [1, *VOLUME, 3], [], [], []], ["float", "float", *["Scalar"] * 3]
    warp: Call = ("aten::grid_sampler", given, kinds, ["", "", "0", "1", "False"], 2000)
    return training(grid, warp, *CUTS)


@fires(occurrences=4)
def a_batch_for_a_gpu() -> TraceBuilder:
    return training(mul(), mul(), *CUTS, device="NVIDIA H100 80GB HBM3")


@quiet
def most_of_it_is_kept() -> TraceBuilder:
    return training(mul(), mul(), cut(VOLUME, 0))


PLATE = [3, 160, 160]
GRAY: Call = ("aten::mean", [PLATE, [], [], []], ["float", *["ScalarList", "Scalar", ""]], ["", "[0]", "True", ""], 500)
BLEND: Call = ("aten::lerp", [[1, 160, 160], PLATE, []], ["float", "float", "Scalar"], ["", "", "0.5"], 1000)


# 76,800 elements of which 64 by 64 of 160 by 160 places are kept; the mean of the channels is one of each place.
@fires(occurrences=4)
def a_picture_whose_saturation_is_changed() -> TraceBuilder:
    return training(mul(shape=PLATE), GRAY, BLEND, cut(PLATE, 1, 64), cut([3, 64, 160], 2, 64))


@fires(occurrences=4)
def gray_values_by_weights_of_each_channel() -> TraceBuilder:
    parts: Call = ("aten::unbind", [PLATE, []], ["float", "Scalar"], ["", "0"], 5)
    added: Call = ("aten::add", [[160, 160], [160, 160], []], ["float", "float", "Scalar"], ["", "", "1"], 200)
    return training(mul(shape=PLATE), parts, added, BLEND, cut(PLATE, 1, 64), cut([3, 64, 160], 2, 64))


# Contrast takes the mean of all gray values.
@quiet
def a_picture_whose_contrast_is_changed() -> TraceBuilder:
    gray: Call = ("aten::mean", [[1, 160, 160], []], ["float", ""], ["", ""], 100)
    return training(mul(shape=PLATE), GRAY, gray, BLEND, cut(PLATE, 1, 64), cut([3, 64, 160], 2, 64))


@quiet
def a_mean_of_each_channel() -> TraceBuilder:
    mean: Call = (
        "aten::mean",
        [PLATE, [], [], []],
        ["float", *["ScalarList", "Scalar", ""]],
        ["", "[1, 2]", "True", ""],
        100,
    )
    return training(mul(shape=PLATE), mean, mul(shape=PLATE), cut(PLATE, 1, 64), cut([3, 64, 160], 2, 64))


# A blur takes neighbours: the whole, or a margin, is needed.
@quiet
def a_blur_stands_between() -> TraceBuilder:
    blur: Call = ("aten::conv3d", [[1, 1, *VOLUME], [1, 1, 5, 5, 5]], ["float", "float"], ["", ""], 1000)
    return training(mul(), blur, *CUTS)


@quiet
def a_maximum_of_the_whole() -> TraceBuilder:
    largest: Call = ("aten::max", [VOLUME], ["float"], [""], 100)
    return training(mul(), largest, *CUTS)


@quiet
def small_pictures() -> TraceBuilder:
    small = [3, 64, 64]
    return training(mul(shape=small), cut(small, 1, 16))


@quiet
def the_crop_is_cut_first() -> TraceBuilder:
    return training(*CUTS, mul(shape=CROP))


# 0.25 of the wait: a half of 2 ms is not kept where the cut is half a quarter of the whole.
@edge
def a_fourth_of_the_wait(over: bool) -> TraceBuilder:
    other: Call = ("aten::fft_fftn", [[32, 32, 32]], ["float"], [""], 2000)
    return training(mul(800 if over else 700), *CUTS, other, samples=1)


@lacks("shapes")
def no_shapes() -> TraceBuilder:
    return training(mul(), mul(), *CUTS, shapes=False)


@lacks("loader", verdict="not_applicable")
def no_loader() -> TraceBuilder:
    b = TraceBuilder(None, host_us=0)
    with b.step(), b.op("aten::mul", shapes=[VOLUME, []], us=1000):
        pass
    return b
