"""Shapes that runs of factories make, as torch 2.13 recorded their arguments."""

import pytest

from advisor.frames.patterns import rebuilt
from advisor.frames.patterns.rebuilt import _Call

BOOL, INT, FLOAT = frozenset({"bool"}), frozenset({"int"}), frozenset({"float"})
RANGE = ("", "", "", "False")


def made(
    name: str, *operands: tuple[tuple[int, ...], frozenset[str]], texts: tuple[str, ...] = ()
) -> tuple[int, ...] | None:
    """The shape of what an operator makes of *operands*, which a run made all."""
    found = rebuilt._made(_Call(f"aten::{name}", operands, texts, True), list(operands), [])
    return found[-1][0] if found else None


@pytest.mark.parametrize(
    ("name", "texts", "shape"),
    [
        ("arange", ("512", *RANGE), (512,)),
        ("arange", ("512", "4", "", "cuda:0", "False"), (512,)),
        ("arange", ("1", "17", *RANGE), (16,)),
        ("arange", ("0", "64", "2", *RANGE), (32,)),
        ("arange", ("0", "63", "2", *RANGE), (32,)),
        ("linspace", ("-1.", "1.", "96", *RANGE), (96,)),
        ("eye", ("8", *RANGE), (8, 8)),
        ("eye", ("8", "4", *RANGE), (8, 4)),
        ("hann_window", ("400", *RANGE), (400,)),
        ("full", ("[256, 128]", "-inf", *RANGE), (256, 128)),
        ("ones", ("[4]", *RANGE), (4,)),
        ("arange", ("", *RANGE), None),
        ("arange", ("1e300", *RANGE), None),
        ("full", (), None),
        ("tril_indices", ("8", "8", "0", *RANGE), None),
    ],
)
def test_factories_make_what_their_numbers_tell(
    name: str, texts: tuple[str, ...], shape: tuple[int, ...] | None
) -> None:
    assert made(name, texts=texts) == shape


@pytest.mark.parametrize(
    ("name", "texts", "shape"),
    [
        ("unsqueeze", ("", "-1"), (6, 4, 1)),
        ("unsqueeze", ("", "0"), (1, 6, 4)),
        ("view", ("", "[2, -1]"), (2, 12)),
        ("view", ("", "[5, -1]"), None),
        ("expand", ("", "[3, -1, -1]", "False"), (3, 6, 4)),
        ("permute", ("", "[1, 0]"), (4, 6)),
        ("transpose", ("", "0", "-1"), (4, 6)),
        ("t", ("",), (4, 6)),
        ("select", ("", "0", "2"), (4,)),
        ("slice", ("", "0", "1", "9223372036854775807", "1"), (5, 4)),
        ("slice", ("", "1", "", "3", "2"), (6, 2)),
        ("slice", ("", "0", "-2", "9223372036854775807", "1"), (2, 4)),
        ("unfold", ("", "0", "2", "1"), None),
    ],
)
def test_views_are_followed(name: str, texts: tuple[str, ...], shape: tuple[int, ...] | None) -> None:
    assert made(name, ((6, 4), FLOAT), texts=texts) == shape


def test_lists_are_joined() -> None:
    two = [((6, 4), FLOAT), ((6, 2), FLOAT)]
    assert made("cat", *two, texts=("", "-1")) == (6, 6)
    assert made("cat", two[0], two[0], texts=("", "0")) == (12, 4)
    assert made("stack", two[0], ((6, 4), INT), texts=("", "-1")) == (6, 4, 2)
    assert made("meshgrid", ((6,), INT), ((4,), INT)) == (6, 4)


def test_operands_are_broadcast_and_need_to_be_of_the_run() -> None:
    assert made("sub", ((1, 9), INT), ((9, 1), INT)) == (9, 9)
    assert made("sub", ((2, 9), INT), ((9, 1), INT)) is None
    assert made("max", ((9,), INT), ((1,), INT)) == (9,)
    assert made("max", ((9,), INT)) is None
    of = [((9, 9), INT)]
    assert rebuilt._made(_Call("aten::lt", (((9, 9), INT), ((9, 1), INT)), (), True), of, []) is None
    assert rebuilt._made(_Call("aten::mul", (((9, 9), FLOAT),), (), True), of, []) is None
    # Twice of a shape that the run made once: the other one is none of its own.
    assert rebuilt._made(_Call("aten::mul", (((9, 9), INT), ((9, 9), INT)), (), True), of, []) is None
    assert rebuilt._made(_Call("aten::random_", (((9, 9), INT),), (), True), of, []) is None
    assert rebuilt._made(_Call("aten::mul", (((9, 9), INT),), (), True), of, [((9, 9), INT)]) is None
