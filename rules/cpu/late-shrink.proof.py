"""Proof of cpu/late-shrink: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, lacks, quiet

LARGE, SMALL, EACH = [1, 3, 800, 800], [1, 3, 200, 200], [1, 3, 1, 1]
Shape = list[int]


def service(
    us: float = 400,
    *,
    rest: float = 800,
    size: int = 200,
    resize: str = "aten::upsample_bilinear2d",
    first: str = "aten::div",
    other: Shape = EACH,
    used: bool = False,
    shapes: bool = True,
) -> TraceBuilder:
    """Steps that scale an image in two operators of *us* each, and resize it; then a network of *rest*."""
    b = TraceBuilder(None, host_us=0, record_shapes=shapes)
    concrete = ["", str([size, size]), "False", "", ""] if "upsample" in resize else ["", str([size, size])]
    for _ in range(3):
        with b.step():
            with b.op("aten::permute", shapes=[[1, 800, 800, 3], []], us=1):
                pass
            with b.op("aten::to", shapes=[LARGE, []], us=50):
                pass
            with b.op(first, shapes=[LARGE, []], us=us):
                pass
            with b.op("aten::sub", shapes=[LARGE, other, []], us=us):
                pass
            with b.op(
                resize, shapes=[LARGE, *([[]] * (len(concrete) - 1))], us=149, args={"Concrete Inputs": concrete}
            ):
                pass
            if used:
                with b.op("aten::amax", shapes=[LARGE, [], []], us=1):
                    pass
            with b.op("aten::mkldnn_convolution", shapes=[SMALL, [8, 3, 3, 3]], us=rest):
                pass
    return b


# 800 us of 1800 a step.
@fires(cost_ms=0.8, occurrences=3, severity="high", op="aten::div")
def scaled_and_shifted_before_a_resize() -> TraceBuilder:
    return service()


@fires(cost_ms=0.8)
def before_an_average() -> TraceBuilder:
    return service(resize="aten::adaptive_avg_pool2d")


@fires(cost_ms=0.4)
def a_clamp_before_what_may_go_behind() -> TraceBuilder:
    return service(first="aten::clamp")


@quiet
def a_mask_for_each_position() -> TraceBuilder:
    return service(other=[1, 1, 800, 800], first="aten::clamp")


@quiet
def the_large_image_is_used_besides() -> TraceBuilder:
    return service(used=True)


@quiet
def a_pool_of_maxima() -> TraceBuilder:
    return service(resize="aten::adaptive_max_pool2d")


@quiet
def enlarged() -> TraceBuilder:
    return service(size=1000)


# Half of 640,000 positions are 565.7 x 565.7.
@edge
def half_of_the_positions(over: bool) -> TraceBuilder:
    return service(size=565 if over else 566)


@lacks("shapes")
def no_shapes_recorded() -> TraceBuilder:
    return service(shapes=False)
