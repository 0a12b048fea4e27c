"""Exports of Nsight Systems: rows of other kinds, tables that are none, and databases damaged as bytes."""

from __future__ import annotations

import sqlite3
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from fuzz import documents
from fuzz.builders import nsys, served
from fuzz.inputs import edited, packed
from fuzz.kinds import trace
from fuzz.world import Files, World

_VALUES: list[Any] = [
    *[None, 0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 61, 1.5, "", "x" * 20_000, b"\xff\x00", "7", *documents.SECRETS],
]
_TABLES = {
    "StringIds": ("id", "value"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start",
        "end",
        "deviceId",
        "streamId",
        "correlationId",
        "demangledName",
        "gridX",
        "registersPerThread",
        "graphNodeId",
        "globalPid",
    ),
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": ("start", "end", "deviceId", "correlationId", "globalPid", "graphId"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "deviceId", "bytes", "copyKind", "srcKind"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "bytes", "memKind"),
    "NVTX_EVENTS": ("start", "end", "eventType", "text", "textId", "globalTid"),
    "TARGET_INFO_GPU": ("id", "name", "totalMemory", "smCount", "computeMajor"),
}
_SCHEMAS = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO away",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "CREATE TABLE away AS SELECT * FROM {table}",
    "CREATE VIEW TARGET_INFO_CUDA_DEVICE AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i AS gpuId FROM n",
    "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT AS (length(zeroblob(500000000))))",
    "CREATE INDEX some ON {table} ({column})",
)


@cache
def _sound(graphs: bool) -> bytes:
    """A program of one process, or (*graphs*) two ranks of an engine that replays graphs."""
    with tempfile.TemporaryDirectory(prefix="fuzz-nsys-") as folder:
        path = Path(folder) / "x"
        return (served(path, nodes=False, ranks=2, batches=6) if graphs else nsys(path)).read_bytes()


def make(rng: Random, _world: World) -> tuple[str, Files]:
    """A sound export with damage to its rows, its schema or its bytes."""
    data, damage = _sound(rng.random() < 0.3), "bytes"
    if rng.random() < 0.6:
        data, damage = _changed(rng, data), "rows"
    if damage == "bytes" or rng.random() < 0.2:
        data = data[:100] + edited(rng, data[100:]) if rng.random() < 0.8 else edited(rng, data)
    data, damage = packed(rng, data, damage)
    return damage, {trace.NAME: data}


def _changed(rng: Random, data: bytes) -> bytes:
    """The database after some statements; those that SQLite refuses change nothing."""
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    for _ in range(rng.choice([1, 3, 10])):
        table = rng.choice(list(_TABLES))
        column = rng.choice(_TABLES[table])
        try:
            if rng.random() < 0.2:
                database.execute(rng.choice(_SCHEMAS).format(table=table, column=column))
            else:
                where = rng.choice(["", " WHERE rowid = 3", " WHERE rowid % 3 = 1"])
                database.execute(f'UPDATE OR IGNORE {table} SET "{column}" = ?{where}', (rng.choice(_VALUES),))
        except sqlite3.Error:
            continue
    database.commit()
    out = database.serialize()
    database.close()
    return out


tried = trace.tried
