"""Traces with a file beside: replays of graphs with their capture, compiled code with Inductor's provenance; either damaged,
or the file of another format or program.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import advisor
from advisor.errors import TraceError
from advisor.testing import TraceBuilder
from fuzz import checks, documents
from fuzz.inputs import edited, encode
from fuzz.kinds import nsys, pftrace, rocprof, snapshot, trace
from fuzz.seeds import Root
from fuzz.structure import damaged
from fuzz.world import Files, World

BESIDE, PROVENANCE = "capture.json", "provenance.log"
_COMPILED = 0.3
_LAYER = (
    ("aten::addmm", "sgemm_128x64_nn"),
    ("aten::bmm", "sgemm_64x64_nt"),
    ("aten::gelu", "gelu_elementwise_kernel"),
)
_OTHER = 0.2
_HOSTILE = 0.7
"""The share of the captures that are damaged; of the replays, those of the other inputs, and some besides."""


def make(rng: Random, world: World) -> tuple[str, Files]:
    """A trace with replays, and beside it the start of the program; one of the two, or both, with damage."""
    layers = rng.choice([2, 5, 40])
    if rng.random() < _COMPILED:
        return _compiled(rng, layers)
    replay, beside, said = encode(_replay(layers), rng), encode(_start(layers), rng), "replay"
    if rng.random() < _OTHER:
        other = rng.choice([trace, pftrace, nsys, rocprof, snapshot])
        what, files = other.make(rng, world)
        return f"beside another file, {what}", {trace.NAME: replay, BESIDE: files[trace.NAME]}
    if rng.random() < _HOSTILE:
        beside, said = _changed(rng, _start(layers), world), "capture"
    if said == "replay" or rng.random() < _OTHER:
        replay = _changed(rng, _replay(layers), world)
    return said, {trace.NAME: replay, BESIDE: beside}


def tried(folder: Path, _rng: Random, world: World) -> str:
    """Analyze the replays with the capture beside them; an error names the file that it is of."""
    path, beside, provenance = (folder / name for name in (trace.NAME, BESIDE, PROVENANCE))
    try:
        if provenance.exists():
            beside = provenance
            read = advisor.read(str(path), provenance=str(provenance))
        else:
            read = advisor.read(str(path), capture=str(beside))
    except TraceError as error:
        checks.refusal(str(error), beside if str(error).startswith(f"{beside}: ") else path)
        return "refused"
    checks.accounts(read)
    checks.reports(checks.analyzed(read, world.book))
    return "analyzed"


def _changed(rng: Random, root: Root, world: World) -> bytes:
    """The trace, damaged in what it says or as bytes."""
    if rng.random() < _HOSTILE:
        return encode(damaged(rng, root, rng.choice(world.seeds)[1]), rng)
    return edited(rng, encode(root, rng))


def _compiled(rng: Random, layers: int) -> tuple[str, Files]:
    """A trace with compiled code, and what Inductor logged of it, with damage."""
    b, known = TraceBuilder(), {}
    for layer in range(layers):
        with b.step(), b.annotation("## Call CompiledFxGraph x ##"):
            for op, _ in _LAYER:
                name = f"triton_poi_fused_{op.removeprefix('aten::')}_{layer % 3}"
                place = f'  File "/home/{documents.SECRETS[0]}/model.py", line {layer}, in forward\n    x\n'
                known[f"{name}:{len(known)}"] = [place] * rng.choice([0, 1, 2])
                with b.op(name):
                    b.kernel(name, us=5)
    value = documents.damaged(rng, known, [[], "x", {"stack_traces": ["x"]}, 1 << 70]) if rng.random() < 0.7 else known
    head = 'V1 x] {"artifact": {"name": "inductor_provenance_tracking_kernel_stack_traces"}}\n\t'
    data = (rng.choice(["", head]) + json.dumps(value) + "\n").encode()
    data = edited(rng, data) if rng.random() < 0.5 else data
    return "provenance", {trace.NAME: encode(_root(b), rng), PROVENANCE: data}


def _start(layers: int) -> Root:
    b = TraceBuilder()
    for layer in range(layers):
        with b.python(f"model.py({40 + layer}): forward"), b.module(f"Block_{layer}"):
            for op, kernel in _LAYER:
                with b.op(op):
                    b.kernel(kernel, us=5)
    return _root(b)


def _replay(layers: int) -> Root:
    b = TraceBuilder()
    for _ in range(3):
        with b.step(), b.python("serve.py(9): step"):
            b.graph([(kernel, 10) for _ in range(layers) for _, kernel in _LAYER])
    return _root(b)


def _root(b: TraceBuilder) -> Root:
    root: Root = json.loads(b.to_json())
    return root
