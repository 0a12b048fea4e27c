"""Gradients that run on into a network that they do not train: its output is detached, or made without a graph."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import assigned_pairs, called, calls_in, functions, indent_of, models, torch_name, written
from advisor.fix.edit import Change, Edit, Request, changed, first_possible
from advisor.fix.source import INDENT, NotEditable, Piece, Source

_MOVES = ("to", "cuda", "cpu", "float", "half", "contiguous", "view", "flatten")
_HARMLESS = ("eval", "train", "load_state_dict", "to", "requires_grad_")


def _without_graph(request: Request) -> Iterator[Change]:
    """Run a network that no optimizer has under no_grad, where its inputs are batches and it stands alone in a line."""
    because = "no line that was recorded calls a network that the file makes, and does nothing else"
    sources = list(request.sources())
    found = (
        (source, call)
        for source, line in request.places()
        for call in calls_in(source.module)
        if called(call) in models(source) and source.lines(call) == (line, line)
    )

    def wrapped(source: Source, call: cst.Call) -> Change:
        name = called(call)
        pieces = _under_no_grad(sources, source, call, name)
        return changed(source, pieces, f"{name} under torch.no_grad(), {place(source, call)}")

    return first_possible(found, wrapped, because)


def _under_no_grad(sources: list[Source], source: Source, call: cst.Call, name: str) -> list[Piece]:
    where = place(source, call)
    assign, statement = source.parent(call), source.statement(call)
    if not isinstance(assign, cst.Assign) or statement is None or len(statement.body) != 1:
        raise NotEditable(f"the call of {name} at {where} does not stand alone in its line")
    holder: cst.CSTNode = next(
        (outer for outer in source.around(call) if isinstance(outer, cst.FunctionDef)), source.module
    )
    if any(not _is_batch(source, holder, arg) for arg in call.args):
        raise NotEditable(f"whether the inputs of {name} at {where} need no gradient is not certain")
    for each in sources:
        _check_untrained(each, name)
    number = source.lines(call)[0]
    indent = indent_of(source, number)
    start = source.line_start(number)
    head = f"{indent}with {torch_name(source)}.no_grad():{source.newline}{INDENT}"
    return [Piece(start, start, head)]


def _check_untrained(source: Source, name: str) -> None:
    """Raise ``NotEditable`` where a network is more than called and switched: handed on, or asked for its parameters."""
    for node in matchers.findall(source.module, matchers.OneOf(matchers.Name(), matchers.Attribute())):
        outer = source.parent(node)
        if written(node) != name or (isinstance(outer, cst.Attribute) and outer.attr is node):
            continue
        value = _assigned_here(source, node)
        if value is not None and any(
            written(part) in models(source) for part in matchers.findall(value, matchers.Name())
        ):
            raise NotEditable(f"{name} holds another network of {source.path}")
        method = isinstance(outer, cst.Attribute) and outer.attr.value in _HARMLESS
        own = isinstance(outer, cst.Call) and outer.func is node
        if not (value is not None or method or own):
            raise NotEditable(f"{name} is handed on or asked for its parts at {place(source, node)}")


def _assigned_here(source: Source, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return what an assignment gives to *node*, which may stand in a tuple; None where *node* is no target."""
    for outer in source.around(node):
        if isinstance(outer, cst.AssignTarget):
            assign = source.parent(outer)
            pairs = assigned_pairs(outer.target, assign.value) if isinstance(assign, cst.Assign) else []
            return next((value for target, value in pairs if target is node), None)
        if not isinstance(outer, cst.Element | cst.Tuple):
            break
    return None


def _is_batch(source: Source, holder: cst.CSTNode, arg: cst.Arg) -> bool:
    """Tell a name that a loop over batches counts, and that is at most moved to a device before it is used."""
    value = arg.value
    if arg.star or not isinstance(value, cst.Name) or "requires_grad" in source.code(holder):
        return False
    looped = False
    for node in matchers.findall(holder, matchers.Name(value.value)):
        outer: cst.CSTNode | None = source.parent(node)
        while isinstance(outer, cst.Element | cst.Tuple | cst.List):
            node, outer = outer, source.parent(outer)
        if isinstance(outer, cst.For) and outer.target is node:
            looped = True
        if isinstance(outer, cst.AssignTarget):
            assign = source.parent(outer)
            if (
                not isinstance(assign, cst.Assign)
                or outer.target is not node
                or not _is_moved(assign.value, value.value)
            ):
                return False
        if isinstance(outer, cst.AugAssign) and outer.target is node:
            return False
    return looped


def _is_moved(value: cst.BaseExpression, name: str) -> bool:
    func = value.func if isinstance(value, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _MOVES and written(func.value) == name


def _detached(request: Request) -> Iterator[Change]:
    """Detach what the generator made in the discriminator's update, where the functions of the files show both for certain."""
    because = "no function makes something by one network, and judges it by another whose optimizer steps first"
    for source in request.sources():
        found: list[cst.Arg] = []
        for function in functions(source):
            try:
                found += _judged(source, function)
            except NotEditable as reason:
                because = str(reason)
        if len(found) == 1:
            end = source.end(found[0].value)
            text = source.code(found[0].value)
            yield changed(source, [Piece(end, end, ".detach()")], f"{text}.detach() in the update of the other network")
            return
    raise NotEditable(because)


def _judged(source: Source, function: cst.FunctionDef) -> list[cst.Arg]:
    """Return the argument ``fake`` of ``netD(fake)`` before the first backward pass, which steps netD's optimizer alone."""
    known, calls = models(source), sorted(calls_in(function), key=source.start)
    passes = [call for call in calls if isinstance(call.func, cst.Attribute) and call.func.attr.value == "backward"]
    if len(passes) != len(("first", "second")):
        return []
    first, second = (source.end(call) for call in passes)
    between = [call for call in calls if first < source.start(call) < second]
    out: list[cst.Arg] = []
    for name, maker in _made(function, known).items():
        judges = [call for call in calls if _takes(call, name) and called(call) in known - {maker}]
        before = [call for call in judges if source.start(call) < first]
        after = [call for call in judges if call in between]
        if len(before) != 1 or len(after) != 1 or called(before[0]) != called(after[0]):
            continue
        _check_updates(source, between, passes[0], called(before[0]), maker)
        out.append(before[0].args[0])
    return out


def _takes(call: cst.Call, name: str) -> bool:
    return [written(arg.value) for arg in call.args] == [name]


def _check_updates(source: Source, between: list[cst.Call], first: cst.Call, judge: str, maker: str) -> None:
    """Raise ``NotEditable`` unless, behind the first pass, the judge alone is updated, and the maker's gradients are dropped."""
    steps = [called(call).removesuffix(".step") for call in between if called(call).endswith(".step")]
    if len(steps) != 1 or _updates(source, steps[0]) != judge:
        raise NotEditable(f"which network the first pass at {place(source, first)} trains is not certain")
    dropped = [called(call).removesuffix(".zero_grad") for call in between if called(call).endswith(".zero_grad")]
    if maker not in dropped and maker not in [_updates(source, each) for each in dropped]:
        raise NotEditable(f"the gradients of {maker} are not dropped between the passes at {place(source, first)}")


def _made(function: cst.FunctionDef, known: set[str]) -> dict[str, str]:
    """Return the names that a function assigns once, from a call of a network, with that network's name."""
    given: dict[str, list[str]] = {}
    for assign in matchers.findall(function, matchers.Assign()):
        if isinstance(assign, cst.Assign):
            maker = called(assign.value) if isinstance(assign.value, cst.Call) else ""
            for target in assign.targets:
                given.setdefault(written(target.target), []).append(maker)
    return {name: makers[0] for name, makers in given.items() if len(makers) == 1 and makers[0] in known}


def _updates(source: Source, optimizer: str) -> str:
    """Return the network whose parameters alone an optimizer was made with; empty where it is not certain."""
    found = [
        assign.value
        for assign in matchers.findall(source.module, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == optimizer for target in assign.targets)
    ]
    if len(found) != 1 or not isinstance(found[0], cst.Call) or not found[0].args:
        return ""
    if not source.name(found[0].func).startswith("torch.optim."):
        return ""
    match = re.fullmatch(r"([\w.]+)\.parameters\(\)", written(found[0].args[0].value))
    return match[1] if match is not None else ""


EDITS = (
    Edit(
        "frozen-forward",
        "Run the network that is not trained without a graph",
        ("gradient/unfrozen-layers",),
        _without_graph,
    ),
    Edit("detached-output", "Detach what the other network made", ("gradient/undetached-output",), _detached),
)
