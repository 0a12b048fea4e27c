"""Conditions: what they mean, what they refuse, and that nothing else reaches the database."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advisor.rulebook import conditions
from advisor.rulebook.conditions import (
    Condition,
    ConditionError,
    Limit,
    Request,
    Watch,
    compile_all,
    connect,
    session,
)
from advisor.threads import both

COLUMNS = {
    "name": "VARCHAR",
    "class": "VARCHAR",
    "dur_ns": "BIGINT",
    "cost_ns": "BIGINT",
    "share": "DOUBLE",
    "blocking": "BOOLEAN",
}
LIMITS = {"min_bytes": 65536, "part": 0.25, "pattern": "%gemm%"}
ROW = {"name": "sgemm_128x64", "class": "gemm", "dur_ns": 100, "cost_ns": 0, "share": 0.5, "blocking": True}


def compiled(text: str, limits: Mapping[str, Limit] = LIMITS, **options: Any) -> Condition:
    """One condition over ``kernels``, checked; raises what is wrong with it."""
    request = Request(text, "kernels", COLUMNS, limits, **{"where": "x.toml: match.where", **options})
    (outcome,) = compile_all([request])
    if isinstance(outcome, ConditionError):
        raise outcome
    return outcome


def holds(text: str, **changes: object) -> bool | None:
    """What a condition says of ROW with some columns changed."""
    row = ROW | changes
    items = ", ".join(f'CAST(? AS {COLUMNS[name]}) AS "{name}"' for name in row)
    sql = f"SELECT {compiled(text).sql} FROM (SELECT {items})"
    ((answer,),) = session().execute(sql, list(row.values())).fetchall()
    return answer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dur_ns >= 100 AND class IN ('gemm', 'conv')", True),
        ("class NOT IN ('gemm')", False),
        ("NOT blocking OR share < 0.5", False),
        ("share > $part", True),
        ("dur_ns * 1000 >= $min_bytes", True),
        ("dur_ns * 99_999_999_999_999_999 > 9e18 AND (dur_ns * 3) // 2 = 150 AND (dur_ns * 3) % 7 = 6", True),
        ("name LIKE $pattern", True),
        ("name NOT LIKE '%conv%'", True),
        ("name ILIKE 'SGEMM%'", True),
        ("name LIKE 's_emm%1_8%'", True),
        ("name ILIKE '%G_MM%X%4'", True),
        ("regexp_matches(name, '^sg.mm_[0-9]+')", True),
        ("regexp_matches(name, 'SGEMM')", False),
        ("regexp_matches(name, 'SGEMM', 'i')", True),
        ("dur_ns BETWEEN 100 AND 200 AND dur_ns NOT BETWEEN 1 AND 99", True),
        ("CASE WHEN blocking THEN share > 0.4 ELSE FALSE END", True),
        ("coalesce(class, 'none') = 'gemm' AND ifnull(share, 0) > 0", True),
        ("abs(-dur_ns) + 1 = 101 AND dur_ns % 3 = 1 AND dur_ns // 3 = 33 AND mod(dur_ns, 3) = 1", True),
        ("greatest(dur_ns, cost_ns, 7) = 100 AND least(dur_ns, 7) = 7 AND 2 ** 3 = 8", True),
        ("name IS NOT NULL AND share IS DISTINCT FROM 1 AND blocking IS TRUE", True),
        ("length(lower(name)) = 12 AND starts_with(name, 'sg') AND contains(name, '128')", True),
        ("dur_ns::DOUBLE / 3 > 33.3 AND TRY_CAST(name AS BIGINT) IS NULL", True),
        ("if(blocking, dur_ns, cost_ns) = 1_00", True),
        ("name <> 'it''s' -- a remark", True),
    ],
)
def test_what_a_condition_means(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize(
    "text", ["dur_ns / cost_ns > 0", "dur_ns % cost_ns = 0", "dur_ns // cost_ns = 0", "share > 0.1"]
)
def test_by_zero_and_of_unknown_is_unknown(text: str) -> None:
    assert holds(text, share=None) is None


def test_it_says_which_columns_and_limits_it_uses() -> None:
    condition = compiled("dur_ns > $min_bytes AND (share < $part OR dur_ns = 0)")
    assert condition.columns == ("dur_ns", "share")
    assert condition.limits == {"min_bytes", "part"}
    assert [columns for _, columns in condition.parts] == [("dur_ns",), ("share", "dur_ns")]
    assert not condition.aggregate


def test_limits_are_values_and_never_sql() -> None:
    limits = {"name": "x' OR 1=1 --"}
    condition = compiled("name = $name", limits)
    assert condition.sql == "(\"name\" = 'x'' OR 1=1 --')"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("len(range(1000000000)) > 0", "function len"),
        ("(SELECT 1) = 1", "subquery"),
        ("dur_ns IN (SELECT 1)", "subquery"),
        ("exists(SELECT 1)", "subquery"),
        ("dur_ns = ANY([1])", "subquery"),
        ("read_csv('x')", "function read_csv"),
        ("read_text('/etc/hostname') = ''", "function read_text"),
        ("getenv('HOME') = ''", "function getenv"),
        ("current_setting('threads') = '1'", "function current_setting"),
        ("nextval('a') > 1", "function nextval"),
        ("1; DROP TABLE x", "not an SQL condition"),
        ("true) FROM t; SELECT (true", "brackets"),
        ("repeat('a', 1000000000) = name", "function repeat"),
        ("lpad(name, 1000000000, 'x') = 'a'", "function lpad"),
        ("printf('%1000000000d', 1) = ''", "function printf"),
        ("bar(1, 2, 3, 100000) = ''", "function bar"),
        ("name || name = 'a'", "not allowed"),
        ("concat(name, name) = 'a'", "function concat"),
        ("replace(name, 'a', 'aaaaaaaa') = ''", "function replace"),
        ("list_sum([1, 2]) > 1", "not allowed"),
        ("list_filter([1], x -> x > 0) = [1]", "not allowed"),
        ("[x for x in [1]] = [1]", "not allowed"),
        ("{'a': 1}.a = 1", "not allowed"),
        ("name[1] = 's'", "not allowed"),
        ("unnest([1]) = 1", "function unnest"),
        ("generate_series(1, 9) = 1", "function generate_series"),
        ("row_number() OVER () = 1", "window function"),
        ("*", "not allowed"),
        ("columns('x') > 1", "not allowed"),
        ("dur_ns, share", "not allowed"),
        ("dur_ns > 1 AS x", "not an SQL condition"),
        ("now() > dur_ns", "function now"),
        ("interval 1 day > dur_ns", "not allowed"),
        ("current_date > dur_ns", "no column 'current_date'"),
        ("name COLLATE nocase = 'x'", "collation"),
        ("name ~ 's.*'", "operator ~"),
        ("name SIMILAR TO 's.*'", "not allowed"),
        ("name GLOB 's*'", "not allowed"),
        ("try(dur_ns > 1)", "not allowed"),
        ("name LIKE class", "pattern must be text"),
        ("regexp_matches(name, class)", "pattern must be text"),
        ("regexp_matches(name, 'a{1000}b')", "repetitions"),
        ("regexp_matches(name, '(a{100}){3}b{150}')", "repetitions"),
        (f"regexp_matches(name, '{'a' * 300}')", "256 characters"),
        ("regexp_matches(name, '(')", "missing )"),
        ("regexp_matches(name, 'a', 'g')", "third argument"),
        ("name::DECIMAL(3, 1) > 1", "cast to DECIMAL"),
        ("name::INT[] = 1", "not allowed"),
        ("sum(dur_ns) > 1", "aggregate sum"),
        ("count(*) > 1", "aggregate count"),
        ("abs(dur_ns, 1) > 1", "takes 1 arguments, not 2"),
        ("dur_ns", "must be true or false, but is"),
        ("name > 5", "Cannot compare"),
        ("dur_ns > 'long'", "Could not convert"),
        ("dur_ns > 1e999", ""),
        ("dur_ns = 0x10", "decimal"),
        ("NULL", "must be true or false"),
        ("", "empty"),
        ("  \n", "empty"),
        ("dur_ns >", "not an SQL condition"),
        ("'a\x01' = name", "control"),
        ("E'\\x01' = name", "control"),
        ("/* open", "not an SQL condition"),
        ("$min_byte < dur_ns", "no limit '$min_byte'; nearest: min_bytes"),
        ("$steps < dur_ns", "no limit '$steps'"),
        ("? < dur_ns", "no limit '$1'"),
        ("durr_ns > 1", "no column 'durr_ns' in frame 'kernels'; nearest: dur_ns"),
        ("kernels.dur_ns > 1", "no column 'kernels.dur_ns'"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConditionError) as refused:
        compiled(text)
    assert problem in refused.value.problem
    assert str(refused.value) == f"x.toml: match.where: {refused.value.problem}"
    assert "\n" not in refused.value.problem


@pytest.mark.parametrize(
    "text",
    [
        "(" * 2000,
        "(" * 1500 + "true" + ")" * 1500,
        "NOT " * 990 + "blocking",
        "- " * 1500 + "dur_ns > 0",
        "dur_ns" + " + 1" * 900 + " > 0",
        "abs(" * 700 + "1" + ")" * 700 + " > 0",
        "dur_ns" + "::BIGINT" * 480 + " > 0",
        "[" * 1900 + "]" * 1900,
        "CASE WHEN blocking THEN " * 150,
        "true OR " * 5000 + "true",
    ],
    ids=lambda text: text[:12],
)
def test_bombs_are_refused_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(ConditionError):
        compiled(text)
    assert time.process_time() - began < 2


def test_a_wide_condition_is_not_a_deep_one() -> None:
    text = " OR ".join(f"dur_ns = {number}" for number in range(150))
    assert holds(text, dur_ns=149) is True
    assert holds(text) is True
    assert holds(text, dur_ns=150) is False


def test_a_hostile_pattern_ends() -> None:
    """Before its version 2, DuckDB backtracks at each %, which would take longer than anyone waits."""
    text = f"name LIKE '{'%a_' * 20}b'"
    assert "LIKE" not in compiled(text).sql
    began = time.process_time()
    assert holds(text, name="a" * 3000) is False
    assert time.process_time() - began < 2


@settings(max_examples=150, deadline=None)
@given(st.text("aB_%.(", max_size=8), st.text("abB.(\n", max_size=8), st.booleans())
@example("%a_%.(%", "xa1.(", True)
def test_like_is_like_however_it_is_printed(pattern: str, name: str, insensitive: bool) -> None:
    parts = {"%": ".*", "_": "."}
    expected = re.fullmatch(
        "".join(parts.get(character, re.escape(character)) for character in pattern),
        name,
        re.DOTALL | (re.IGNORECASE if insensitive else 0),
    )
    assert holds(f"name {'ILIKE' if insensitive else 'LIKE'} '{pattern}'", name=name) is (expected is not None)


def test_having_sees_only_the_chosen_rows() -> None:
    text = "count(*) = 2 AND count(*) FILTER (WHERE dur_ns > 1) = 1 AND sum(DISTINCT dur_ns) = $window_ns / $steps"
    condition = compiled(text, aggregates=True, late=("steps", "window_ns"))
    assert condition.aggregate
    rows = "(SELECT * FROM (VALUES (1, true), (2, true), (9, false)) AS v(dur_ns, m))"
    sql = condition.bind(rows="m", steps=2, window_ns=6)
    assert connect().execute(f"SELECT {sql} FROM {rows}").fetchall() == [(True,)]
    assert connect().execute(f"SELECT {condition.bind(steps=2, window_ns=6)} FROM {rows}").fetchall() == [(False,)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sum(sum(dur_ns)) > 1", "may not stand inside another"),
        ("sum(dur_ns) FILTER (WHERE count(*) > 1) > 1", "may not stand inside another"),
        ("sum(dur_ns ORDER BY share) > 1", "takes no ORDER BY"),
        ("string_agg(name, ',') = 'a'", "function string_agg() is not allowed"),
        ("dur_ns > sum(cost_ns)", "GROUP BY"),
    ],
)
def test_aggregates_that_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(problem)):
        compiled(text, aggregates=True)


def test_items_have_names() -> None:
    texts = ["name", "count(*) AS n", "sum(dur_ns) / 1e6"]
    items = compile_all([Request(text, "kernels", COLUMNS, {}, aggregates=True, item=True) for text in texts])
    assert [(item.alias, item.aggregate) for item in items if isinstance(item, Condition)] == [
        ("name", False),
        ("n", True),
        ("sum(dur_ns) / 1e6", True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "DISTINCT name",
        "*",
        "name, share",
        "name FROM kernels",
        "name FROM t; SELECT 1",
        "name FROM t WHERE (true); SELECT 1",
        "name WHERE true",
        "name FROM read_csv('x')",
        "name FROM t UNION SELECT name",
        "name INTO x",
        "row_number() OVER ()",
    ],
)
def test_an_item_is_one_expression(text: str) -> None:
    (refused,) = compile_all([Request(text, "kernels", COLUMNS, {}, aggregates=True, item=True)])
    assert isinstance(refused, ConditionError)


def test_one_bad_condition_does_not_spoil_the_others() -> None:
    texts = ["dur_ns > 1", "name > 5", "dur > 1", "share < 'x'", "blocking"]
    outcomes = compile_all([Request(text, "kernels", COLUMNS, {}) for text in texts])
    assert [isinstance(outcome, Condition) for outcome in outcomes] == [True, False, False, False, True]


def test_many_conditions_compile_fast() -> None:
    requests = [Request(f"dur_ns > {index} AND class IN ('a', 'b')", "kernels", COLUMNS, {}) for index in range(200)]
    compile_all(requests[:1])
    began = time.process_time()
    assert all(isinstance(outcome, Condition) for outcome in compile_all(requests))
    assert time.process_time() - began < 1


@pytest.mark.parametrize("make", [connect, session])
def test_the_database_reaches_nothing(make: object, tmp_path: Path) -> None:
    connection = make()  # type: ignore[operator]
    file = tmp_path / "x.csv"
    file.write_text("a\n1\n")
    for sql in (
        f"SELECT * FROM read_csv('{file}')",
        f"SELECT * FROM '{file}'",
        f"COPY (SELECT 1) TO '{tmp_path / 'y.csv'}'",
        "SET enable_external_access = true",
        "SET memory_limit = '64GB'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql).fetchall()
    assert not (tmp_path / "y.csv").exists()


def test_two_threads_open_one_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened at the first question, and of many rules two threads ask theirs."""
    opened: list[duckdb.DuckDBPyConnection] = []

    def open_slowly() -> duckdb.DuckDBPyConnection:
        Event().wait(0.05)
        opened.append(connect())
        return opened[-1]

    conditions.close()
    assert not conditions.is_open()
    monkeypatch.setattr(conditions, "connect", open_slowly)
    both(session, session, beside=True)
    assert len(opened) == 1
    assert conditions.is_open()


def test_what_is_closed_is_not_opened_to_be_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    conditions.close()
    monkeypatch.setattr(conditions, "connect", lambda: pytest.fail("opened"))
    conditions.close()


def test_connect_sees_no_python_variable() -> None:
    import pandas as pd

    mine = pd.DataFrame({"a": [1]})
    with pytest.raises(duckdb.CatalogException, match="mine"):
        connect().execute("SELECT * FROM mine").fetchall()
    assert len(mine) == 1


@pytest.mark.parametrize("made", ["contextlib.nullcontext(conditions.connect())", "store.Store('x')._database()"])
def test_a_slow_query_draws_nothing_on_standard_output(made: str, tmp_path: Path) -> None:
    """DuckDB draws a bar behind two seconds of a query, where a program has no file: `python -c`, a notebook, a worker."""
    asked = "print(made.execute(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    code = "import contextlib; from advisor.rulebook import conditions; from advisor.gating.history import store"
    code += f"\nwith {made} as made:\n    {asked}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "[(False,)]\n", done.stderr


def test_what_takes_too_long_is_interrupted() -> None:
    connection = connect()
    began = time.process_time()
    with Watch(connection) as watch:
        with pytest.raises(duckdb.InterruptException), watch.limit(0.2):
            connection.execute("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b").fetchall()
        assert time.process_time() - began < 5
        with watch.limit(60):
            assert connection.execute("SELECT sum(range) FROM range(20000000)").fetchall()
