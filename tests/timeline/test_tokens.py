"""Python between the runs of a model for a token each: which runs are a token's, and what is left out between them."""

from __future__ import annotations

from pathlib import Path

import advisor
from advisor.testing import TraceBuilder
from advisor.timeline.tokens import between_tokens, token_runs
from advisor.trace import Trace


def run(b: TraceBuilder, keys: int, *, tokens: int = 1, bias: bool = False) -> None:
    """Add a run: a lookup, a product, attention and the scores, of 10 us each."""

    def op(name: str, *shapes: list[int]) -> None:
        with b.op(name, shapes=list(shapes), us=10):
            pass

    op("aten::embedding", [1000, 64], [1, tokens])
    op("aten::embedding", [512, 64], [tokens])
    op("aten::addmm", [192], [tokens, 64], [64, 192])
    if bias:  # of positions: as many as there are keys
        op("aten::embedding", [32, 4], [1, keys])
    op("aten::scaled_dot_product_attention", [1, 4, tokens, 16], [1, 4, keys, 16], [1, 4, keys, 16])
    op("aten::mm", [tokens, 64], [64, 1000])


def read(b: TraceBuilder, path: Path) -> Trace:
    b.write(path / "trace.json")
    return advisor.read(str(path / "trace.json"))


def test_time_before_each_token_counts_and_operators_and_prompts_do_not(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    run(b, 40, tokens=40)
    for token in range(3):
        b.idle(us=300)
        with b.op("aten::argmax", us=50):
            pass
        b.idle(us=200)
        run(b, 41 + token, bias=True)
    b.idle(us=700)
    run(b, 40, tokens=40)
    trace = read(b, tmp_path)
    assert len(trace.context.once(token_runs)[0]) == 3
    assert trace.context.once(between_tokens).length == 3 * 500_000
    assert trace.frame("gaps")["token_ns"].sum() == 3 * 500_000


def test_what_the_profiler_takes_around_a_step_is_left_out(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    for token in range(4):
        with b.step():
            b.idle(us=150)
            run(b, 41 + token)
            b.idle(us=900)
    trace = read(b, tmp_path)
    # Of 1.05 ms each, 0.4 before the mark and 0.1 behind it.
    assert trace.context.once(between_tokens).length == 3 * 550_000


def test_an_encoder_has_no_tokens_of_its_own(tmp_path: Path) -> None:
    b = TraceBuilder(None, host_us=0)
    for _ in range(4):
        run(b, 6, tokens=6)
        b.idle(us=900)
    assert not read(b, tmp_path).context.once(between_tokens).length
