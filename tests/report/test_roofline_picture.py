"""Labels of the roofline: none hides another or leaves the frame, wherever the operators lie and however wide the picture is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.report.html import roofline
from advisor.report.html.placing import NARROWEST, Box
from advisor.results.roofline import Roof, Roofline, RoofPoint

RATES = st.floats(1e-4, 1e3)


def point(tflops: float, intensity: float, ms: float, op: str = "aten::cudnn_convolution_backward_weight") -> RoofPoint:
    return RoofPoint(op=op, format="fp32", ms=ms, tflops=tflops, intensity=intensity, reachable_share=0.5)


def device(points: list[RoofPoint], tops: list[float]) -> Roofline:
    roofs = [Roof(format=f"fp{at}", tflops=top, reachable_tflops=0.8 * top) for at, top in enumerate(tops)]
    return Roofline(
        device="V100 SXM", memory_gbps=900.0, reachable_gbps=810.0, roofs=roofs, points=points, moving_ms=1.0, left_ms=1.0
    )  # fmt: skip


def texts(picture: str) -> list[tuple[str, float, float, float, str]]:
    """Text, share across, pixels from there, pixels from above and side of each label; of no figure of an axis."""
    found = []
    for match in re.finditer(
        r'(?:<svg x="([\d.]+)%" y="([\d.-]+)"[^>]*>(?:<line[^>]*>)?)?<text class="name" x="([\d.-]+)(%?)"(?: dx="([\d.-]+)")?'
        r' y="([\d.-]+)" text-anchor="(\w+)">([^<]*)<',
        picture,
    ):
        outer, above, x, unit, dx, y, side, text = match.groups()
        across, off = (float(x), float(dx or 0)) if unit else (float(outer), float(x))
        found.append((text, across / 100, off, float(y) + float(above or 0), side))
    return found


def boxes(picture: str, letter: float) -> list[tuple[str, Box]]:
    out = []
    for text, across, off, y, side in texts(picture):
        wide = letter * len(text)
        left = off - {"start": 0.0, "middle": wide / 2, "end": wide}[side]
        out.append((text, Box(across, left, left + wide, y - 9, y + 2)))
    return out


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(RATES, RATES, st.floats(0.01, 10)), min_size=1, max_size=16),
    st.lists(st.sampled_from([15.7, 15.7, 31.0, 125.0, 312.0, 330.0]), max_size=3),
)
def test_no_label_hides_another_at_any_width(places: list[tuple[float, float, float]], tops: list[float]) -> None:
    found = device([point(*place) for place in sorted(places, key=lambda one: -one[2])], sorted(tops, reverse=True))
    drawn = boxes(str(roofline.chart(found)), 7.0)
    for wide in (NARROWEST, 366, 640, 984, 1200):
        seen = [(text, wide * box.x + box.left, wide * box.x + box.right, box.top, box.bottom) for text, box in drawn]
        for at, (text, left, right, top, bottom) in enumerate(seen):
            assert left >= -1, (text, wide)
            assert right <= wide + 1, (text, wide)
            for other, start, end, high, low in seen[at + 1 :]:
                assert right <= start + 0.5 or end <= left + 0.5 or bottom <= high or low <= top, (text, other, wide)


@pytest.mark.parametrize("count", [1, 3, 8, 16])
def test_operators_at_one_place_are_numbered_and_named_below(count: int) -> None:
    """As three convolutions of a ResNet lie, whose names are longer than a phone is wide."""
    found = device([point(12.0, 95.0, 20.0 - at, f"aten::conv_{at}") for at in range(count)], [15.7])
    picture = str(roofline.chart(found))
    numbers = [text for text, *_ in texts(picture) if text.isdigit()]
    assert numbers == [str(at + 1) for at in range(min(count, roofline.NAMED))]
    listed = re.findall(r"<li>(conv_\d+) fp32 <small>([^<]*)</small>", picture)
    assert listed == [(f"conv_{at}", f"{20 - at}.0 ms") for at in range(min(count, roofline.NAMED))]


def test_one_operator_without_a_roof_still_has_axes() -> None:
    picture = str(roofline.chart(device([point(1.0, 1.0, 1.0)], [])))
    assert picture.count("<circle") == 1
    assert ">1</text>" in picture
