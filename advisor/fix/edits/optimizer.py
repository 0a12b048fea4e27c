"""The fused form of an optimizer, and gradients that are set to None."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.fix.arguments import place, set_to, value_of, without
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece

_MODULES = {"Adam": "adam", "AdamW": "adamw", "SGD": "sgd", "Adagrad": "adagrad"}


def _fused(request: Request) -> Iterator[Change]:
    places = {
        (s.of, s.file, s.line)
        for s in request.finding.settings
        if s.name == "fused" and s.value != "True" and s.of in _MODULES
    }
    if len(places) != 1:
        many = "several optimizers" if places else "no optimizer with a fused form"
        raise NotEditable(f"the recording names {many}")
    kind, file, at = next(iter(places))
    source, line = request.files.at(file, at)
    names = [f"torch.optim.{kind}", f"torch.optim.{_MODULES[str(kind)]}.{kind}"]
    call = source.single_call(*names, line=line)
    for other in ("foreach", "differentiable", "capturable"):
        given = value_of(source, call, other)
        if given is not None and source.code(given) not in ("False", "None"):
            raise NotEditable(f"{other} is asked for at {place(source, call)}, which excludes fused")
    yield changed(source, set_to(source, call, "fused", "True"), f"torch.optim.{kind}(…, fused=True)")


def _set_to_none(request: Request) -> Iterator[Change]:
    """Take ``set_to_none=False`` out of calls of zero_grad: None has been torch's own choice since 2.0."""
    for source in request.sources():
        pieces: list[Piece] = []
        for call in source.method_calls("zero_grad"):
            value = value_of(source, call, "set_to_none", 0)
            if value is None or source.code(value) != "False":
                continue
            by_keyword = any(arg.keyword is not None for arg in call.args)
            pieces += (
                without(source, call, "set_to_none")
                if by_keyword
                else [Piece(source.start(value), source.end(value), "")]
            )
        if pieces:
            yield changed(source, pieces, "zero_grad() sets gradients to None")
            return
    raise NotEditable("no call of zero_grad with set_to_none=False by its name")


EDITS = (
    Edit(
        "fused-optimizer",
        "Ask for the optimizer's fused form",
        (
            "cpu/unfused-optimizer",
            "kernels/foreach-optimizer",
            "kernels/single-tensor-optimizer",
            "gpu-idle/foreach-grouping",
            "sync/scaler-readback",
        ),
        _fused,
    ),
    Edit(
        "set-to-none",
        "Set gradients to None instead of zero",
        (
            "gradient/zeroing-fill",
            "gradient/zeroing-memset",
            "gradient/zeroing-wait",
            "gradient/added-to-zeros",
            "gradient/adding-wait",
        ),
        _set_to_none,
    ),
)
