"""Categories of events of accelerators that are neither CUDA's nor ROCm's, and of which accelerator they are.

Kineto calls what a device does ``kernel``, ``gpu_memcpy`` and ``gpu_memset`` on most of them, and the calls of the host by the
maker's word: ``xpu_runtime``, ``privateuse1_driver``. MTIA and HPU have a category of the device's own, and the forks of Kineto
that other makers ship put their word before all of these (``mlu_memcpy``, ``gcu_runtime``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from advisor.intervals import distinct
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.reading.columns import Array, Table

# The group of categories that hold work of a device; those of HPU hold calls of the host as well.
MIXED = "accelerator"

_CATEGORY = regex(
    r"^(?!(?:cpu|user|python)_)(?P<maker>[a-z][a-z0-9]*)_"
    r"(?P<kind>runtime|driver|(?<=^hpu_)op|ccp_events|concurrent_kernel|kernel|memcpy|memset|sync|user_annotation)$"
)
_GROUPS = {
    "runtime": "runtime",
    "driver": "runtime",
    "op": MIXED,
    "ccp_events": MIXED,
    "concurrent_kernel": "kernel",
    "kernel": "kernel",
    "memcpy": "copy",
    "memset": "memset",
    "sync": "device_sync",
    "user_annotation": "gpu_annotation",
}
# Words that name no maker: CUDA's and ROCm's, and what Kineto says of every device.
_COMMON = frozenset({"gpu", "cuda", "hip", "roc"})
# The word for a backend that is no part of PyTorch: which one it is, the process group may say.
ANY = "PrivateUse1"
_SPELLING = {"privateuse1": ANY, "glow": "Glow"}
_COPY = regex(r"dma|mem_?cpy|memory_?copy", re.IGNORECASE)
_MEMSET = regex(r"mem_?set", re.IGNORECASE)
_HOSTS = ("op", "annotation", "python")


def group_of(category: str) -> str | None:
    """The group of columns that events of a lower-case category go to, where its words say so."""
    match = _CATEGORY.match(category)
    return _GROUPS[match["kind"]] if match else None


def name_of(category: str) -> str | None:
    """The accelerator that a lower-case category speaks of; None for CUDA, ROCm and what every device has."""
    match = _CATEGORY.match(category)
    if not match or match["maker"] in _COMMON:
        return None
    return _SPELLING.get(match["maker"], match["maker"].upper())


def from_backend(backend: str | None) -> str | None:
    """The accelerator that the backends of a process group name, as in ``mtia:hccl,cpu:gloo``."""
    words = [part.partition(":")[0].strip() for part in (backend or "").split(",") if ":" in part]
    known = [word for word in words if word.isalnum() and word not in ("cpu", "cuda", "hip", "meta", "undefined")]
    return _SPELLING.get(known[0], known[0].upper()) if known else None


def divide(tables: dict[str, Table], names: list[str]) -> None:
    """Divide the events of mixed categories, in place: calls of host threads are calls, what moves memory is a copy.

    The rest is kernels.
    """
    mixed = tables.pop(MIXED, None)
    if mixed is None:
        return
    threads = [tables[group]["thread"] for group in _HOSTS if group in tables]
    host = (
        np.isin(mixed["thread"], distinct(np.concatenate(threads))) if threads else np.zeros(len(mixed["ts"]), np.bool_)
    )
    copy, fill = (
        np.array([pattern.search(name) is not None for name in names], np.bool_) for pattern in (_COPY, _MEMSET)
    )
    is_copy = ~host & copy[mixed["name"]]
    is_fill = ~host & ~is_copy & fill[mixed["name"]]
    unknown = np.full(len(mixed["ts"]), -1, np.int64)
    for group, rows in (
        ("runtime", host),
        ("copy", is_copy),
        ("memset", is_fill),
        ("kernel", ~host & ~is_copy & ~is_fill),
    ):
        if rows.any():
            _append(tables, group, {key: column[rows] for key, column in (mixed | {"bytes": unknown}).items()})


_RUNTIME = ("name", "thread", "ts", "dur", "correlation")
_COPIES = (*_RUNTIME, "device", "stream", "bytes")


def _append(tables: dict[str, Table], group: str, rows: Table) -> None:
    wanted = {"runtime": _RUNTIME, "copy": _COPIES, "memset": _COPIES}.get(group) or tuple(
        key for key in rows if key != "bytes"
    )
    there = tables.get(group)
    more: dict[str, Array] = {key: rows[key] for key in wanted}
    if there is None:
        tables[group] = more
        return
    # Calls or copies of another maker beside them may have columns that these lack.
    unknown = np.full(len(rows["ts"]), -1, np.int64)
    tables[group] = {
        key: np.concatenate([there[key], more.get(key, unknown).astype(there[key].dtype)]) for key in there
    }
