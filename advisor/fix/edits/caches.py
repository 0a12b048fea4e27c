"""Generation whose cache of keys and values is switched off: on again, where one place says so."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import learns, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_NAME = "use_cache"


def _make(request: Request) -> Iterator[Change]:
    sources = list(request.sources())
    if any(learns(source.text) for source in sources):
        raise NotEditable("the program also learns: where the cache is off for that is not certain")
    found = [(source, node) for source in sources for node in _off(source)]
    if len(found) != 1:
        raise NotEditable(f"{_NAME} is False at {len(found)} places of the files that the finding names, not at one")
    source, node = found[0]
    yield changed(source, [Piece(source.start(node), source.end(node), "True")], f"{_NAME}=True, {place(source, node)}")


def _off(source: Source) -> Iterator[cst.BaseExpression]:
    """Yield the literals by which a call, an assignment or a dictionary switches the cache off."""
    for arg in matchers.findall(source.module, matchers.Arg()):
        if isinstance(arg, cst.Arg) and arg.keyword is not None and arg.keyword.value == _NAME and _is_false(arg.value):
            yield arg.value
    for assign in matchers.findall(source.module, matchers.Assign()):
        if isinstance(assign, cst.Assign) and _is_false(assign.value):
            targets = [written(target.target) for target in assign.targets]
            if any(target.endswith((f".{_NAME}", f'["{_NAME}"]', f"['{_NAME}']")) for target in targets):
                yield assign.value
    for element in matchers.findall(source.module, matchers.DictElement()):
        if not isinstance(element, cst.DictElement) or not _is_false(element.value):
            continue
        if written(element.key).strip("\"'") == _NAME:
            yield element.value


def _is_false(value: cst.BaseExpression) -> bool:
    return isinstance(value, cst.Name) and value.value == "False"


EDITS = (Edit("use-cache", "Keep keys and values between tokens", ("inference/no-cache",), _make),)
