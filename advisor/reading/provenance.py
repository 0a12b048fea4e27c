"""Inductor's provenance: the lines of the program that each call of generated code computes, joined with a recording.

With ``INDUCTOR_PROVENANCE=1``, Inductor writes for each graph the stacks of what it put into each kernel, as JSON: by the name
of the kernel and a number that counts calls, ``{"triton_poi_fused_gelu_1:3": ["  File …, line 8, in forward…"]}``. It is in the log
of ``TORCH_TRACE=DIR`` (inductor_provenance_tracking_kernel_stack_traces), in a file of that name where tlparse took it apart, and
in kernel_information.json of AOTInductor. Source: torch/_inductor/debug.py, compile_fx.py.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from advisor.errors import TraceError
from advisor.privacy import clean_path
from advisor.reading.containers import Source
from advisor.reading.tracebacks import frames
from advisor.regex import regex

if TYPE_CHECKING:
    from advisor.reading.stream import Recorded

MOST_BYTES = 256 << 20
_MOST_CALLS, _MOST_STACKS = 1_000_000, 200
_ARTIFACT = "inductor_provenance_tracking_kernel_stack_traces"
_CALL = regex(r"(.{1,1000}):(\d{1,9})", re.DOTALL)
_EXTERN = regex(r"(?:extern_kernels|aten)\.(\w+)|torch\.ops\.(\w+)\.(\w+)(?:\.\w+)?")
# Kernels of C++ have the number of their graph in front, where cpp.enable_kernel_profile records them.
_OF_GRAPH = regex(r"^graph_\d+_")
_REGIONS = ("## Call CompiledFxGraph", "Torch-Compiled Region")
_FRAME = regex(r"(.*)\((\d+)\): .*", re.DOTALL)

Call = tuple[str, str]
"""The stack that most of a kernel's operators have, innermost first; and the lines of all of them."""
Graph = dict[str, list[Call]]
"""The calls of each kernel of a graph, in their order."""


def attach(recorded: Recorded, path: str) -> Recorded:
    """The recording, in which calls of generated code have the lines that the provenance at *path* tells. Raises TraceError.

    The same name may stand for several calls, and be in several graphs: what is not sure stays unknown, and is counted.
    """
    graphs = _read(path)
    table = recorded.tables.get("op")
    if table is None:
        return replace(recorded, notes=[*recorded.notes, ("provenance", "the recording has no operators")])
    known: dict[str, list[list[Call]]] = {}
    for graph in graphs:
        for name, calls in graph.items():
            known.setdefault(name, []).append(calls)
    codes = [code for code, name in enumerate(recorded.names) if _OF_GRAPH.sub("", name) in known]
    rows = np.flatnonzero(np.isin(table["name"], codes))
    rows = rows[np.lexsort((table["ts"][rows], table["thread"][rows]))]
    inside = _regions(recorded, rows)
    groups: dict[tuple[int, str], list[int]] = {}
    for row, region in zip(rows.tolist(), inside, strict=True):
        name = _OF_GRAPH.sub("", recorded.names[table["name"][row]])
        if region >= 0 or not name.startswith("aten::"):  # operators outside of compiled code are none of its calls
            groups.setdefault((region, name), []).append(row)
    stacks, texts = _Codes(recorded.stacks), _Codes(recorded.texts)
    stack, generated = table["stack"].astype(np.int64), table["generated"].astype(np.int64)
    found = 0
    for (_, name), members in groups.items():
        for row, call in zip(members, _calls(known[name], len(members)), strict=True):
            if call is None:
                continue
            file = recorded.texts[generated[row]] if generated[row] >= 0 else ""
            first, _, chosen = file.partition("\n")
            stack[row], generated[row] = stacks[call[0]], texts[f"{first}\n{chosen}\n{call[1]}"]
            found += 1
    count = sum(map(len, groups.values()))
    table = table | {"stack": stack, "generated": generated}
    note = f"{found:,} of {count:,} calls of generated code have their lines from Inductor's provenance"
    return replace(
        recorded,
        tables=recorded.tables | {"op": table},
        stacks=stacks.texts,
        texts=texts.texts,
        notes=[*recorded.notes, ("provenance", note)],
    )


class _Codes(dict[str, int]):
    """Codes of texts, of which the first are known.

    Each of those keeps its code, also where the reader cut two that differ to the same text.
    """

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts.copy()
        super().__init__(zip(texts, range(len(texts)), strict=True))

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self.texts)
        self.texts.append(text)
        return code


def _calls(graphs: list[list[Call]], count: int) -> list[Call | None]:
    """The call that each of *count* calls of a name in one run of a graph is; None where it may be one of several."""
    if len({call for calls in graphs for call in calls}) == 1:
        return [graphs[0][0]] * count
    fits = [calls for calls in graphs if len(calls) == count]
    if not fits:
        return [None] * count
    return [each[0] if len(set(each)) == 1 else None for each in zip(*fits, strict=True)]


def _regions(recorded: Recorded, rows: Any) -> list[int]:
    """The run of a compiled graph that each row of operators lies in; -1 outside."""
    table, inside = recorded.tables["op"], np.full(len(rows), -1, np.int64)
    for begin in _REGIONS:
        codes = [code for code, name in enumerate(recorded.names) if name.startswith(begin)]
        spans = [
            np.stack([other[key][np.isin(other["name"], codes)].astype(np.int64) for key in ("ts", "dur", "thread")])
            for name, other in recorded.tables.items()
            if name in ("op", "annotation")
        ]
        start, dur, thread = np.concatenate(spans, axis=1)
        order = np.argsort(start, kind="stable")
        for one in np.unique(thread).tolist():
            mine = order[thread[order] == one]
            open_ = np.flatnonzero((inside < 0) & (table["thread"][rows] == one))
            time = table["ts"][rows[open_]]
            at = np.searchsorted(start[mine], time, side="right") - 1
            hit = (at >= 0) & (time < (start + dur)[mine[np.maximum(at, 0)]])
            inside[open_[hit]] = mine[at[hit]]
        if (inside >= 0).any():
            break  # the outer regions hold what no graph of these does
    return inside.tolist()


def _read(path: str) -> list[Graph]:
    """The graphs of a file. Raises TraceError for one that holds no stacks."""
    source = Source(path)
    data = bytearray()
    for block in source.blocks():
        data += block
        if len(data) > MOST_BYTES:
            raise TraceError(f"{source.path}: more than {MOST_BYTES >> 20} MB, the limit for Inductor's provenance.")
    graphs = [graph for text in _payloads(data.decode("utf-8", "replace")) if (graph := _graph(text))]
    if not graphs:
        raise TraceError(
            f"{source.path}: holds no stacks of Inductor's kernels. Run the program with INDUCTOR_PROVENANCE=1 TORCH_TRACE=DIR, "
            "and give the log in DIR."
        )
    return graphs


def _payloads(text: str) -> Iterator[str]:
    """JSON of graphs: the whole text, or what the log has behind the lines that name it."""
    if text.lstrip()[:1] == "{":
        yield text
        return
    lines = iter(text.split("\n"))
    for line in lines:
        while f'"{_ARTIFACT}"' in line:
            payload = []
            for line in lines:
                if not line.startswith("\t"):
                    break
                payload.append(line[1:])
            else:
                line = ""
            yield "\n".join(payload)


def _graph(text: str) -> Graph:
    """The calls in one payload; nothing where it is something else, or damaged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    numbered: dict[str, list[tuple[int, Call]]] = {}
    for key, entry in list(value.items())[:_MOST_CALLS] if isinstance(value, dict) else ():
        stacks = entry.get("stack_traces") if isinstance(entry, dict) else entry
        match, call = _CALL.fullmatch(key), _call(stacks if isinstance(stacks, list) else [])
        if match is not None and call is not None:
            numbered.setdefault(_called(match[1]), []).append((int(match[2]), call))
    return {name: [call for _, call in sorted(calls)] for name, calls in numbered.items()}


def _called(kernel: str) -> str:
    """The name that a profiler gives a kernel's call: an operator's of one that Inductor did not generate."""
    match = _EXTERN.fullmatch(kernel)
    return kernel if match is None else f"aten::{match[1]}" if match[1] else f"{match[2]}::{match[3]}"


def _call(stacks: list[Any]) -> Call | None:
    """The stack that comes most often, and the lines of all; None where none is one."""
    texts = Counter(found for stack in stacks[:_MOST_STACKS] if isinstance(stack, str) and (found := frames(stack)))
    if not texts:
        return None
    places = {match.groups() for text in texts if (match := _FRAME.fullmatch(text.split(";")[0]))}
    lines = [f"{clean_path(file)}:{line}" for file, line in sorted(places, key=lambda place: (place[0], int(place[1])))]
    return min(texts, key=lambda text: (-texts[text], text)), ", ".join(dict.fromkeys(lines))
