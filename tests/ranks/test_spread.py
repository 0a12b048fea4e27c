"""What all ranks show beside findings: spread, who waits for whom and where, messages, work that differs; by hand."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from support.ranks import ONLY, close, ranks, read, together

import advisor
from advisor import rulebook
from advisor.cache import codec
from advisor.errors import AdvisorError
from advisor.pipeline import analyze_many
from advisor.ranks.at_length import at_length
from advisor.ranks.digest import Digest, digest
from advisor.ranks.work import more_compute, same_work
from advisor.report import Options, render
from advisor.report.ranks import sections
from advisor.results.encoding import to_json
from advisor.results.ranks import Across
from advisor.results.several import AT_LENGTH, Several
from advisor.testing import TraceBuilder

GPU = "NVIDIA A100-SXM4-80GB"
BOOK = rulebook.load([rulebook.builtin_rules_dir()])


def spread(across: Across, figure: str) -> Any:
    (found,) = (one for one in across.spreads if one.figure == figure)
    return found


def test_the_spread_names_who_has_least_and_most(tmp_path: Path) -> None:
    # Each rank computes 49.8 ms of a step of 100 ms, rank 2 10 ms longer, rank 1 4 ms; all but rank 2 wait for it.
    _, across = together(tmp_path, ranks({2: 10_000, 1: 4_000}))
    compute = spread(across, "compute_ms")
    assert (compute.min_rank, compute.max_rank, compute.ranks) == (0, 2, 4)
    assert [close(compute.min, 49.8), close(compute.median, 51.8), close(compute.max, 59.8)] == [True] * 3
    wait = spread(across, "wait_ms")
    assert (wait.min, wait.min_rank) == (0.0, 2)
    assert [close(wait.median, 8.0), close(wait.max, 10.0)] == [True] * 2  # 0, 6, 10, 10
    assert "loader_ms" not in [one.figure for one in across.spreads]  # nothing in these traces waits for a loader


def test_who_waits_for_whom(tmp_path: Path) -> None:
    # Ranks 0, 1 and 3 wait 10 ms in each step, all for rank 2.
    _, across = together(tmp_path, ranks({2: 10_000}))
    assert [(one.rank, one.late_rank) for one in across.waits] == [(0, 2), (1, 2), (3, 2)]
    assert all(close(one.wait_ms, 10.0) for one in across.waits)


def test_the_collective_that_was_waited_in_longest_comes_first(tmp_path: Path) -> None:
    # A step each: rank 1 is late by 3 ms, then by 12, then by 6.
    late = (3_000, 12_000, 6_000)
    builders = []
    for number in range(3):
        b = TraceBuilder(GPU, rank=number, world_size=3, first_step=5)
        for step, us in enumerate(late):
            own = us if number == 1 else 0
            with b.step():
                b.kernel("ampere_sgemm_128x64_tn", us=40_000 + own - 200, at_us=step * 100_000 + 200)
                b.collective("all_reduce", 8_000_000, us=us - own + 1_000, at_us=step * 100_000 + 40_000 + own)
                b.seek((step + 1) * 100_000)
        builders.append(b)
    _, across = together(tmp_path, builders)
    assert [(one.step, one.late_rank, one.late_cause) for one in across.lags] == [
        (6, 1, "compute"), (7, 1, "compute"), (5, 1, "compute"),
    ]  # fmt: skip
    assert [close(one.late_by_ms, us) for one, us in zip(across.lags, (12, 6, 3), strict=True)] == [True] * 3
    assert [close(one.wait_ms, us) for one, us in zip(across.lags, (8, 4, 2), strict=True)] == [
        True
    ] * 3  # two of three
    assert {(one.kind, one.bytes) for one in across.lags} == {("all_reduce", 8_000_000)}
    # Net of waiting each takes 1 ms, in which a rank of three sends four thirds of the message.
    (message,) = across.traffic
    assert message.bus_gbps is not None
    assert close(message.bus_gbps, 8e6 * 4 / 3 / 1e-3 / 1e9)


def test_messages_are_summed_up_by_group_and_size(tmp_path: Path) -> None:
    # Two groups, an all-reduce of 1 ms in each per step; in the first three of four ranks wait 10 ms: 7.5 on average.
    _, across = together(tmp_path, ranks({2: 10_000}, groups=("0", "1")))
    found = {one.group.split()[0]: one for one in across.traffic}
    assert set(found) == {"0", "1"}
    assert [(one.kind, one.ranks, one.count) for one in across.traffic] == [("all_reduce", 4, 1.0)] * 2
    assert close(found["0"].exposed_ms, 8.5)
    assert found["0"].wait_ms is not None
    assert close(found["0"].wait_ms, 7.5)
    assert close(found["1"].exposed_ms, 1.0)
    assert found["1"].wait_ms == 0.0


def shaped(
    number: int, rows: int, us: int, *, count: int = 4, extra: int = 0, kernel: str = "ampere_sgemm_128x64_tn"
) -> TraceBuilder:
    """A rank whose matrix product has so many rows and takes so long, with *extra* pointwise kernels of 2 ms."""
    b = TraceBuilder(GPU, rank=number, world_size=count)
    for step in range(4):
        with b.step():
            at = step * 100_000 + 200
            with b.op("aten::mm", shapes=[[rows, 512], [512, 512]]):
                b.kernel(kernel, us=us, at_us=at)
            for one in range(extra):
                with b.op("aten::mul", shapes=[[rows, 512]]):
                    b.kernel("vectorized_elementwise_kernel", us=2_000, at_us=at + us + one * 2_000)
            b.collective("all_reduce", 4_000_000, us=61_000 - us, at_us=step * 100_000 + 20_000 + us)
            b.seek((step + 1) * 100_000)
    return b


def test_other_shapes_are_told_with_the_usual_ones(tmp_path: Path) -> None:
    # Rank 3 multiplies 8,192 rows where the others have 4,096, and takes 40 ms instead of 20.
    _, across = together(tmp_path, [shaped(number, 4096, 20_000) for number in range(3)] + [shaped(3, 8192, 40_000)])
    (found,) = across.differences
    assert (found.ranks, found.what, found.name) == ([3], "shapes", "aten::mm")
    assert "8192" in found.here
    assert "4096" in found.usual
    assert close(found.ms, 20.0)


def test_a_kernel_that_only_some_ranks_run_is_told(tmp_path: Path) -> None:
    # Ranks 1 and 3 of five run two pointwise kernels more, of 2 ms each.
    builders = [shaped(number, 4096, 20_000, count=5, extra=2 if number in (1, 3) else 0) for number in range(5)]
    _, across = together(tmp_path, builders)
    kernel = [one for one in across.differences if one.what == "kernel"]
    assert [(one.ranks, one.name, one.here, one.usual) for one in kernel] == [
        ([1, 3], "vectorized_elementwise_kernel", "2 per step", "none")
    ]
    assert close(kernel[0].ms, 4.0)


def test_ranks_that_do_the_same_do_not_differ(tmp_path: Path) -> None:
    _, across = together(tmp_path, [shaped(number, 4096, 20_000 + 50 * number) for number in range(4)])
    assert across.differences == []


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([(4096, 20_000)] * 3 + [(4096, 24_000)], [True, True, True, True]),  # slower at the same work
        ([(4096, 20_000)] * 3 + [(8192, 24_000)], [True, True, True, False]),  # more work
    ],
)
def test_the_same_work_is_told_from_more(
    tmp_path: Path, others: Sequence[tuple[int, int]], expected: list[bool]
) -> None:
    digests = [digest(trace) for trace in read(tmp_path, [shaped(at, *one) for at, one in enumerate(others)])]
    assert same_work(digests) == expected
    assert np.allclose(more_compute(digests), [0, 0, 0, 0.2], atol=1e-6)


def test_without_shapes_nobody_knows(tmp_path: Path) -> None:
    builders = [TraceBuilder(GPU, rank=number, world_size=2, record_shapes=False) for number in range(2)]
    for b in builders:
        with b.step():
            b.kernel("ampere_sgemm_128x64_tn", us=1_000)
            b.collective("all_reduce", 4_000, us=100)
    assert same_work([digest(trace) for trace in read(tmp_path, builders)]) == [None, None]


def test_without_steps_recordings_of_other_lengths_are_not_compared(tmp_path: Path) -> None:
    """Rank 2 recorded twice as many iterations: that is no other work, and no slower GPU."""
    builders = []
    for number in range(3):
        b = TraceBuilder(GPU, rank=number, world_size=3)
        for step in range(8 if number == 2 else 4):
            with b.op("aten::mm", shapes=[[4096, 512], [512, 512]]):
                b.kernel("ampere_sgemm_128x64_tn", us=20_000, at_us=step * 50_000)
            b.collective("all_reduce", 4_000_000, us=20_000, at_us=step * 50_000 + 20_000)
        builders.append(b)
    _, across = together(tmp_path, builders)
    assert across.differences == []
    digests = [digest(trace) for trace in read(tmp_path, builders)]
    assert same_work(digests) == [None, None, None]
    assert np.isnan(more_compute(digests)).all()


# ---- many ranks


def test_of_many_ranks_the_telling_ones_are_shown_at_length(tmp_path: Path) -> None:
    # Rank 17 of 24 is waited for, rank 5 too, by less and never last; all others are alike.
    analyses, across = together(tmp_path, ranks({17: 10_000, 5: 4_000}, count=24))
    told = at_length(analyses, across)
    assert len(told) == AT_LENGTH
    assert 17 in told
    document = Several(traces=analyses, across=across)
    text = render("markdown", document).decode()
    assert "8 of 24 traces are shown at length" in text
    assert "and 8 more ranks" in text
    assert text.count("Where a step's") == AT_LENGTH
    assert render("text", document, Options(100, False, 1, None)).decode().count("Where a step's") == 24
    page = render("html", document, Options()).decode()
    assert page.count('-top"') >= AT_LENGTH
    assert "trace24.json" not in page
    assert "<h3>Who waits for whom</h3>" in page
    pairs = dict(sections(across))["Who waits for whom"]
    assert pairs.head == ("rank", "waits for", "time")
    assert {row[1] for row in pairs.rows} == {"17"}


def test_few_are_all_shown(tmp_path: Path) -> None:
    analyses, across = together(tmp_path, ranks({2: 10_000}))
    assert at_length(analyses, across) == [0, 1, 2, 3]
    assert at_length(analyses * 4, None) == list(range(AT_LENGTH))


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_report_shows_what_lies_across(tmp_path: Path, form: str) -> None:
    analyses, across = together(tmp_path, ranks({2: 10_000}))
    made = render(form, Several(traces=analyses, across=across), Options(verbosity=1)).decode()
    for heading in (
        "How the ranks differ",
        "Who waits for whom",
        "Where ranks waited longest",
        "Communication by group",
    ):
        assert heading in made


# ---- the digest on its way


def test_a_digest_travels_without_loss(tmp_path: Path) -> None:
    for trace in read(tmp_path, [shaped(0, 4096, 20_000, extra=3), *ranks({1: 5_000}, groups=("0", "1"))]):
        made = digest(trace)
        back = codec.decode(codec.encode(made), Digest)
        assert (back.before == made.before).all()
        for name in ("collectives", "work", "messages"):
            one, other = (getattr(table, name).astype(object) for table in (made, back))
            pd.testing.assert_frame_equal(one.where(one.notna(), None), other.where(other.notna(), None))
        plain = [
            name
            for name, value in msgspec.structs.asdict(made).items()
            if name not in ("collectives", "work", "messages", "host") and not isinstance(value, np.ndarray)
        ]
        for name in ("step_numbers", "still", "waiting"):
            assert (getattr(back, name) == getattr(made, name)).all()
        assert {name: getattr(back, name) for name in plain} == {name: getattr(made, name) for name in plain}
        assert back.step_numbers.tolist() == made.step_numbers.tolist()


def _deflate(array: list[Any]) -> None:
    array[2:] = [zlib.compress(bytes(array[2])), True]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda raw: raw.pop("before"),
        lambda raw: raw["before"].__setitem__(2, b""),
        lambda raw: raw["before"].__setitem__(1, [1, -1]),
        lambda raw: raw["before"].__setitem__(0, "|O"),
        lambda raw: _deflate(raw["before"]),
        lambda raw: raw["before"].__setitem__(slice(1, 3), [[0, 13], b""]),
        lambda raw: raw.update(causes={"compute": 1}),
        lambda raw: raw.update(facts={"busy_share": ["a list"]}),
        lambda raw: raw.update(collectives={}),
        lambda raw: raw["collectives"].update(more=raw["collectives"]["step"]),
        lambda raw: raw["collectives"]["op"].__setitem__(2, []),  # numbers of texts that are not there
        lambda raw: raw["work"]["count"][0].__setitem__(slice(1, 3), [[0], b""]),  # shorter than its neighbours
        lambda raw: raw["work"]["count"].__setitem__(1, raw["work"]["count"][0]),  # a mask of numbers
    ],
)
def test_bytes_that_are_no_digest_are_refused(tmp_path: Path, spoil: Callable[[dict[str, Any]], None]) -> None:
    (trace,) = read(tmp_path, [shaped(0, 4096, 20_000)])
    raw = msgspec.msgpack.decode(codec.encode(digest(trace)))
    assert len(codec.decode(msgspec.msgpack.encode(raw), Digest).collectives)
    spoil(raw)
    with pytest.raises(AdvisorError, match="hold no Digest"):
        codec.decode(msgspec.msgpack.encode(raw), Digest)


SHORTEST_S = 0.050005


def test_the_real_ranks_wait_for_two_of_them(real: Any) -> None:
    """The same three collectives as in test_across, in the report's own words."""
    traces = (advisor.read(real(f"a100_megatron_tp8/rank{number}.json.gz")) for number in range(8))
    _, across = analyze_many(traces, BOOK, only=ONLY)
    assert across is not None
    (lag,) = (one for one in across.lags if one.collective == 67)
    assert (lag.late_rank, lag.late_cause, lag.kind, lag.bytes) == (0, "host", "all_reduce", 64 << 20)
    assert abs(lag.late_by_ms - 19.06) < 0.03
    assert abs(lag.wait_ms - 14.41) < 0.03
    assert sum(one.count for one in across.traffic) == 84
    total = sum(one.wait_ms for one in across.waits)
    assert close(total / 8, np.mean([row.wait_ms or 0.0 for row in across.ranks]).item())
    assert across.differences == []
    # By other code: the sum over the 81 of the shortest of eight durations is 50.005 ms, the group's size is in the values of
    # `record_param_comms` alone.
    large = next(one for one in across.traffic if one.bytes == 64 << 20)
    assert large.bus_gbps is not None
    assert close(large.bus_gbps, 81 * (64 << 20) * 2 * 7 / 8 / SHORTEST_S / 1e9)


def test_many_traces_are_written_one_by_one_as_all_at_once(tmp_path: Path) -> None:
    analyses, across = together(tmp_path, ranks({2: 10_000}))
    for document in (
        Several(traces=analyses, across=across),
        Several(traces=analyses[:1]),
        Several(traces=[], across=across),
    ):
        assert document.to_json() == to_json(document)


def test_data_and_memory_spread_too(tmp_path: Path) -> None:
    # Rank 1 of two waits 30 ms for its batch in each step of 100 ms, rank 0 10 ms; they allocate 2 and 6 GB.
    builders = []
    for number, (wait, gigabytes) in enumerate(((10_000, 2), (30_000, 6))):
        b = TraceBuilder(GPU, rank=number, world_size=2)
        b.memory(gigabytes * 10**9)
        for step in range(4):
            b.seek(step * 100_000)
            with b.step():
                with b.loader(us=wait, workers=2):
                    pass
                b.kernel("ampere_sgemm_128x64_tn", us=40_000, at_us=step * 100_000 + wait)
                b.collective("all_reduce", 4_000_000, us=50_000 - wait, at_us=step * 100_000 + 45_000 + wait)
                b.seek((step + 1) * 100_000)
        builders.append(b)
    _, across = together(tmp_path, builders)
    loader, memory = spread(across, "loader_ms"), spread(across, "peak_memory_bytes")
    assert [close(loader.min, 10.0), close(loader.max, 30.0)] == [True] * 2
    assert (loader.min_rank, loader.max_rank) == (0, 1)
    assert (memory.min, memory.max, memory.median) == (2e9, 6e9, 4e9)
    assert [row.peak_memory_bytes for row in across.ranks] == [2 * 10**9, 6 * 10**9]
    table = dict(sections(across))["How the ranks differ"]
    assert ("peak memory", "1.9 GiB", "0", "3.7 GiB", "5.6 GiB", "1", "2") in table.rows
