"""The store of a history: a folder of Parquet files, local or wherever fsspec reaches, which DuckDB writes and reads.

Each run that is added is a file of its own, written beside its place and moved there whole, under a name that nobody else has:
writers at the same time lose nothing, and one that is killed leaves what was there. Once many files of a size have come
together they are merged into a larger one, and removed only after that is in its place; a run that two files hold counts once,
so that a merge that was cut short, or two at the same time, lose nothing either.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from advisor import files
from advisor.errors import UsageError
from advisor.privacy import address, excerpt, is_url
from advisor.regex import regex

DEFAULT = "advisor-history"
NEEDS = "in a checkout of the advisor, pip install '.[history]'"
MERGED = 32
"""Files of one size that are merged into one of the next."""
_TRIES = 8
_NAME = regex(r"(\d)-(\d{13})-[0-9a-f]{16}\.parquet")
_COLUMNS = {
    "id": "VARCHAR",
    "moment": "BIGINT",
    "commit": "VARCHAR",
    "branch": "VARCHAR",
    "series": "VARCHAR",
    "advisor": "VARCHAR",
    "runs": "INTEGER",
    "steps": "INTEGER",
    "names": "VARCHAR[]",
    "figures": "DOUBLE[]",
    "baseline": "BLOB",
}


class Entry(NamedTuple):
    """One run to be added. ``at`` is in ms since 1970, ``figures`` go with ``names``; ``baseline`` is its file, packed."""

    at: int
    commit: str
    branch: str
    series: str
    advisor: str
    runs: int
    steps: int
    names: list[str]
    figures: list[float]
    baseline: bytes


class Runs(NamedTuple):
    """All runs of a store, in the order of their time: a row a run, and a column of ``figures`` for each of ``names``.

    A figure that a run does not have is NaN.
    """

    ids: list[str]
    at: npt.NDArray[np.int64]
    commits: list[str]
    branches: list[str]
    series: list[str]
    advisors: list[str]
    names: list[str]
    figures: npt.NDArray[np.float64]


class Store:
    """A folder of runs. Raises ``UsageError`` with the reason, wherever it cannot be read or written."""

    def __init__(self, folder: str) -> None:
        self.folder = folder.rstrip("/") or folder
        self._system: Any = None
        self._root = self.folder
        self._scheme = ""
        self._engine: Any = None
        if is_url(folder):
            self._connect()

    def __str__(self) -> str:
        return address(self.folder)

    def _connect(self) -> None:
        try:
            import fsspec
        except ImportError:
            raise UsageError(f"{self}: stores at URLs need fsspec, which is not installed: {NEEDS}") from None
        with self._refusing("cannot be reached"):
            self._system, self._root = fsspec.core.url_to_fs(self.folder)
        protocol = self._system.protocol
        self._scheme = f"{protocol if isinstance(protocol, str) else protocol[0]}://"

    @contextlib.contextmanager
    def _refusing(self, problem: str) -> Iterator[None]:
        """Turn whatever goes wrong with the files into a ``UsageError``, which quotes no credential."""
        try:
            yield
        except (UsageError, FileNotFoundError):
            raise
        except Exception as error:  # each protocol has exceptions of its own, and so has DuckDB
            text = excerpt(str(error).splitlines()[0] if str(error) else type(error).__name__, 300)
            raise UsageError(f"{self}: {problem}: {text}") from error

    # ---- files

    def exists(self) -> bool:
        """Tell whether the store has any run."""
        return bool(self._list())

    def _list(self) -> list[str]:
        """Return the names of the files, in an order that does not change."""
        with self._refusing("cannot be listed"):
            try:
                if self._system is None:
                    found = os.listdir(self._root)
                else:
                    self._system.invalidate_cache()
                    found = [path.rsplit("/", 1)[-1] for path in self._system.ls(self._root, detail=False)]
            except FileNotFoundError:
                return []
        return sorted(name for name in found if _NAME.fullmatch(name))

    def _path(self, name: str) -> str:
        return f"{self._scheme}{self._root}/{name}" if self._system is not None else os.path.join(self._root, name)

    def _put(self, name: str, content: bytes) -> None:
        with self._refusing("cannot be written"):
            if self._system is None:
                os.makedirs(self._root, exist_ok=True)
                files.write(os.path.join(self._root, name), content)
            else:
                self._system.pipe_file(f"{self._root}/{name}", content)  # an object store has it whole, or not at all

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError), self._refusing("cannot be tidied up"):
                if self._system is None:
                    os.unlink(os.path.join(self._root, name))
                else:
                    self._system.rm_file(f"{self._root}/{name}")

    @contextlib.contextmanager
    def _database(self) -> Iterator[Any]:
        """Connect to an empty database, of which the store has one: to start one takes longer than most queries."""
        if self._engine is None:
            import duckdb

            self._engine = duckdb.connect(config={"threads": 2})
            if self._system is not None:
                self._engine.register_filesystem(self._system)
        with self._engine.cursor() as connection:  # temporary tables are the connection's own
            connection.execute("SET enable_progress_bar = false")  # as in advisor.rulebook.conditions
            yield connection

    # ---- writing

    def add(self, entry: Entry) -> str:
        """Add a run, and return its id."""
        number = secrets.token_hex(8)
        declared = ", ".join(f'"{name}" {kind}' for name, kind in _COLUMNS.items())
        with self._database() as connection:
            connection.execute(f"CREATE TEMP TABLE added ({declared})")
            connection.execute(f"INSERT INTO added VALUES ({', '.join('?' * len(_COLUMNS))})", [number, *entry])
            content = _parquet(connection, "SELECT * FROM added")
        self._put(_name(0), content)
        self._merge()
        return number

    def _merge(self) -> None:
        """Merge files of one size, wherever enough of them have come together; to fail at it does no harm."""
        for size in range(9):
            names = [name for name in self._list() if int(name[0]) == size]
            if len(names) < MERGED:
                return
            try:
                with self._database() as connection:
                    content = _parquet(connection, f"SELECT * {_DISTINCT}", [[self._path(name) for name in names]])
            except Exception:  # noqa: BLE001  (another writer merges them at this moment, or one of them is damaged: reading says so)
                return
            self._put(_name(size + 1), content)
            self._remove(names)

    # ---- reading

    def runs(self) -> Runs:
        """Read all runs, without their baselines. Raises ``UsageError`` where there is none."""
        runs: Runs = self._read(_matrix)
        return runs

    def baselines(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the packed baselines of some runs by their ids."""
        found: dict[str, bytes] = self._read(lambda connection, paths: dict(connection.execute(
            "SELECT id, any_value(baseline) FROM read_parquet(?) WHERE list_contains(?, id) GROUP BY id", [paths, list(ids)]
        ).fetchall()))  # fmt: skip
        return found

    def _read(self, query: Callable[[Any, list[str]], Any]) -> Any:
        """Ask all files; once more where a merge took one away meanwhile, whose runs are in another now."""
        for left in reversed(range(_TRIES)):
            names = self._list()
            if not names:
                raise UsageError(f"{self}: holds no runs. Add one: advisor history add TRACE --commit … --branch …")
            try:
                with self._refusing("cannot be read"), self._database() as connection:
                    return query(connection, [self._path(name) for name in names])
            except (UsageError, FileNotFoundError):
                if not left or set(names) <= set(self._list()):
                    raise
        return None


_DISTINCT = "FROM read_parquet(?) QUALIFY row_number() OVER (PARTITION BY id) = 1"
_LEADING = ("id", "moment", "commit", "branch", "series", "advisor")


def _matrix(connection: Any, paths: list[str]) -> Runs:
    """Read runs into columns, their figures into a matrix."""
    leading = ", ".join(f'"{name}"' for name in _LEADING)
    connection.execute(f"CREATE TEMP TABLE runs AS SELECT {leading}, names, figures FROM read_parquet(?)", [paths])
    columns = connection.execute(f"SELECT rowid AS row, {leading} FROM runs ORDER BY rowid").fetchnumpy()
    ids = np.asarray(columns["id"], str)
    moments = np.asarray(columns["moment"], np.int64)
    # Most runs have the same figures: those of one list of names are one block of the matrix.
    lists = [tuple(names) for (names,) in connection.execute("SELECT DISTINCT names FROM runs").fetchall()]
    names = sorted({name for listed in lists for name in listed})
    place = {name: index for index, name in enumerate(names)}
    figures = np.full((len(ids), len(names)), np.nan)
    for listed in lists:
        alike = "FROM runs WHERE names = ? AND len(figures) = len(names) ORDER BY rowid"
        rows = connection.execute(f"SELECT rowid AS row {alike}", [list(listed)]).fetchnumpy()["row"]
        values = connection.execute(f"SELECT unnest(figures) AS f FROM (SELECT figures {alike})", [list(listed)])
        block = np.ma.filled(values.fetchnumpy()["f"], np.nan).reshape(len(rows), len(listed))
        figures[np.ix_(np.asarray(rows), np.array([place[name] for name in listed], np.int64))] = block
    # A run that two files hold counts once.
    first = np.unique(ids, return_index=True)[1]
    order = first[np.argsort(moments[first], kind="stable")]
    texts = {name: np.asarray(columns[name], object)[order].tolist() for name in _LEADING if name != "moment"}
    return Runs(
        texts["id"], moments[order], texts["commit"], texts["branch"], texts["series"], texts["advisor"], names,
        figures[order],
    )  # fmt: skip


def _parquet(connection: Any, query: str, values: Sequence[object] = ()) -> bytes:
    """Return the answer to a query as a Parquet file."""
    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        path = Path(folder) / "rows.parquet"
        connection.execute(f"CREATE TEMP TABLE rows AS {query}", list(values))
        connection.execute(
            f"COPY rows TO '{str(path).replace(chr(39), chr(39) * 2)}' (FORMAT parquet, COMPRESSION zstd)"
        )
        return path.read_bytes()


def _name(size: int) -> str:
    """Return a file's name that no other has: its size class, when it was made, and chance."""
    return f"{size}-{time.time_ns() // 1_000_000:013d}-{secrets.token_hex(8)}.parquet"
