"""Conditions on the frames of one trace: all of a frame in one query, one by one where that fails.

DuckDB sees each column under the SQL type of its schema, whatever it is made of, so what was checked without data
also runs with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, TypeVar

import duckdb
import numpy as np
from msgspec import Struct

from advisor.columns import Columns, Series
from advisor.engine.categories import answered
from advisor.errors import AdvisorError
from advisor.frames import FRAMES
from advisor.frames.schema import Schema
from advisor.intervals import Bools, Ints
from advisor.results.analysis import Evidence
from advisor.results.field import Cell
from advisor.rulebook.conditions import Condition, Watch, reason, session
from advisor.threads import processor_clock

QUERY_SECONDS = 5.0
TOTAL_SECONDS = 30.0
EVIDENCE_ROWS = 8
_DIGITS = 6
_FEW = 3_000
"""Cells of a frame that go as parameters: to register arrays takes DuckDB longer than to answer, however small they are."""
MANY_ROWS = 100_000
"""Rows of a frame from which on it is not kept without need."""
_ANSWERS: dict[tuple[Any, ...], bool | None] = {}
"""Answers by SQL and the types and values of its columns: DuckDB takes milliseconds for one row, of which there is one a trace."""
_ANSWERS_MOST = 10_000

Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)


class Frames(Protocol):
    """Whatever has frames by name."""

    def columns(self, name: str, columns: Sequence[str] | None = None, /) -> Columns: ...


class Question(Struct, frozen=True):
    """An expression to put to a frame, and the columns that it reads."""

    sql: str
    columns: tuple[str, ...]


class Evaluator:
    """Runs checked SQL over the frames of one trace. Errors come back as values, so that each stays with its rule."""

    def __init__(self, trace: Frames, schemas: Mapping[str, Schema]) -> None:
        self._trace = trace
        self._types = {name: {column.name: column.type for column in schemas[name].columns} for name in schemas}
        self._connection = session()
        self._watch = Watch(self._connection)
        self._left_s = TOTAL_SECONDS
        self._tables: dict[str, tuple[Columns, frozenset[str]]] = {}
        """By name of a frame what was asked for so far, and which columns that were."""
        self._failed: dict[str, Exception] = {}
        self._rows: dict[str, Mapping[str, Any] | Exception | None] = {}

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trail: TracebackType | None
    ) -> None:
        self._watch.__exit__()
        self._connection.close()
        # Questions that call themselves hold this, and no collector runs while a trace is analyzed.
        self._tables.clear()

    def frame(self, name: str, columns: Sequence[str] | None = None, cost: Ints | None = None) -> Columns:
        """A frame of the trace, or what it has of some *columns*; with another *cost* of its rows in ns where that is given.

        One that cannot be built fails each time, without being built again.
        """
        if name in self._failed:
            raise self._failed[name]
        asked = frozenset(self._types[name] if columns is None else columns)
        known, had = self._tables.get(name, (None, frozenset()))
        if known is None or not asked <= had:
            try:
                table = self._trace.columns(name, sorted(asked - had))
            except Exception as error:
                self._failed[name] = error  # a frame that fails is the verdict of its rules, not the end
                raise
            known = (
                table
                if known is None or set(known) <= set(table)
                else known.with_columns({one: table[one] for one in table})
            )
            self._tables[name] = known, had | asked
        return known if cost is None else known.with_columns({"cost_ns": cost})

    def let_go(self, name: str) -> None:
        """Let go of a frame that nothing more is asked of: where something is all the same, it is built again."""
        self._tables.pop(name, None)

    def keep(self, name: str, columns: Collection[str]) -> bool:
        """Let go of all but some *columns* of a frame of very many rows: another that is asked for is made again.

        True where that was done.
        """
        known, had = self._tables.get(name, (None, frozenset()))
        if known is None or len(known) < MANY_ROWS:
            return False
        left = [column for column in known if column in columns]
        # A frame that is built as one had all that there is of them.
        whole = frozenset(columns)
        self._tables[name] = known.pick(left), whole if FRAMES[name].makers is None else had & whole
        return True

    def row(self, name: str) -> Mapping[str, Any] | None:
        """The row of a frame that has one, as plain values by column; None where it has more, or none."""
        if name not in self._rows:
            try:
                self._rows[name] = self._find_row(name)
            except Exception as error:  # noqa: BLE001  (as of a frame)
                self._rows[name] = error
        result = self._rows[name]
        if isinstance(result, Exception):
            raise result
        return result

    def _find_row(self, name: str) -> Mapping[str, Any] | None:
        if name == "trace" and (facts := getattr(self._trace, "facts", None)) is not None:
            found: Mapping[str, Any] = facts  # of a recording, without a frame of a hundred and fifty columns
            return found
        return self.frame(name).records()[0] if len(self.frame(name, ())) == 1 else None

    def masks(self, name: str, wheres: Mapping[str, Condition]) -> dict[str, Bools | Exception]:
        """For each condition, which rows of the frame it holds for; where it is NULL it does not hold."""

        def run(questions: Sequence[Question]) -> list[Bools]:
            if (row := self.row(name)) is not None:
                return [np.array([bool(answer)]) for answer in self._one_row(name, row, questions)]
            frame = self.frame(name, _columns(questions, ()))
            if not len(frame):
                return [np.zeros(0, np.bool_) for _ in questions]
            short, texts = self._of_texts(frame, questions)
            answers = self._query(name, frame, short, duckdb.DuckDBPyConnection.fetchnumpy, rows=texts)
            return [np.ma.filled(answers[f"c{index}"], False).astype(np.bool_) for index in range(len(questions))]

        return _answers({key: Question(where.sql, where.columns) for key, where in wheres.items()}, run)

    def _of_texts(self, frame: Columns, questions: Sequence[Question]) -> tuple[Sequence[Question], dict[str, Series]]:
        """Put what *questions* ask of texts into columns: of each text once, where that works out."""
        try:
            short, columns = answered(frame, [(one.sql, one.columns) for one in questions], self._of_values)
        except duckdb.Error:
            return questions, {}  # each condition that cannot be asked shall say so itself
        return [Question(*one) for one in short], columns

    def _of_values(self, query: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        answers: Sequence[Sequence[Any]] = self._ask(query, duckdb.DuckDBPyConnection.fetchall, values)
        return answers

    def truths(
        self, name: str, questions: Mapping[Key, Question], rows: Mapping[str, Bools] | None = None
    ) -> dict[Key, bool | Exception | None]:
        """For each question with one answer, that answer; None is NULL. *rows* adds masks as columns."""

        def run(batch: Sequence[Question]) -> list[bool | None]:
            if not rows and (row := self.row(name)) is not None:
                return self._one_row(name, row, batch)
            (answers,) = self._query(name, self.frame(name, _columns(batch, ())), batch, rows=rows)
            return [None if answer is None else bool(answer) for answer in answers]

        return _answers(dict(questions), run)

    def conditions(self, name: str, wanted: Mapping[Key, Condition]) -> dict[Key, bool | Exception | None]:
        """For each condition on a frame of one row, whether it holds; None is NULL. What AND joins is asked once for all."""
        parts = {key: where.parts or ((where.sql, where.columns),) for key, where in wanted.items()}
        answers = self.truths(name, {sql: of_part(sql, columns) for of in parts.values() for sql, columns in of})
        return {key: _all([answers[sql] for sql, _ in of]) for key, of in parts.items()}

    def _one_row(self, name: str, row: Mapping[str, Any], questions: Sequence[Question]) -> list[bool | None]:
        """The answer to each question on a frame of one row; those given for the same figures before are not asked again."""
        types = self._types[name]
        figures = {column: (types[column], row.get(column, ...)) for column in _columns(questions, ())}
        keys = [(question.sql, *(figures[column] for column in question.columns)) for question in questions]
        new = {key: question for key, question in zip(keys, questions, strict=True) if key not in _ANSWERS}
        if len(_ANSWERS) + len(new) > _ANSWERS_MOST:
            _ANSWERS.clear()
            new = dict(zip(keys, questions, strict=True))
        if new:
            (answers,) = self._query_row(name, row, list(new.values()))
            _ANSWERS.update(zip(new, (None if answer is None else bool(answer) for answer in answers), strict=True))
        return [_ANSWERS[key] for key in keys]

    def evidence(self, name: str, rows: Bools, items: Sequence[Condition], cost: Ints | None = None) -> Evidence:
        """The *items* over some rows of the frame, grouped by those that do not aggregate; what weighs most first.

        *cost* is what the rows cost in ns, where that is not what the frame says.
        """
        names = [item.alias for item in items]
        weight = self.weight(name, rows)
        questions = [Question(item.sql, item.columns) for item in items]
        also = [weight] if weight else []
        also += ["linked"] if FRAMES[name].unlinked and any("op" in item.columns for item in items) else []
        columns = _columns(questions, also)
        frame = self.frame(name, columns, cost)
        chosen = frame.rows(rows, columns or frame.names[:1])
        if "op" in chosen and bool(frame["op"].notna().any()):
            chosen = chosen.with_columns({"op": _label_ops(name, chosen)})
        groups = ", ".join(str(place) for place, item in enumerate(items, 1) if not item.aggregate)
        order = [f'sum("{weight}") DESC'] if weight else []
        order += ["count(*) DESC", *([groups] if groups else [])]
        tail = (f"GROUP BY {groups} " if groups else "") + f"ORDER BY {', '.join(order)} LIMIT {EVIDENCE_ROWS}"
        answers = self._query(name, chosen, questions, also=also, tail=tail)
        return Evidence(columns=names, rows=[[cell(value) for value in row] for row in answers])

    def weigh(self, name: str, rows: Bools, weight: Condition, cost: Ints | None = None) -> float | None:
        """The mean of an expression over some rows, by what they cost; None where it is unknown, or they cost nothing.

        *cost* is what the rows cost in ns, where that is not what the frame says.
        """
        return self._mean(name, rows, Question(weight.sql, weight.columns), cost)

    def share(self, name: str, rows: Bools, where: Condition, cost: Ints | None = None) -> float:
        """The part of what some rows cost that is of those for which a condition is true; *cost* as in `weigh`."""
        true = Question(f"CASE WHEN {where.sql} THEN 1.0 ELSE 0.0 END", where.columns)
        return self._mean(name, rows, true, cost) or 0.0

    def _mean(self, name: str, rows: Bools, weight: Question, cost: Ints | None = None) -> float | None:
        mean = Question(f'sum("cost_ns" * ({weight.sql})) / nullif(sum("cost_ns"), 0)', weight.columns)
        columns = _columns([mean], ["cost_ns"])
        frame = self.frame(name, columns, cost)
        chosen = frame.rows(rows, [column for column in columns if column in frame])
        ((answer,),) = self._query(name, chosen, [mean], also=["cost_ns"])
        return None if answer is None else float(answer)

    def settings(self, questions: Sequence[Question]) -> list[tuple[dict[str, Any], list[Any]]]:
        """Each row of `settings` and, beside it, what the expressions over it and the one row of `trace` come to.

        Where there are settings; raises what DuckDB raises.
        """
        settings, trace = self.frame("settings"), self.frame("trace")
        if not len(settings):
            return []
        names = [name for name in _columns(questions, ()) if name not in settings]
        both = settings.with_columns({name: trace[name][np.zeros(len(settings), np.int64)] for name in names})
        return list(zip(settings.records(), map(list, self._query("settings", both, questions)), strict=True))

    def weight(self, name: str, rows: Bools) -> str | None:
        """The column that says how much a row matters: what it costs, else how long it is; None where neither is known."""
        frame = self.frame(name, ("cost_ns", "dur_ns"))
        for column in ("cost_ns", "dur_ns"):
            if column in self._types[name] and column in frame and bool((frame[column].to_numpy()[rows] > 0).any()):
                return column
        return None

    def _query(
        self,
        name: str,
        frame: Columns,
        questions: Sequence[Question],
        fetch: Callable[[duckdb.DuckDBPyConnection], Any] = duckdb.DuckDBPyConnection.fetchall,
        *,
        also: Sequence[str] = (),
        rows: Mapping[str, Bools | Series] | None = None,
        tail: str = "",
    ) -> Any:
        """Put all questions to the frame as columns c0, c1, ... of one query."""
        # Of a setting what `trace` says of its program is asked too.
        types = self._types["trace"] | self._types[name] if name == "settings" else self._types[name]
        columns = _columns(questions, also)
        if missing := [column for column in columns if column not in frame]:
            raise AdvisorError(f"frame '{name}' lacks {', '.join(missing)}")
        items = ", ".join(f"{question.sql} AS c{index}" for index, question in enumerate(questions))
        carried = columns or [next(column for column in types if column in frame)]
        if len(frame) * (len(carried) + len(rows or ())) <= _FEW:
            lists = {column: (types[column], frame[column].tolist()) for column in carried}
            lists |= {mask: ("BOOLEAN", holds.tolist()) for mask, holds in (rows or {}).items()}
            given = ", ".join(f'unnest(CAST(? AS {kind}[])) AS "{column}"' for column, (kind, _) in lists.items())
            return self._ask(
                f"SELECT {items} FROM (SELECT {given}) {tail}", fetch, [values for _, values in lists.values()]
            )
        casts, arrays, words = [], dict[str, Any](), list[tuple[str, ...]]()
        for column, values in frame.pick(carried).with_columns(rows or {}).items():
            arrays[column] = np.ascontiguousarray(values.values)
            source = f'"{column}"'
            if values.words is not None:
                source = f"list_extract(CAST(? AS VARCHAR[]), {source} + 1)"  # 0, of what is missing, is NULL
                words.append(values.words)
            elif values.missing is not None:  # DuckDB 1 does not look at the mask of a masked array
                arrays[f"no {column}"] = np.ascontiguousarray(values.missing)
                source = f'CASE WHEN "no {column}" THEN NULL ELSE {source} END'
            casts.append(f'CAST({source} AS {types.get(column, "BOOLEAN")}) AS "{column}"')
        self._connection.register("rows", arrays)
        try:
            return self._ask(f"SELECT {items} FROM (SELECT {', '.join(casts)} FROM rows) {tail}", fetch, words)
        finally:
            self._connection.unregister("rows")

    def _query_row(self, name: str, row: Mapping[str, Any], questions: Sequence[Question]) -> Any:
        """Put all questions to one row: its values go as parameters, for DuckDB takes longer to look at arrays."""
        types, columns = self._types[name], _columns(questions, ())
        if missing := [column for column in columns if column not in row]:
            raise AdvisorError(f"frame '{name}' lacks {', '.join(missing)}")
        items = ", ".join(f"{question.sql} AS c{index}" for index, question in enumerate(questions))
        casts = [f'CAST(? AS {types[column]}) AS "{column}"' for column in columns] or ["1"]
        query = f"SELECT {items} FROM (SELECT {', '.join(casts)})"
        return self._ask(query, duckdb.DuckDBPyConnection.fetchall, [row[column] for column in columns])

    def _ask(self, query: str, fetch: Callable[[duckdb.DuckDBPyConnection], Any], row: Sequence[Any] = ()) -> Any:
        """Run a query, with *row* for its parameters; one that takes too long is an error."""
        seconds = min(QUERY_SECONDS, self._left_s)
        if seconds <= 0:
            raise AdvisorError(f"the rules ran out of time after {TOTAL_SECONDS:g} s")
        # Of queries alone: the frames of a large trace take longer to build, and other threads work meanwhile.
        clock = processor_clock()
        begun = clock()
        try:
            with self._watch.limit(seconds):
                return fetch(self._connection.execute(query, row))
        except duckdb.InterruptException:
            raise AdvisorError(f"took longer than {seconds:.0f} s") from None
        finally:
            self._left_s -= clock() - begun


def of_part(sql: str, columns: tuple[str, ...]) -> Question:
    """Return what AND asks of one of its parts: whatever it is, as true or false."""
    return Question(f"CAST({sql} AS BOOLEAN)", columns)


def _all(answers: Sequence[bool | Exception | None]) -> bool | Exception | None:
    """Join answers as SQL's AND does: one that is false decides, then what could not be asked, then NULL."""
    if False in answers:
        return False
    failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
    return failed if failed is not None or None in answers else True


def _label_ops(name: str, chosen: Columns) -> Series:
    """Operators in words: where there is none, why there is none, as far as the frame knows."""
    op, frame = chosen["op"], FRAMES[name]
    if frame.unlinked:
        op = op.replaced(op.isna() & ~chosen["linked"].to_numpy(np.bool_), frame.unlinked)
    return op.replaced(op.isna(), frame.no_op) if frame.no_op else op


def _columns(questions: Sequence[Question], also: Sequence[str]) -> list[str]:
    """The columns that the questions read, and others, each once."""
    return list(dict.fromkeys([*(column for question in questions for column in question.columns), *also]))


def _answers(
    questions: Mapping[Key, Question], run: Callable[[Sequence[Question]], list[Answer]]
) -> dict[Key, Answer | Exception]:
    """The answers of all questions in one run; where that fails, of each in a run of its own, errors included."""

    def attempt(batch: Sequence[Question]) -> dict[Question, Answer | Exception]:
        try:
            return dict(zip(batch, run(batch), strict=True))
        except Exception as error:  # noqa: BLE001  (whatever goes wrong is the verdict of the rules that asked)
            if len(batch) == 1:
                return {batch[0]: error}
        return {question: answer for question in batch for answer in attempt([question]).values()}

    unique = list(dict.fromkeys(questions.values()))
    answers = attempt(unique) if unique else {}
    return {key: answers[question] for key, question in questions.items()}


def cell(value: Any) -> Cell:
    """A value as it stands in a report: six digits of a fraction, None for what is not a number."""
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)
    return float(f"{number:.{_DIGITS}g}") if np.isfinite(number) else None


def explain(error: Exception) -> str:
    """One line on an error, for a verdict."""
    if isinstance(error, duckdb.Error):
        return reason(error)
    text = " ".join(str(error).split())
    return text if isinstance(error, AdvisorError) else f"{type(error).__name__}: {text}".rstrip(": ")
