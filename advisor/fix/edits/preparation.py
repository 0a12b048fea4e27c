"""Results that each step computes again of tensors that stay the same: kept by functools.lru_cache."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import is_literal, place
from advisor.fix.code import called, calls_in, function_around, functions, imported, indent_of, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_KEPT = 4
"""Results that are kept: those of the graphs of training, validation and test, and one to spare."""
_RANDOM = regex(
    r"rand|normal_\(|torch\.normal|uniform|bernoulli|multinomial|dropout|shuffle|sample|seed|poisson|generator"
)
_COMPILED = regex(r"inference_mode|torch\.compile|jit\.script|jit\.trace|DataParallel|CUDAGraph|cuda\.graph")
"""Words of a file in which what is kept may be used otherwise than it was made, or by several threads."""
_PLAIN = (
    "len", "int", "float", "bool", "range", "max", "min", "abs", "tuple", "enumerate", "zip", "isinstance", "ValueError",
)  # fmt: skip
_FACTORIES = (
    "zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "arange", "eye", "cat", "stack",
)  # fmt: skip
_MADE = tuple(f"torch.{name}" for name in _FACTORIES)
_PREPARES = regex(
    r"\b(?:unique|unique_consecutive|argsort|sort|nonzero|bincount|histc|coalesce|searchsorted|sparse_coo_tensor)\("
)
"""Operators without gradients, or of indices: what they are given is data, and no parameter that an optimizer changes."""
_SHARED = "cpu/repeated-function"
_NUMBER = regex(r"len\(\w+\)|\w+\.(?:size\(-?\d+\)|shape\[-?\d+\]|num_nodes|numel\(\))")
_STATEMENTS = matchers.OneOf(
    matchers.FunctionDef(), matchers.ClassDef(), matchers.Lambda(), matchers.Global(), matchers.Nonlocal(), matchers.Yield(),
    matchers.Await(), matchers.Import(), matchers.ImportFrom(), matchers.With(), matchers.Del(), matchers.NamedExpr(),
)  # fmt: skip


def _make(request: Request) -> Iterator[Change]:
    because = "no function that was recorded prepares data of its arguments alone"
    sources = list(request.sources())
    for source, line in request.places():
        for function in _at(source, line):
            try:
                if request.finding.rule == _SHARED and _PREPARES.search(source.code(function)) is None:
                    raise NotEditable(f"whether {function.name.value} is given data alone is not certain")
                pieces = _kept(sources, source, function)
            except NotEditable as reason:
                because = str(reason)
                continue
            yield changed(
                source, pieces, f"what {function.name.value}() returns is kept, {place(source, function.name)}"
            )
            return
    raise NotEditable(because)


def _at(source: Source, line: int) -> list[cst.FunctionDef]:
    """Return the function that holds a line, then those of the file that are called there."""
    found = list(functions(source))
    around = [one for one in found if source.lines(one)[0] <= line <= source.lines(one)[1]]
    names = {called(call).rpartition(".")[2] for call in calls_in(source.module) if source.lines(call)[0] == line}
    return [*around, *(one for one in found if one.name.value in names)]


def _kept(sources: Sequence[Source], source: Source, function: cst.FunctionDef) -> list[Piece]:
    """Return the pieces that have a function keep what it returns: a method becomes a static one, all layers share it."""
    for each in sources:
        if (match := _COMPILED.search(each.text)) is not None:
            raise NotEditable(f"{each.path} has {match[0]}, where what is kept may not be used again")
    where, name = place(source, function.name), function.name.value
    method = isinstance(source.parent(source.parent(function) or function), cst.ClassDef)
    static = [written(one.decorator) for one in function.decorators] == ["staticmethod"]
    if (function.decorators and not (static and method)) or function.asynchronous is not None:
        raise NotEditable(f"{name} at {where} is decorated, or no plain function")
    params = _params(source, function)
    bound = method and not static
    own = params[0] if bound and params else ""
    if bound and own != "self":
        raise NotEditable(f"{name} at {where} is no method of an object")
    given = params[1:] if bound else params
    _check_body(source, function, given, own)
    _check_calls(sources, source, function, given, method=method)
    number = source.lines(function.name)[0]
    at, indent = source.line_start(number), indent_of(source, number)
    lines = [*(["@staticmethod"] if bound else []), f"@functools.lru_cache(maxsize={_KEPT})"]
    pieces = [Piece(at, at, "".join(f"{indent}{line}{source.newline}" for line in lines))]
    if bound:
        first, following = function.params.params[0], function.params.params[1]
        pieces.append(Piece(source.start(first.name), source.start(following.name), ""))
    return [*pieces, *imported(source, "functools")]


def _params(source: Source, function: cst.FunctionDef) -> list[str]:
    """Return the names of a function's parameters. Raises ``NotEditable`` where it takes others than plain ones."""
    kinds = function.params
    star = kinds.star_arg if isinstance(kinds.star_arg, cst.Param | cst.ParamStar) else None
    if star is not None or kinds.star_kwarg is not None or kinds.posonly_params or kinds.kwonly_params:
        raise NotEditable(f"{function.name.value} at {place(source, function.name)} takes other than plain arguments")
    if any(param.default is not None and not is_literal(param.default) for param in kinds.params):
        raise NotEditable(f"{function.name.value} at {place(source, function.name)} has a default that is no literal")
    return [param.name.value for param in kinds.params]


def _check_body(source: Source, function: cst.FunctionDef, given: Sequence[str], own: str) -> None:
    """Raise ``NotEditable`` unless what a function returns follows from its arguments alone, and it changes none of them."""
    where, name, body = place(source, function.name), function.name.value, function.body
    if not given:
        raise NotEditable(f"{name} at {where} has no arguments that it prepares")
    if (match := _RANDOM.search(source.code(body))) is not None:
        raise NotEditable(f"{name} at {where} has {match[0]}: it may return something else each time")
    if matchers.findall(body, _STATEMENTS):
        raise NotEditable(f"{name} at {where} does more than to compute")
    values = _assigned(body)
    for node in matchers.findall(body, matchers.Name()):
        if isinstance(node, cst.Name) and not _is_known(source, node, {*given, *values}, own):
            raise NotEditable(f"{name} at {where} reads {node.value}, which may change")
    for call in calls_in(body):
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value.endswith("_"):
            _check_own(source, func.value, values, f"{name} at {where}")
        elif isinstance(func, cst.Name) and func.value not in _PLAIN and not source.name(func).startswith("torch."):
            raise NotEditable(f"{name} at {where} calls {func.value}, which may do more than to compute")
    _check_writes(source, function, given, values)


def _check_writes(
    source: Source, function: cst.FunctionDef, given: Sequence[str], values: dict[str, list[cst.BaseExpression | None]]
) -> None:
    """Raise ``NotEditable`` where a function writes into what it is given, or returns what others may write into."""
    where, name, body = place(source, function.name), function.name.value, function.body
    for node in matchers.findall(body, matchers.OneOf(matchers.AssignTarget(), matchers.AugAssign())):
        target = node.target if isinstance(node, cst.AssignTarget | cst.AugAssign) else None
        if isinstance(node, cst.AugAssign) or not isinstance(target, cst.Name | cst.Tuple):
            _check_own(source, target, values, f"{name} at {where}")
    for node in matchers.findall(body, matchers.Return()):
        if (
            not isinstance(node, cst.Return)
            or isinstance(node.value, cst.List | cst.Dict | cst.ListComp)
            or not node.value
        ):
            raise NotEditable(f"{name} at {where} returns what its callers may change")
        if written(node.value) in given:
            raise NotEditable(f"{name} at {where} returns what it is given")


def _assigned(node: cst.CSTNode) -> dict[str, list[cst.BaseExpression | None]]:
    """Return the values that names are given inside of *node*; None for what a loop or a part of a tuple gives."""
    out: dict[str, list[cst.BaseExpression | None]] = {}
    for assign in matchers.findall(node, matchers.Assign()):
        for target in assign.targets if isinstance(assign, cst.Assign) else ():
            if isinstance(target.target, cst.Name) and isinstance(assign, cst.Assign):
                out.setdefault(target.target.value, []).append(assign.value)
            else:
                for name in matchers.findall(target.target, matchers.Name()):
                    out.setdefault(written(name), []).append(None)
    for loop in matchers.findall(node, matchers.OneOf(matchers.For(), matchers.CompFor())):
        if isinstance(loop, cst.For | cst.CompFor):
            for name in matchers.findall(loop.target, matchers.Name()):
                out.setdefault(written(name), []).append(None)
    return out


def _is_known(source: Source, node: cst.Name, local: set[str], own: str) -> bool:
    """Tell a name that stands for the same in each call: an argument, what was made of them, a module, a constant."""
    outer = source.parent(node)
    if isinstance(outer, cst.Attribute) and outer.attr is node:
        return True
    if isinstance(outer, cst.Arg) and outer.keyword is node:
        return True
    if node.value == own:
        return False
    if node.value in local or node.value in _PLAIN or node.value in ("True", "False", "None"):
        return True
    if source.name(node).partition(".")[0] in ("torch", "math", "numpy"):
        return True
    given = source.assigned(node.value)
    return node.value.isupper() and len(given) == 1 and is_literal(given[0])


def _check_own(
    source: Source, target: cst.BaseExpression | None, values: dict[str, list[cst.BaseExpression | None]], who: str
) -> None:
    """Raise ``NotEditable`` where a function changes something in place that it has not made itself."""
    at = target
    while isinstance(at, cst.Subscript | cst.Attribute) or (
        isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute)
    ):
        if isinstance(at, cst.Call) and source.name(at.func) in _MADE:
            return
        at = at.func if isinstance(at, cst.Call) else at.value
    given = values.get(at.value, []) if isinstance(at, cst.Name) else []
    if not given or not all(isinstance(one, cst.Call) and _is_made(source, one) for one in given):
        raise NotEditable(f"{who} changes {written(target) if target is not None else 'something'} in place")


def _is_made(source: Source, call: cst.Call) -> bool:
    """Tell a new tensor: what one of torch's makers returns, perhaps changed by methods behind it."""
    at: cst.BaseExpression = call
    while isinstance(at, cst.Call):
        if source.name(at.func) in _MADE:
            return True
        at = at.func.value if isinstance(at.func, cst.Attribute) else at.func
    return False


def _check_calls(
    sources: Sequence[Source], source: Source, function: cst.FunctionDef, given: Sequence[str], *, method: bool
) -> None:
    """Raise ``NotEditable`` unless all calls hand in what their own function was given, and none changes what comes back."""
    name = function.name.value
    names = set(given)
    found = 0
    for each in sources:
        if sum(one.name.value == name for one in functions(each)) > (each is source):
            raise NotEditable(f"{name} is the name of several functions")
        for node in matchers.findall(each.module, matchers.Name(name)):
            outer = each.parent(node)
            if outer is function or isinstance(outer, cst.ImportAlias):
                continue
            call = each.parent(outer) if isinstance(outer, cst.Attribute) else outer
            func = outer if isinstance(outer, cst.Attribute) else node
            wanted = f"self.{name}" if method else name
            if not isinstance(call, cst.Call) or call.func is not func or written(func) != wanted:
                raise NotEditable(f"{name} is used at {place(each, node)} other than by a call of {wanted}")
            names |= _check_call(each, call, name)
            found += 1
    if not found:
        raise NotEditable(f"no call of {name} stands in the files that the finding names")
    changed_names = "|".join(map(re.escape, sorted(names)))
    later = re.compile(rf"\b(?:{changed_names})(?:\[[^\]\n]*\]\s*(?:[-+*/|&]?=(?!=))|\s*[-+*/|&]=|\.\w+_\()")
    for each in sources:
        if (match := later.search(each.text)) is not None:
            raise NotEditable(
                f"{each.path} changes what {name} is given, or what has the same name: {match[0].strip()}"
            )


def _check_call(source: Source, call: cst.Call, name: str) -> set[str]:
    """Check one call; returns the names of the tensors that it hands in."""
    where = place(source, call)
    around = function_around(source, call)
    if around is None:
        raise NotEditable(f"{name} at {where} is called outside of functions, once perhaps")
    own = {param.name.value for param in around.params.params} - set(_assigned(around.body))
    names = set()
    for arg in call.args:
        text = written(arg.value)
        if arg.star or not (text in own or is_literal(arg.value) or _NUMBER.fullmatch(text)):
            raise NotEditable(
                f"{name} at {where} is given {text or 'several'}, which may be another tensor in each step"
            )
        if text in own:
            names.add(text)
    if not names:
        raise NotEditable(f"{name} at {where} is given no tensor that its caller has")
    holder = source.parent(call)
    if isinstance(holder, cst.Arg):
        outer = source.parent(holder)
        if isinstance(outer, cst.Call) and source.name(outer.func).startswith("torch."):
            return names
    if not isinstance(holder, cst.Assign) or len(holder.targets) != 1:
        raise NotEditable(f"what {name} returns at {where} goes on to where it may be changed")
    for node in matchers.findall(holder.targets[0].target, matchers.Name()):
        _check_unchanged(source, around, written(node), name)
    return names


def _check_unchanged(source: Source, around: cst.FunctionDef, kept: str, name: str) -> None:
    """Raise ``NotEditable`` where the caller changes what it was given back, or hands it on."""
    values = _assigned(around.body).get(kept, [])
    text = re.escape(kept)
    pattern = rf"\b{text}\s*(?:\[[^\]\n]*\]\s*[-+*/|&]?=(?!=)|[-+*/|&]=|\.\w+_\(|\.\w+\s*=(?!=))"
    if len(values) != 1 or re.search(pattern, source.code(around)):
        raise NotEditable(f"{around.name.value} in {source.path} changes what {name} returns")
    for node in matchers.findall(around.body, matchers.OneOf(matchers.Return(), matchers.Assign())):
        value = node.value if isinstance(node, cst.Return | cst.Assign) else None
        if value is not None and written(value) == kept:
            raise NotEditable(f"{around.name.value} in {source.path} hands on what {name} returns")


EDITS = (Edit("kept-result", "Prepare data once, and keep the result", ("cpu/repeated-preparation", _SHARED), _make),)
