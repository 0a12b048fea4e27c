"""Calls with prompts that begin alike: which operators are on their places, to which power, and what tells a decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from advisor.reading.program_settings import Prompts
from advisor.reading.recorded_settings import read as read_settings
from advisor.testing import TraceBuilder
from advisor.trace import read

ROWS, WIDTH, WORDS, HIDDEN, HEADS, SIZE = 8, 100, 1000, 64, 4, 16
TOKENS = 50
LINEAR, SQUARED = 0.5, 0.25
LOOKUP = ("aten::embedding", [[WORDS, HIDDEN], [ROWS, WIDTH]])
NEXT = ("aten::embedding", [[WORDS, HIDDEN], [ROWS, 1]])
Operator = tuple[Any, ...]


def attend(queries: int, keys: int, *, causal: bool = False, mask: bool = True, rows: int = ROWS) -> Operator:
    shapes = [[rows, HEADS, queries, SIZE], *[[rows, HEADS, keys, SIZE]] * 2, [queries, keys] if mask else [], [], []]
    return ("aten::scaled_dot_product_attention", shapes, ["", "", "", "", "0.", str(causal)])


def flash(queries: int, keys: int, *, causal: bool) -> Operator:
    shapes = [[ROWS, queries, HEADS, SIZE], *[[ROWS, keys, HEADS, SIZE]] * 2, [], [], []]
    return ("flash_attn::_flash_attn_forward", shapes, ["", "", "", "0.", "0.125", str(causal)])


def scores(queries: int, keys: int) -> Operator:
    return ("aten::_softmax", [[ROWS, HEADS, queries, keys], [], []])


def joined(old: int, new: int) -> Operator:
    return ("aten::cat", [[[ROWS, HEADS, old, SIZE] if old else [0], [ROWS, HEADS, new, SIZE]], []])


CAUSAL = attend(WIDTH, WIDTH, causal=True, mask=False)
MASKED = attend(WIDTH, WIDTH)


def patterns(tmp_path: Path, *operators: Operator, steps: int = 3, device: str | None = None, **told: Any) -> Any:
    """The pattern's rows, of steps of a lookup of 10 us and operators of 90 us each."""
    b = TraceBuilder(device, host_us=1 if device else 0)
    b.ran_with(prompts=Prompts(**({"entries": WORDS, "tokens": TOKENS, "rows": ROWS} | told)))
    for _ in range(steps):
        with b.step():
            for name, shapes, *values in (LOOKUP, *operators):
                us = 10 if name == "aten::embedding" else 90
                with b.op(name, shapes=shapes, values=values[0] if values else None, us=0 if device else us):
                    if device:
                        b.kernel("volta_sgemm_128x64_nn", us=us)
            if device:
                b.sync()
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    return frame[frame["kind"] == "uncached-prefix"]


@pytest.mark.parametrize(
    ("name", "shapes", "share"),
    [
        ("aten::addmm", [[256], [ROWS * WIDTH, HIDDEN], [HIDDEN, 256]], LINEAR),
        ("aten::native_layer_norm", [[ROWS, WIDTH, HIDDEN], [], [HIDDEN], [HIDDEN], []], LINEAR),
        ("aten::mul", [[ROWS, HEADS, WIDTH, SIZE], [1, 1, WIDTH, SIZE]], LINEAR),
        ("aten::topk", [[ROWS * WIDTH, 8], [], [], [], []], LINEAR),
        ("aten::cat", [[[ROWS, HEADS, WIDTH, 8], [ROWS, HEADS, WIDTH, 8]], []], LINEAR),
        ("aten::_softmax", [[ROWS, HEADS, WIDTH, WIDTH], [], []], SQUARED),
        ("aten::bmm", [[ROWS * HEADS, WIDTH, SIZE], [ROWS * HEADS, SIZE, WIDTH]], SQUARED),
        ("aten::bmm", [[ROWS * HEADS, WIDTH, WIDTH], [ROWS * HEADS, WIDTH, SIZE]], SQUARED),
        # A cache is put together of what it held and what is new; heads of it are repeated; the last token is chosen.
        ("aten::cat", [[[0], [ROWS, HEADS, WIDTH, SIZE]], []], None),
        ("aten::copy_", [[ROWS, HEADS, 2, WIDTH, SIZE], [ROWS, HEADS, 2, WIDTH, SIZE]], None),
        ("aten::mm", [[ROWS, HIDDEN], [HIDDEN, WORDS]], None),
        # A weight of as many rows as there are tokens, and an activation of as many columns.
        ("aten::mm", [[ROWS, ROWS * WIDTH], [ROWS * WIDTH, HIDDEN]], None),
        ("aten::gelu", [[ROWS, 1, WIDTH]], None),
    ],
)
def test_what_works_on_the_places(name: str, shapes: Any, share: float | None, tmp_path: Path) -> None:
    """Beside it 10 us of lookup, and 90 of attention, of which a quarter is the prefix's."""
    found = patterns(tmp_path, (name, shapes), CAUSAL)
    whole, spared = 100, 10 * LINEAR + 90 * SQUARED
    if share is not None:
        whole, spared = whole + 90, spared + 90 * share
    assert found["cost_ns"].tolist() == [whole * 1000] * 3
    assert found["part"].tolist() == [pytest.approx(spared / whole, abs=1e-5)] * 3
    assert found["repeats"].tolist() == [ROWS] * 3
    assert found["length"].tolist() == [TOKENS] * 3
    assert found["seq_len"].tolist() == [WIDTH] * 3


def test_the_same_on_a_gpu(tmp_path: Path) -> None:
    found = patterns(tmp_path, ("aten::linear", [[ROWS, WIDTH, HIDDEN], [256, HIDDEN], []]), CAUSAL, device="A100")
    assert found["own_ns"].tolist() == [190_000] * 3
    assert found["part"].tolist() == [pytest.approx((100 * LINEAR + 90 * SQUARED) / 190, abs=1e-5)] * 3


@pytest.mark.parametrize(("device", "kept"), [(None, 16), ("A100", 64)])
def test_few_rows_take_as_long_as_some(device: str | None, kept: int, tmp_path: Path) -> None:
    """Of 800 tokens 16 are left, fewer than a GPU takes as long for as for one."""
    found = patterns(tmp_path, flash(WIDTH, WIDTH, causal=True), device=device, tokens=98)
    linear = 1 - kept / 800
    share = (10 * linear + 90 * min(0.98**2, linear)) / 100
    assert found["part"].tolist() == [pytest.approx(share, abs=1e-5)] * 3


@pytest.mark.parametrize(
    "operators",
    [
        (CAUSAL,),
        (flash(WIDTH, WIDTH, causal=True),),
        (MASKED, joined(0, WIDTH)),
        (scores(WIDTH, WIDTH), joined(0, WIDTH)),
        (MASKED, NEXT, joined(WIDTH, 1)),
        (MASKED, NEXT, attend(1, WIDTH + 1)),
        (scores(WIDTH, WIDTH), NEXT, scores(1, WIDTH + 1)),
        # A buffer of fixed length, written into, and looked at whole.
        (
            ("aten::index_copy_", [[ROWS, HEADS, 128, SIZE], [], [WIDTH], [ROWS, HEADS, WIDTH, SIZE]]),
            attend(WIDTH, 128),
        ),
        (attend(WIDTH, 128), NEXT, attend(1, 128)),
    ],
)
def test_what_tells_a_decoder(operators: tuple[Operator, ...], tmp_path: Path) -> None:
    assert len(patterns(tmp_path, *operators)) == 3


@pytest.mark.parametrize(
    "operators",
    [
        (),
        (MASKED,),
        (scores(WIDTH, WIDTH),),
        (attend(WIDTH, WIDTH, mask=False), joined(0, WIDTH)),
        (flash(WIDTH, WIDTH, causal=False), joined(0, WIDTH)),
        # An encoder, and a decoder that looks at its output, with a cache of its own tokens, of one length or of a fixed one.
        (MASKED, NEXT, attend(1, 1), attend(1, WIDTH)),
        (MASKED, NEXT, attend(1, 128), attend(1, WIDTH)),
        # A decoder that looks at another text, or at an image, beside its own tokens.
        (CAUSAL, attend(WIDTH, 60, mask=False)),
        (CAUSAL, scores(WIDTH, 200)),
        # What is put in the place of tokens.
        (("aten::masked_scatter", [[ROWS, WIDTH, HIDDEN], [ROWS, WIDTH, HIDDEN], [64, HIDDEN]]), CAUSAL),
        (("aten::index_put_", [[ROWS * WIDTH, HIDDEN], [], [64, HIDDEN]]), CAUSAL),
        # Numbers of each row, as of a speaker.
        (("aten::add", [[ROWS, WIDTH, HIDDEN], [ROWS, 1, HIDDEN], []]), CAUSAL),
        (CAUSAL, ("aten::mul", [[ROWS, 1, HIDDEN], [ROWS, WIDTH, HIDDEN]])),
        # The next call is of another batch, and tells nothing of this one.
        (MASKED, LOOKUP, attend(WIDTH, 128)),
        # Another table, as of positions.
        (MASKED, ("aten::embedding", [[512, HIDDEN], [ROWS, 1]]), attend(WIDTH, WIDTH)),
    ],
)
def test_what_tells_no_decoder(operators: tuple[Operator, ...], tmp_path: Path) -> None:
    assert not len(patterns(tmp_path, *operators))


def test_what_is_put_in_behind_the_first_attention_is_no_image(tmp_path: Path) -> None:
    experts = ("aten::index_put_", [[ROWS * WIDTH, HIDDEN], [], [64, HIDDEN]])
    assert len(patterns(tmp_path, CAUSAL, experts)) == 3


def test_the_next_token_s_call_is_not_the_prompt_s(tmp_path: Path) -> None:
    rest = ("aten::mm", [[ROWS * WIDTH, HIDDEN], [HIDDEN, 256]])  # of something else, behind it
    assert patterns(tmp_path, CAUSAL, NEXT, rest)["cost_ns"].tolist() == [100_000] * 3


@pytest.mark.parametrize("told", [{"tokens": 0}, {"tokens": WIDTH}, {"entries": 512}])
def test_prompts_that_were_not_seen(told: dict[str, Any], tmp_path: Path) -> None:
    assert not len(patterns(tmp_path, CAUSAL, **told))


def test_a_trace_without_marks_of_steps(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0).ran_with(prompts=Prompts(entries=WORDS, tokens=TOKENS))
    for _ in range(2):
        for name, shapes, *values in (LOOKUP, CAUSAL):
            with b.op(name, shapes=shapes, values=values[0] if values else None, us=50):
                pass
    frame = read(b.write(tmp_path / "t.json")).frame("patterns")
    assert frame[frame["kind"] == "uncached-prefix"]["cost_ns"].tolist() == [100_000] * 2


@pytest.mark.parametrize(
    "entry",
    [
        {"entries": 0, "tokens": 5},
        {"entries": 10},
        {"tokens": 5},
        {"entries": 10, "tokens": -1},
        {"entries": "ten", "tokens": 5},
        {"entries": 10, "tokens": 5, "calls": 1},
        {"entries": 10, "tokens": 5, "rows": 0},
        [],
        "many",
    ],
)
def test_what_no_recorder_wrote_is_left_out(entry: Any) -> None:
    settings = read_settings({"prompts": entry})
    assert settings is not None
    assert settings.prompts is None


def test_what_a_recorder_wrote_is_read() -> None:
    settings = read_settings({"prompts": {"entries": 10, "tokens": 5, "calls": 3}})
    assert settings is not None
    assert settings.prompts == Prompts(entries=10, tokens=5, rows=1, calls=3)
