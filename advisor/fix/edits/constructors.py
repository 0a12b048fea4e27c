"""Arguments of what a program makes once: DistributedDataParallel, distributions, convolutions before a batch norm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import is_literal, place, set_to, value_of
from advisor.fix.code import calls_in, class_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
_POSITIONS = {"broadcast_buffers": 4}
_RENAMED = (2, 13)
_CONVOLUTION = regex(r"torch\.nn\.(modules\.conv\.)?Conv(Transpose)?[123]d")
_NORM = regex(r"torch\.nn\.(modules\.batchnorm\.)?(Sync|Lazy)?BatchNorm([123]d)?")
_DISTRIBUTION = regex(r"torch\.distributions\.(\w+\.)?[A-Z]\w+")
_BIAS = 7


def _wrapper(request: Request) -> tuple[Source, cst.Call]:
    """Return the one call that wraps the model."""
    found = [(source, call) for source in request.sources() for call in source.calls(*_DDP)]
    if len(found) != 1:
        raise NotEditable(
            f"{len(found)} calls of DistributedDataParallel by its name in the files that the finding names"
        )
    if sum(arg.keyword is None for arg in found[0][1].args) > max(_POSITIONS.values()) + 1:
        raise NotEditable(f"arguments at {place(*found[0])} stand in an order that differs between releases of torch")
    return found[0]


def _views(request: Request) -> Iterator[Change]:
    source, call = _wrapper(request)
    if any(".detach_()" in each.text for each in request.sources()):
        raise NotEditable("something is detached in place, which gradients that are views cannot be")
    name = "gradient_as_bucket_view"
    yield changed(
        source, set_to(source, call, name, "True", _POSITIONS.get(name)), f"DistributedDataParallel(…, {name}=True)"
    )


def _buffers(request: Request) -> Iterator[Change]:
    """Switch the broadcast off by the name that the recorded torch has for it."""
    source, call = _wrapper(request)
    name = "broadcast_buffers"
    version = re.match(r"(\d+)\.(\d+)", request.analysis.trace.torch or "")
    if value_of(source, call, name, _POSITIONS[name]) is None:
        if version is None:
            raise NotEditable("the recording does not say which torch it is, and the argument's name changed")
        if (int(version[1]), int(version[2])) >= _RENAMED:
            name = "forward_sync_buffers"
    yield changed(
        source, set_to(source, call, name, "False", _POSITIONS.get(name)), f"DistributedDataParallel(…, {name}=False)"
    )


def _unchecked(request: Request) -> Iterator[Change]:
    because = "no distribution of torch.distributions is made by its name"
    for source in request.sources():
        pieces: list[Piece] = []
        for call in calls_in(source.module):
            name = source.name(call.func)
            if _DISTRIBUTION.fullmatch(name) is None or name.endswith(("Transform", ".Distribution")):
                continue
            try:
                given = value_of(source, call, "validate_args")
                if given is None or source.code(given) in ("None", "True"):
                    pieces += set_to(source, call, "validate_args", "False")
            except NotEditable as reason:
                because = str(reason)
        if pieces:
            yield changed(source, pieces, f"distributions with validate_args=False in {source.path}")
            return
    raise NotEditable(because)


def _without_bias(request: Request) -> Iterator[Change]:
    """Leave the bias out of convolutions whose output only a batch norm takes."""
    sources = list(request.sources())
    for source in sources:
        if "load_state_dict" in source.text:
            raise NotEditable(f"{source.path} loads weights, which hold the biases")
        if re.search(r"\.bias\b(?! is not None)", source.text) and "bias is not None" not in source.text:
            raise NotEditable(f"{source.path} reads biases")
    for source in sources:
        found = {id(call): call for call in (*_in_sequence(source), *_nested(source))}
        pieces: list[Piece] = []
        for call in found.values():
            given = value_of(source, call, "bias", _BIAS)
            if given is None or (is_literal(given) and source.code(given) != "False"):
                pieces += set_to(source, call, "bias", "False", _BIAS)
        if pieces:
            yield changed(source, pieces, f"no bias before a batch norm, {place(source, next(iter(found.values())))}")
            return
    raise NotEditable("no convolution stands right before a batch norm where the source shows it for certain")


def _in_sequence(source: Source) -> Iterator[cst.Call]:
    """Yield convolutions that stand before a batch norm among the arguments of nn.Sequential, or in a list unpacked into one."""
    for node in matchers.findall(source.module, matchers.OneOf(matchers.Call(), matchers.List())):
        values: list[cst.BaseExpression] = []
        if isinstance(node, cst.Call) and source.name(node.func).endswith("nn.Sequential"):
            values = [arg.value for arg in node.args if arg.keyword is None]
        elif (
            isinstance(node, cst.List)
            and re.search(r"Sequential\(\s*\*", source.text)
            and "ModuleList" not in source.text
        ):
            values = [element.value for element in node.elements]
        for one, following in pairwise(values):
            if _is(source, one, _CONVOLUTION) and _is(source, following, _NORM) and isinstance(one, cst.Call):
                yield one


def _nested(source: Source) -> Iterator[cst.Call]:
    """Yield convolutions of a class that are called in ``self.norm(self.conv(x))`` alone."""
    for call in calls_in(source.module):
        inner = call.args[0].value if len(call.args) == 1 else None
        owner = class_around(source, call)
        if not isinstance(inner, cst.Call) or owner is None:
            continue
        norm, convolution = (_field(owner, written(each.func)) for each in (call, inner))
        if (
            norm is None
            or convolution is None
            or not _is(source, norm, _NORM)
            or not _is(source, convolution, _CONVOLUTION)
        ):
            continue
        uses = [node for node in matchers.findall(owner, matchers.Attribute()) if written(node) == written(inner.func)]
        if len(uses) == 2 and isinstance(convolution, cst.Call):  # where it is made, and here
            yield convolution


def _field(owner: cst.ClassDef, name: str) -> cst.BaseExpression | None:
    """Return what a class assigns to a field, once."""
    given = [
        assign.value
        for assign in matchers.findall(owner, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
    ]
    return given[0] if len(given) == 1 and name.startswith("self.") else None


def _is(source: Source, value: cst.BaseExpression, names: re.Pattern[str]) -> bool:
    return isinstance(value, cst.Call) and names.fullmatch(source.name(value.func)) is not None


EDITS = (
    Edit("bucket-views", "Let gradients be views of DDP's buckets", ("distributed/bucket-copies",), _views),
    Edit(
        "broadcast-buffers",
        "Switch DDP's broadcast of buffers off",
        ("gpu-idle/buffer-sync", "cpu/buffer-sync"),
        _buffers,
    ),
    Edit("validate-args", "Make distributions without checks", ("gpu-idle/distribution-checks",), _unchecked),
    # Without it fewer random numbers are drawn: all layers behind it begin with other weights.
    Edit(
        "bias-before-norm",
        "Leave out biases before a batch norm",
        ("kernels/conv-bias-before-bn",),
        _without_bias,
        trains=True,
    ),
)
