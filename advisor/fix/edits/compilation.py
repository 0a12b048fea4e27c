"""Arguments of torch.compile."""

from __future__ import annotations

from collections.abc import Iterator

from advisor.fix.arguments import value_of, without
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable


def _dynamic(request: Request) -> Iterator[Change]:
    """Let sizes that change become dynamic: take out ``dynamic=False``."""
    places = {(s.file, s.line) for s in request.finding.settings if s.name == "dynamic" and s.value == "False"}
    if len(places) != 1:
        raise NotEditable("no call of torch.compile was recorded with dynamic=False" if not places else "several calls")
    source, line = request.files.at(*next(iter(places)))
    # A decorator with arguments is a call as well.
    call = source.single_call("torch.compile", line=line)
    value = value_of(source, call, "dynamic")
    if value is None or source.code(value) != "False":
        raise NotEditable("dynamic=False does not stand in the call itself")
    yield changed(source, without(source, call, "dynamic"), "torch.compile without dynamic=False")


EDITS = (
    Edit(
        "dynamic-shapes",
        "Compile once for sizes that change",
        ("compile/recompilation", "compile/runs-eagerly"),
        _dynamic,
    ),
)
