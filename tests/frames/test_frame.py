"""Frames as declarations: each in a file of its own name, each saying what its rows own; and no import circle below them."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace

import advisor
from advisor.frames import FRAMES, SCHEMAS
from advisor.frames.frame import owns_waits
from advisor.rulebook.conditions import connect
from advisor.testing import TraceBuilder
from advisor.trace import Trace, read

PACKAGE = Path(advisor.__file__).parent


def test_a_frame_is_declared_in_the_file_of_its_name() -> None:
    for name in FRAMES:
        assert SCHEMAS[name] is FRAMES[name].schema
        assert (name, (PACKAGE / "frames" / f"{name}.py").exists() or name == "patterns") == (SCHEMAS[name].name, True)


def test_a_frame_owns_time_or_is_timeless() -> None:
    kernels = FRAMES["kernels"]
    with pytest.raises(TypeError, match="'kernels' is neither timeless nor an owner of time"):
        replace(kernels, owns=None)
    with pytest.raises(TypeError, match="'settings' is both timeless and an owner of time"):
        replace(FRAMES["settings"], owns=owns_waits("loader"))
    assert replace(kernels, owns=None, timeless=True).timeless


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    b = TraceBuilder()
    for _ in range(2):
        with b.step():
            with b.loader(ms=3):
                pass
            with b.op("aten::mm", shapes=[[8, 8], [8, 8]], dtypes=["float", "float"]):
                b.kernel("volta_sgemm_128x64_nn", us=900)
            b.copy("HtoD", 1 << 22, us=400)
            b.item()
    return read(str(b.write(tmp_path / "trace.json")))


def test_columns_that_are_made_one_by_one_are_those_of_the_whole_frame(trace: Trace) -> None:
    several = [name for name in FRAMES if FRAMES[name].makers is not None]
    assert set(several) == {"ops", "launches", "kernels"}
    for name in several:
        columns = SCHEMAS[name].names()
        parts = {column: trace.frame(name, (column,)) for column in columns}
        assert all(list(part) == [column] for column, part in parts.items())
        assert list(trace.frame(name, ("dur_ns", "start_ns", "no such column"))) == ["start_ns", "dur_ns"]
        rows = len(trace.frame(name, ()))
        whole = trace.frame(name)
        assert (list(whole), len(whole)) == (columns, rows)
        for column, part in parts.items():
            pd.testing.assert_series_equal(part[column], whole[column])
        assert trace.frame(name, ("dur_ns",)) is whole


def test_the_rows_that_own_time_own_what_they_cost(trace: Trace) -> None:
    """For each frame but `ops`, whose cost beside a GPU is the host's: no two rows own one segment, and each costs its own."""
    ledger = trace.ledger
    for name in set(FRAMES) - {"ops", "patterns"}:
        frame = trace.frame(name)
        if "cost_ns" not in frame:
            continue
        for row, cost in enumerate(frame["cost_ns"].tolist()):
            segments = trace.claims(name, np.arange(len(frame)) == row)
            assert (name, row, int(ledger.dur_ns[segments].sum())) == (name, row, cost)


def test_older_names_of_columns_hold_the_same(trace: Trace) -> None:
    assert trace.kernels["kind"].tolist() == trace.kernels["class"].tolist() == ["gemm", "gemm"]
    assert trace.kernels["operand_types"].tolist() == trace.kernels["dtypes"].tolist() == ['["float","float"]'] * 2
    ours = trace.ops.set_index("name").loc["aten::mm"]
    assert ours["operand_types"].tolist() == ours["dtypes"].tolist() == ['["float","float"]'] * 2
    assert trace.kernels.operand_types[0] == '["float","float"]'  # no attribute of pandas, as dtypes is


def test_no_import_circle_is_left_among_frames_and_timeline() -> None:
    """Imports inside functions and for type checkers count."""
    files = {
        f"advisor.{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}": path for path in PACKAGE.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    graph: dict[str, set[str]] = {}
    for name, path in modules.items():
        if not name.startswith(("advisor.frames", "advisor.timeline")):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        wanted: set[str] = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted |= {name if name in modules else str(node.module) for name in inner}
        # A module's package is imported before it, unless that is under way.
        around = {".".join(other.split(".")[:end]) for other in wanted for end in range(3, other.count(".") + 1)}
        wanted |= {package for package in around if not f"{name}.".startswith(f"{package}.")}
        graph[name] = wanted & set(modules)
        assert name.startswith("advisor.frames") or not any(other.startswith("advisor.frames") for other in wanted), (
            name
        )
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_columns_have_their_declared_type_in_sql_even_where_nothing_is_known(tmp_path: Path) -> None:
    """A trace without steps, device, stacks: a column of text that holds none is still text, and can be asked with LIKE."""
    b = TraceBuilder(host_us=10, latency_us=0)
    with b.op("aten::mm"):
        b.kernel("gemm", us=100)
    trace = read(str(b.write(tmp_path / "trace.json")))
    for name, schema in SCHEMAS.items():
        connection = connect()
        connection.register(name, trace.frame(name))
        described = connection.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()
        types = {row[0]: "VARCHAR" if row[1].startswith("ENUM") else row[1] for row in described}
        assert {column.name: types[column.name] for column in schema.columns} == {
            column.name: column.type for column in schema.columns
        }, name
    assert trace.query("SELECT count(*) AS n FROM steps WHERE name LIKE 'ProfilerStep#%'")["n"].tolist() == [0]
