"""`collectives`: one row per communication kernel."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from advisor.frames.kernels import exposed
from advisor.frames.schema import COMMON, Schema, integer, text
from advisor.frames.study import Study

SCHEMA = Schema(
    "collectives",
    "a communication kernel",
    (
        *COMMON,
        text("name", "the kernel's name", "name"),
        text(
            "kind",
            "all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, send, recv, reduce, barrier or other",
        ),
        integer("bytes", "bytes", "size of the message sent in; NULL where unknown", "args.In msg nelems, dtype"),
        text("dtype", "number format of the message", "args.dtype"),
        text("group_name", "process group", "args.Process Group Name"),
        integer("group_size", "", "its ranks; NULL where unknown", "args.Group size"),
        integer("exposed_ns", "ns", "what no other kernel hides"),
    ),
)
_KINDS = (
    ("all_reduce", re.compile(r"all_?reduce|cross_device_reduce|multimem_all_reduce", re.IGNORECASE)),
    ("all_gather", re.compile(r"all_?gather", re.IGNORECASE)),
    ("reduce_scatter", re.compile(r"reduce_?scatter", re.IGNORECASE)),
    ("broadcast", re.compile(r"broadcast", re.IGNORECASE)),
    ("all_to_all", re.compile(r"all_?to_?all", re.IGNORECASE)),
    ("send", re.compile(r"send_?recv|\bsend", re.IGNORECASE)),
    ("recv", re.compile(r"\brecv", re.IGNORECASE)),
    ("barrier", re.compile(r"barrier", re.IGNORECASE)),
    ("reduce", re.compile(r"reduce", re.IGNORECASE)),
)
_SIZES = {
    "float": 4,
    "int": 4,
    "double": 8,
    "long": 8,
    "half": 2,
    "bfloat16": 2,
    "byte": 1,
    "char": 1,
    "bool": 1,
    "short": 2,
}


def kind(*texts: str) -> int:
    """Code of the kind of collective that the first telling text names."""
    for told in texts:
        for code, (_, pattern) in enumerate(_KINDS):
            if pattern.search(told):
                return code
    return len(_KINDS)


def build(study: Study) -> pd.DataFrame:
    """The frame."""
    work = study.recording.work
    rows = np.flatnonzero(work.communication)
    launch = work.launch[rows]
    texts = study.recording.recorded.texts
    called = study.op_column(launch, "collective")
    dtype = study.op_column(launch, "comm_dtype")
    elements = study.op_column(launch, "in_elements")
    sizes = np.array([_size(text) for text in texts], np.int64) if texts else np.zeros(1, np.int64)
    width = np.where(dtype >= 0, sizes[np.maximum(dtype, 0)], 0)
    # ncclKernel_SendRecv carries all-to-all too: what the operator says goes before the kernel's name.
    host = study.recording.host
    inside = np.where(launch >= 0, host.attributes.op[np.maximum(launch, 0)], -1) if host.size else launch
    ops = np.where(inside >= 0, host.name[np.maximum(inside, 0)], -1) if host.size else launch
    kinds = [
        kind(texts[code] if code >= 0 else "", study.names[op] if op >= 0 else "", study.names[name])
        for code, op, name in zip(called.tolist(), ops.tolist(), work.name[rows].tolist(), strict=True)
    ]
    frame = study.common_of_work(rows)
    frame |= {
        "name": study.labels(work.name[rows], study.names),
        "kind": study.labels(np.array(kinds, np.int64), [name for name, _ in _KINDS] + ["other"]),
        "bytes": study.known(np.where((elements >= 0) & (width > 0), elements * width, -1)),
        "dtype": study.labels(dtype, texts),
        "group_name": study.labels(study.op_column(launch, "group_name"), texts),
        "group_size": study.known(study.op_column(launch, "group_size")),
        "exposed_ns": exposed(study, rows),
    }
    return pd.DataFrame(frame)


def _size(dtype: str) -> int:
    return _SIZES.get(dtype.lower().removeprefix("c10::"), 0)
