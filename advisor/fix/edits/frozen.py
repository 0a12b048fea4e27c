"""Layers that no optimizer trains: their parameters ask for no gradients, from the optimizer on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from advisor.fix.arguments import place
from advisor.fix.code import class_around, indent_of, is_module_class, models, only_optimizer, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_OWNER = regex(r"([A-Za-z_][\w.]*)\.parameters\(\)")
_OPTION = regex(r"""["'](?!params["'])\w+["']:[\w.*/+\-"']+(?=[,}])""")
_LIST = regex(r"""["']params["']:|\b(?:list|(?:itertools\.)?chain)(?=\()|[\[\](){},+*0]""")
_CLIPPED = regex(r"clip_grad_(?:norm|value)_\(([A-Za-z_][\w.]*)\.parameters\(\)")
_READING = regex(
    r"requires_grad|clip_grad|\.grad\b|\bautograd\b|add_param_group|retain_grad|DistributedDataParallel|\bDDP\b|fully_shard|"
    r"\bFSDP\b|FullyShardedDataParallel|\bdeepspeed\b|torch\.func\b|\bfunctorch\b|higher\."
)
"""Words of code that reads gradients, or asks parameters for them, other than by an optimizer."""


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    source, call = only_optimizer(sources)
    trained = _trained(source, call)
    for each in sources:
        if (match := _READING.search(_without_clipping(each, trained))) is not None:
            raise NotEditable(f"{each.path} has {match[0]}: which gradients are read is not certain")
    base = _base(source, call, trained)
    statement = source.statement(call)
    if statement is None or len(statement.body) != 1:
        raise NotEditable(f"the optimizer at {place(source, call)} does not stand in a line of its own")
    number = source.lines(statement)[0]
    at, indent = source.line_start(number), indent_of(source, number)
    lines = [f"{base}.requires_grad_(False)", *(f"{name}.requires_grad_(True)" for name in trained)]
    text = "".join(f"{indent}{line}{source.newline}" for line in lines)
    yield changed(source, [Piece(at, at, text)], f"no gradients for {base} but for {', '.join(trained)}")


def _trained(source: Source, call: cst.Call) -> list[str]:
    """Return the parts whose parameters the optimizer is given, as they are written, each once."""
    first = next(iter(call.args), None)
    if first is None or first.star or (first.keyword is not None and first.keyword.value != "params"):
        raise NotEditable(f"what the optimizer at {place(source, call)} trains is not certain")
    text = written(first.value)
    names = _OWNER.findall(text)
    if not names or _LIST.sub("", _OPTION.sub("", _OWNER.sub("0", text))):
        raise NotEditable(f"what the optimizer at {place(source, call)} trains is not written as parts of one network")
    if len(set(names)) != len(names):
        raise NotEditable(f"the optimizer at {place(source, call)} is given a part twice")
    return list(names)


def _without_clipping(source: Source, trained: Sequence[str]) -> str:
    """Return the text of a file without the calls that clip the gradients of *trained* parts alone."""
    return _CLIPPED.sub(lambda match: "" if match[1] in trained else match[0], source.text)


def _base(source: Source, call: cst.Call, trained: Sequence[str]) -> str:
    """Return the network that all *trained* parts are of, and none of them itself."""
    known = set(models(source))
    if is_module_class(source, class_around(source, call)):
        known.add("self")
    parts = trained[0].split(".")
    for count in range(1, len(parts)):
        base = ".".join(parts[:count])
        if base in known and all(name.startswith(f"{base}.") for name in trained):
            _check_known(source, base)
            return base
    raise NotEditable(f"which network the parts at {place(source, call)} are of is not certain")


def _check_known(source: Source, base: str) -> None:
    """Raise ``NotEditable`` where a plain name holds one network after the other."""
    if base.isidentifier() and base != "self" and len(source.assigned(base)) > 1:
        raise NotEditable(f"{base} is given more than once in {source.path}")


EDITS = (Edit("frozen-layers", "Freeze the layers that are not trained", ("gradient/unfrozen-layers",), _make),)
