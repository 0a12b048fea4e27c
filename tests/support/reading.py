"""Files of events: written, read, and taken apart for comparison."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import advisor.trace
from advisor.reading import containers, stream

# Columns that hold codes, and the table of Recorded that they are codes into.
CODED = {
    "name": "names",
    "stack": "stacks",
    "python_before": "stacks",
    "written_before": "stacks",
    "dims": "raws",
    "types": "raws",
    "strides": "inputs",
    "concrete": "inputs",
    "grid": "raws",
    "block": "raws",
    "collective": "texts",
    "comm_dtype": "texts",
    "group_name": "texts",
}


def read(
    text: bytes | str, *, chunk: int | None = None, block: int | None = None, name: str = "t.json"
) -> stream.Recorded:
    """Read a file that holds *text*, in chunks and blocks of these sizes."""
    sizes = [(stream, "CHUNK", chunk), (containers, "BLOCK", block)]
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        patches = [patch.object(module, key, size) for module, key, size in sizes if size is not None]
        for replacement in patches:
            replacement.start()
        try:
            return stream.read(str(path))
        finally:
            for replacement in patches:
                replacement.stop()


def trace_of(text: bytes | str, name: str = "t.json") -> advisor.trace.Trace:
    """The trace in a file that holds *text*."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return advisor.trace.read(str(path))


def contents(recorded: stream.Recorded) -> dict[str, list[dict[str, Any]]]:
    """Every group's rows in order, codes resolved: what two readings of the same events must share."""
    out = {}
    for group, table in recorded.tables.items():
        columns = {}
        for key, values in table.items():
            lookup = getattr(recorded, CODED[key]) if key in CODED else None
            columns[key] = [lookup[code] for code in values.tolist()] if lookup else [str(v) for v in values.tolist()]
        out[group] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return out


def rows(recorded: stream.Recorded) -> Counter[tuple[str, str]]:
    """The same as a bag, to ask what is missing."""
    return Counter((group, repr(row)) for group, table in contents(recorded).items() for row in table)


def event(name: str = "aten::add", cat: str = "cpu_op", **fields: Any) -> dict[str, Any]:
    """A complete event of 2 us at 10 us."""
    base = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 7, "ts": 10, "dur": 2, "args": {}}
    return {**base, **fields}


def mixture(count: int) -> list[dict[str, Any]]:
    """Events of every kind, each with fields that its columns keep, and args that look like events."""
    out: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}
    ]
    for index in range(count):
        op = {"Sequence number": index, "Input Dims": [[index], []], "Input type": ["float", ""]}
        ts, args = 100 + 10 * index + 0.125, {"External id": index, "correlation": index}
        gpu = {**args, "device": 0, "stream": 7 + index % 2}
        decoys = [{"x": 1}, {"name": "decoy", "ts": 3}, {"ph": "X", "name": "decoy"}, {"args": {}}]
        quoted = f'a/b.py({index}): f"}},{{"ph":"X","name":"decoy"}}, {{"name": <é> \\ \u2028'
        out += [
            event(f"op{index}", ts=ts, dur=9.5, args=op),
            event(quoted, "python_function", ts=ts + 1, dur=4.001, args={"Python id": index, "decoys": decoys}),
            event("cudaLaunchKernel", "cuda_runtime", ts=ts + 2, dur=1.25, args={**args, "decoys": decoys}),
            {"args": {**gpu, "grid": [index, 1, 1], "block": [32, 1, 1]}, "dur": 3, "ts": ts + 3, "tid": 7, "pid": 0}
            | {"name": f"kernel{index}", "cat": "kernel", "ph": "X"},
            event("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy", ts=ts + 5, dur=0.5, args={**gpu, "bytes": str(index)}),
            {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 7, "ts": ts}
            | {"args": {"Addr": 2**63 + index, "Bytes": 512, "Device Id": 0, "Device Type": 1, "Total Allocated": 512 * index}},
            {"ph": "s", "id": index, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 7, "ts": ts},
        ]  # fmt: skip
    return out


LAYOUTS: dict[str, dict[str, Any]] = {
    "one line": {},
    "compact": {"separators": (",", ":")},
    "pretty": {"indent": 2},
    "tabs": {"indent": "\t"},
    "plain unicode": {"ensure_ascii": False},
    "sorted keys": {"sort_keys": True},
}


def dump(events: list[dict[str, Any]], layout: str = "one line", **root: Any) -> str:
    """A trace file with *events* in the middle of the root object."""
    keys = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "A100", "numSms": 108}, {"id": 1, "name": "A100"}],
    }
    return json.dumps({**keys, **root, "traceEvents": events, "traceName": "t.json"}, **LAYOUTS[layout])
