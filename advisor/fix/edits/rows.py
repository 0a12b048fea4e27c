"""Rows in memory that a DataLoader fetches one by one: whole batches of indices, one call and no collate."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place, value_of
from advisor.fix.code import classes, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.edits.loader import NAMES
from advisor.fix.source import NotEditable, Piece, Source

_TABLES = ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset")
_SAMPLING = {"batch_size": 1, "shuffle": 2, "sampler": 3, "batch_sampler": 4, "drop_last": 8}
"""Arguments that say which rows make a batch, and their positions."""
_KEPT = (
    "dataset",
    "num_workers",
    "pin_memory",
    "persistent_workers",
    "prefetch_factor",
    "timeout",
    "multiprocessing_context",
    "generator",
)
_MOST_PLAIN = 3
_DEPTH = 6


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    because = "no DataLoader by its name reads a TensorDataset, or a data set that only indexes tensors"
    found: list[tuple[Source, cst.Call]] = []
    for source in sources:
        for call in source.calls(*NAMES):
            try:
                _check_rows(sources, source, call)
            except NotEditable as reason:
                because = str(reason)
                continue
            found.append((source, call))
    if len(found) != 1:
        raise NotEditable(f"{len(found)} loaders fetch rows that are in memory" if found else because)
    source, call = found[0]
    if "lightning" in source.text or "accelerat" in source.text:
        raise NotEditable(f"a framework in {source.path} may make the loader anew")
    yield changed(source, _batched(source, call), "whole batches of indices, batch_size=None")


def _check_rows(sources: list[Source], source: Source, call: cst.Call) -> None:
    """Raise ``NotEditable`` where a list of indices may not give what the collated rows are."""
    dataset = value_of(source, call, "dataset", 0)
    made = dataset
    if isinstance(dataset, cst.Name):
        given = source.assigned(dataset.value)
        made = given[0] if len(given) == 1 else None
    if not isinstance(made, cst.Call):
        raise NotEditable(f"which data set the loader at {place(source, call)} reads is not certain")
    if source.name(made.func) in _TABLES:
        return
    name = made.func.value if isinstance(made.func, cst.Name) else ""
    owner = next((each for each in sources if name in classes(each)), None)
    if owner is None:
        raise NotEditable(
            f"the data set of the loader at {place(source, call)} is no TensorDataset and no class of these files"
        )
    _check_class(source, owner, classes(owner)[name], made)


def _check_class(source: Source, owner: Source, node: cst.ClassDef, made: cst.Call) -> None:
    """Raise ``NotEditable`` unless ``__getitem__`` returns tensors or arrays of the data set at the index, and nothing else."""
    methods = {part.name.value: part for part in node.body.body if isinstance(part, cst.FunctionDef)}
    getter = methods.get("__getitem__")
    if getter is None or "__getitems__" in methods or len(getter.params.params) != 2:
        raise NotEditable(f"{node.name.value} in {owner.path} has another __getitem__ than with an index")
    index = getter.params.params[1].name.value
    lines = [part for part in getter.body.body if not _is_text(part)]
    returned = lines[0].body[0] if len(lines) == 1 and isinstance(lines[0], cst.SimpleStatementLine) else None
    if not isinstance(returned, cst.Return) or returned.value is None:
        raise NotEditable(f"{node.name.value}.__getitem__ in {owner.path} does more than to index")
    value = returned.value
    parts: list[cst.BaseExpression] = [value]
    if isinstance(value, cst.Tuple | cst.List | cst.Dict):
        parts = [element.value for element in value.elements]
    for part in parts:
        field = written(part.value) if isinstance(part, cst.Subscript) else ""
        if not field.startswith("self.") or "." in field[5:] or written(part) != f"{field}[{index}]":
            raise NotEditable(f"{node.name.value}.__getitem__ in {owner.path} does more than to index")
        if not _holds_rows(source, owner, node, made, field):
            raise NotEditable(f"whether {field} of {node.name.value} in {owner.path} is a tensor is not certain")


def _is_text(part: cst.BaseStatement | cst.BaseSmallStatement) -> bool:
    inner = part.body[0] if isinstance(part, cst.SimpleStatementLine) else None
    return isinstance(inner, cst.Expr) and isinstance(inner.value, cst.SimpleString)


def _holds_rows(source: Source, owner: Source, node: cst.ClassDef, made: cst.Call, field: str) -> bool:
    """Tell a field that is a tensor or an array: by what ``__init__`` makes it of, or by what it is given."""
    values: list[cst.BaseExpression] = []
    for assign in matchers.findall(node, matchers.Assign()):
        if not isinstance(assign, cst.Assign):
            continue
        for target in assign.targets:
            if written(target.target) == field:
                values.append(assign.value)
            elif isinstance(target.target, cst.Tuple) and isinstance(assign.value, cst.Tuple):
                pairs = zip(target.target.elements, assign.value.elements, strict=False)
                values += [right.value for left, right in pairs if written(left.value) == field]
            elif isinstance(target.target, cst.Tuple) and field in written(target.target):
                return False
    return len(values) == 1 and (_is_array(owner, values[0], 0) or _is_given(source, node, made, values[0]))


def _is_given(source: Source, node: cst.ClassDef, made: cst.Call, value: cst.BaseExpression) -> bool:
    """Tell a parameter of ``__init__`` that the call gives an array for."""
    start = next(
        (part for part in node.body.body if isinstance(part, cst.FunctionDef) and part.name.value == "__init__"), None
    )
    if start is None or not isinstance(value, cst.Name):
        return False
    names = [param.name.value for param in start.params.params][1:]
    if value.value not in names:
        return False
    try:
        given = value_of(source, made, value.value, names.index(value.value))
    except NotEditable:
        return False
    return given is not None and _is_array(source, given, 0)


def _is_array(source: Source, value: cst.BaseExpression, depth: int) -> bool:
    """Tell a tensor or array that has rows for certain: made by a function of torch or NumPy, or by a method of such a one."""
    if depth > _DEPTH:
        return False
    if isinstance(value, cst.Name):
        given = source.assigned(value.value)
        return bool(given) and all(_is_array(source, one, depth + 1) for one in given)
    if isinstance(value, cst.BinaryOperation):
        return _is_array(source, value.left, depth + 1) or _is_array(source, value.right, depth + 1)
    if isinstance(value, cst.Call):
        name = source.name(value.func)
        if name.startswith(("torch.", "numpy.")):
            return not name.startswith(("torch.utils", "torch.nn.Module", "numpy.random.default_rng"))
        return isinstance(value.func, cst.Attribute) and _is_array(source, value.func.value, depth + 1)
    return False


def _batched(source: Source, call: cst.Call) -> list[Piece]:
    """Return the pieces that give the loader batches of indices to fetch at once."""
    where = place(source, call)
    plain = [arg for arg in call.args if arg.keyword is None]
    given = {arg.keyword.value: arg for arg in call.args if arg.keyword is not None}
    if set(given) - set(_KEPT) - set(_SAMPLING) or len(plain) > _MOST_PLAIN or "#" in source.code(call):
        raise NotEditable(f"the loader at {where} has arguments that may ask for single rows")
    if "batch_sampler" in given:
        keyword = given["batch_sampler"].keyword
        last = source.end(call.args[-1].value)
        if keyword is None or value_of(source, call, "batch_size", _SAMPLING["batch_size"]) is not None:
            raise NotEditable(f"the loader at {where} has a batch_size beside its batch_sampler")
        return [Piece(source.start(keyword), source.end(keyword), "sampler"), Piece(last, last, ", batch_size=None")]
    sampler, pieces = _sampler(source, call)
    texts = [
        source.code(arg.value) if arg.keyword is None else f"{arg.keyword.value}={source.code(arg.value)}"
        for at, arg in enumerate(call.args)
        if (at == 0 if arg.keyword is None else arg.keyword.value not in _SAMPLING)
    ]
    new = ", ".join([texts[0], f"sampler={sampler}", "batch_size=None", *texts[1:]])
    return [*pieces, Piece(source.end(call.func), source.end(call), f"({new})")]


def _sampler(source: Source, call: cst.Call) -> tuple[str, list[Piece]]:
    """Return a sampler of batches that draws as the loader does, and the pieces that import its names."""
    where = place(source, call)
    known = {name: value_of(source, call, name, at) for name, at in _SAMPLING.items()}
    size, own, dataset = known["batch_size"], known["sampler"], value_of(source, call, "dataset", 0)
    if size is None or source.code(size) in ("None", "1") or not isinstance(dataset, cst.Name):
        raise NotEditable(f"the loader at {where} has no batch_size, or a data set without a name")
    given = {name: known[name] for name in ("shuffle", "drop_last")}
    shuffle, drop = ("False" if value is None else source.code(value) for value in given.values())
    if shuffle not in ("True", "False"):
        raise NotEditable(f"whether the loader at {where} shuffles is not certain")
    order = "RandomSampler" if shuffle == "True" else "SequentialSampler"
    prefix, pieces = _names(source, call, "BatchSampler", *([order] if own is None else []))
    # The loader itself draws a number of its generator before the sampler does: it keeps it.
    generator = value_of(source, call, "generator")
    drawn = ""
    if generator is not None and order == "RandomSampler":
        if not isinstance(generator, cst.Name | cst.Attribute):
            raise NotEditable(f"the generator of the loader at {where} has no name")
        drawn = f", generator={source.code(generator)}"
    rows = f"{prefix}{order}({dataset.value}{drawn})" if own is None else source.code(own)
    return f"{prefix}BatchSampler({rows}, {source.code(size)}, drop_last={drop})", pieces


def _names(source: Source, call: cst.Call, *names: str) -> tuple[str, list[Piece]]:
    """Return what stands before the samplers' names, and the pieces that import them beside DataLoader."""
    if isinstance(call.func, cst.Attribute):
        return f"{source.code(call.func.value)}.", []
    for statement in source.module.body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if not isinstance(part, cst.ImportFrom) or isinstance(part.names, cst.ImportStar) or part.module is None:
                continue
            if source.code(part.module) == "torch.utils.data":
                there = {alias.evaluated_name: alias.evaluated_alias for alias in part.names}
                if any(there.get(name) for name in names):
                    raise NotEditable(f"{source.path} has the samplers by other names")
                return "", [_imported(source, part, name) for name in names if name not in there]
    raise NotEditable(f"{source.path} does not import DataLoader from torch.utils.data at its head")


def _imported(source: Source, part: cst.ImportFrom, name: str) -> Piece:
    """Return the piece that imports one more name: before the first that follows it in the alphabet, else behind the last."""
    aliases = [] if isinstance(part.names, cst.ImportStar) else list(part.names)
    for alias in aliases:
        if alias.evaluated_name > name:
            return Piece(source.start(alias.name), source.start(alias.name), f"{name}, ")
    end = source.end(aliases[-1].asname or aliases[-1].name)
    return Piece(end, end, f", {name}")


EDITS = (
    Edit(
        "batched-rows",
        "Fetch rows in memory by whole batches of indices",
        ("data-loading/rowwise-fetch",),
        _make,
    ),
)
