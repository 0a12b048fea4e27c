"""Gradients of large embeddings: sparse where the optimizer takes them with the same result."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place, set_to, value_of
from advisor.fix.code import calls_in, class_around, only_optimizer, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Source
from advisor.regex import regex

_NAMES = (
    "torch.nn.Embedding",
    "torch.nn.modules.sparse.Embedding",
    "torch.nn.EmbeddingBag",
    "torch.nn.modules.sparse.EmbeddingBag",
)
_POSITION = 6
_KINDS = ("SGD", "Adagrad")
_EXCLUDING = ("momentum", "weight_decay", "nesterov", "fused", "foreach", "differentiable", "maximize")
_DENSE = regex(r"clip_grad|DistributedDataParallel|\bDDP\b|fully_shard|\.grad\b|GradScaler")


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    _check_optimizer(sources)
    because = "no line that was recorded calls an nn.Embedding of its class"
    for source, line in request.places():
        tables = _tables(source, line)
        pieces = []
        for name, call in tables.items():
            try:
                _check_table(source, name, call)
                pieces += set_to(source, call, "sparse", "True", _POSITION)
            except NotEditable as reason:
                because = str(reason)
        if pieces:
            yield changed(source, pieces, f"nn.Embedding(…, sparse=True) for {', '.join(tables)}")
            return
    raise NotEditable(because)


def _tables(source: Source, line: int) -> dict[str, cst.Call]:
    """Return the embeddings that a line looks up: what the class assigns to the names called there."""
    out = {}
    for call in calls_in(source.module):
        first, last = source.lines(call)
        owner, name = class_around(source, call), written(call.func)
        if not first <= line <= last or owner is None or not name.startswith("self."):
            continue
        given = [
            assign.value
            for assign in matchers.findall(owner, matchers.Assign())
            if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
        ]
        if len(given) == 1 and isinstance(given[0], cst.Call) and source.name(given[0].func) in _NAMES:
            out[name] = given[0]
    return out


def _check_table(source: Source, name: str, call: cst.Call) -> None:
    """Raise ``NotEditable`` where something else than lookups reads the table, such as a tied output layer."""
    short = name.removeprefix("self.")
    text = re.sub(rf"init\.\w+\(\s*self\.{short}\.weight", "", source.text)
    if re.search(rf"\.{short}\.weight", text):
        raise NotEditable(f"{name}.weight is read elsewhere in {source.path}, too")
    for option in ("max_norm", "scale_grad_by_freq"):
        if value_of(source, call, option) is not None:
            raise NotEditable(f"{option} is asked for at {place(source, call)}")


def _check_optimizer(sources: list[Source]) -> None:
    """Raise ``NotEditable`` unless one optimizer is made that takes sparse gradients with the same result."""
    source, call = only_optimizer(sources)
    kind = source.name(call.func).rpartition(".")[2]
    if kind not in _KINDS:
        raise NotEditable(f"{kind} at {place(source, call)} takes no sparse gradients, or trains otherwise with them")
    # SGD's third, Adagrad's fourth argument and on are such that exclude them.
    if sum(arg.keyword is None for arg in call.args) > 2 or any(
        value_of(source, call, option) is not None for option in _EXCLUDING
    ):
        raise NotEditable(f"{kind} at {place(source, call)} has arguments that sparse gradients exclude")
    for each in sources:
        if (match := _DENSE.search(each.text)) is not None:
            raise NotEditable(f"{each.path} has {match[0]}, which takes gradients as dense ones")
        if kind == "Adagrad" and "cuda" in each.text:
            raise NotEditable(f"{each.path} speaks of a GPU, where Adagrad is not known to take sparse gradients")


EDITS = (Edit("sparse-embedding", "Keep the gradient of the embedding sparse", ("gradient/dense-embedding",), _make),)
