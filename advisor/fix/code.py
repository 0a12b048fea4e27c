"""Parts of a parsed file that edits ask for: functions, classes that are modules, what a node calls, places for new lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
from libcst import matchers

from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_STRIP_CALLS = 8
_UNMARKED = regex(r"requires_grad_?\s*[=(]\s*False")
_LEARNING = regex(
    r"\.backward\b|autograd|requires_grad|enable_grad|set_grad_enabled|retain_grad|torch\.func\b|\boptim\b|\boptimizer\b"
)


def torch_name(source: Source) -> str:
    """Return the name by which a file knows torch. Raises ``NotEditable`` where its head does not import it."""
    name = source.imported_as("torch")
    if name is None:
        raise NotEditable(f"{source.path} does not import torch at its head")
    return name


def calls_in(node: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the calls inside of *node*."""
    for call in matchers.findall(node, matchers.Call()):
        if isinstance(call, cst.Call):
            yield call


def functions(source: Source) -> Iterator[cst.FunctionDef]:
    """Yield the functions and methods of a file that stand in no other function, in order."""
    found = [
        node for node in matchers.findall(source.module, matchers.FunctionDef()) if isinstance(node, cst.FunctionDef)
    ]
    for function in sorted(found, key=source.start):
        if not any(isinstance(outer, cst.FunctionDef | cst.Lambda) for outer in source.around(function)):
            yield function


def function_around(source: Source, node: cst.CSTNode) -> cst.FunctionDef | None:
    """Return the innermost function that holds *node*; None where it is code of the module."""
    return next((outer for outer in source.around(node) if isinstance(outer, cst.FunctionDef)), None)


def class_around(source: Source, node: cst.CSTNode) -> cst.ClassDef | None:
    """Return the innermost class that holds *node*."""
    return next((outer for outer in source.around(node) if isinstance(outer, cst.ClassDef)), None)


def classes(source: Source) -> dict[str, cst.ClassDef]:
    """Return the classes of a file by name."""
    return {node.name.value: node for node in source.module.body if isinstance(node, cst.ClassDef)}


def is_module_class(source: Source, node: cst.ClassDef | None) -> bool:
    """Tell whether a class of the file is an ``nn.Module``, by its bases, those of the file included."""
    known, seen = classes(source), set()
    while node is not None and node.name.value not in seen:
        seen.add(node.name.value)
        if any(source.name(base.value).startswith("torch.nn.") for base in node.bases):
            return True
        named = [base.value.value for base in node.bases if isinstance(base.value, cst.Name)]
        node = next((known[name] for name in named if name in known), None)
    return False


def assigned_pairs(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Return what an assignment gives to what: ``a, b = 1, 2`` are two pairs."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        return [(left.value, right.value) for left, right in zip(target.elements, value.elements, strict=True)]
    return [(target, value)]


def makes_module(source: Source, value: cst.BaseExpression) -> bool:
    """Tell whether an expression makes a model: a call of a class that is one, behind it perhaps ``.to(…)`` or ``.eval()``."""
    for _ in range(_STRIP_CALLS):
        if not isinstance(value, cst.Call):
            return False
        name = source.name(value.func)
        if name.startswith(("torch.nn.", "torchvision.models.")) and not name.startswith("torch.nn.functional"):
            return not name.startswith(("torch.nn.Parameter", "torch.nn.init", "torch.nn.utils"))
        if isinstance(value.func, cst.Name):
            return is_module_class(source, classes(source).get(value.func.value))
        if not isinstance(value.func, cst.Attribute):
            return False
        if value.func.attr.value == "from_pretrained":
            return True
        value = value.func.value
    return False


def only_optimizer(sources: Sequence[Source]) -> tuple[Source, cst.Call]:
    """Return the one optimizer that the files make, with the file. Raises ``NotEditable`` unless it is one."""
    found = [
        (source, call)
        for source in sources
        for call in calls_in(source.module)
        if re.fullmatch(r"torch\.optim\.(?!lr_scheduler\.|swa_utils\.)(\w+\.)?[A-Z]\w*", source.name(call.func))
    ]
    if len(found) != 1:
        raise NotEditable(f"{len(found)} optimizers are made by name in the files that the finding names, not one")
    return found[0]


def learns(text: str) -> bool:
    """Tell whether code speaks of gradients or an optimizer, other than to say that parameters need none."""
    return _LEARNING.search(_UNMARKED.sub("", text)) is not None


def indent_of(source: Source, number: int) -> str:
    """Return the white space that a line begins with."""
    line = source.line(number)
    return line[: len(line) - len(line.lstrip())]


def line_before(source: Source, node: cst.CSTNode, code: str) -> Piece:
    """Return the piece that puts a line of code before the line of *node*, as far in as that."""
    number = source.lines(node)[0]
    at = source.line_start(number)
    return Piece(at, at, f"{indent_of(source, number)}{code}{source.newline}")


def decorated(source: Source, function: cst.FunctionDef, decorator: str) -> Piece:
    """Return the piece that puts a decorator right above a function, below those that it has."""
    return line_before(source, function.name, decorator)


def unused_name(source: Source, *wanted: str) -> str:
    """Return the first of *wanted* that the file does not use. Raises ``NotEditable`` where it uses all."""
    for name in wanted:
        if re.search(rf"\b{re.escape(name)}\b", source.text) is None:
            return name
    raise NotEditable(f"{source.path} uses the name {wanted[-1]} already")


def imported(source: Source, module: str) -> list[Piece]:
    """Return the piece that imports a module of Python's among the plain imports of the head, in order; none where it is."""
    known = source.imported_as(module)
    if known == module:
        return []
    plain = [
        line
        for line in source.module.body
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and isinstance(line.body[0], cst.Import)
    ]
    if known is not None or not plain:
        raise NotEditable(f"{source.path} has no place for import {module}")
    later = (line for line in plain if source.code(line.body[0]) > f"import {module}")
    before = next(later, None)
    at = (
        source.line_start(source.lines(before)[0])
        if before is not None
        else source.line_start(source.lines(plain[-1])[1] + 1)
    )
    return [Piece(at, at, f"import {module}{source.newline}")]


def written(node: cst.CSTNode) -> str:
    """Return an expression without white space and without parentheses around it."""
    text = re.sub(r"\s+", "", cst.Module([]).code_for_node(node))
    while text.startswith("(") and text.endswith(")") and _one_pair(text):
        text = text[1:-1]
    return text


def _one_pair(text: str) -> bool:
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0:
            return at == len(text) - 1
    return False


def models(source: Source) -> set[str]:
    """Return what models are called in a file: what it assigns a module to, and what it calls ``eval()`` of."""
    out = set()
    for call in source.method_calls("eval"):
        if (
            not call.args
            and isinstance(call.func, cst.Attribute)
            and isinstance(call.func.value, cst.Name | cst.Attribute)
        ):
            out.add(source.code(call.func.value))
    for assign in matchers.findall(source.module, matchers.Assign()):
        if isinstance(assign, cst.Assign):
            pairs = [pair for target in assign.targets for pair in assigned_pairs(target.target, assign.value)]
            out |= {
                source.code(to) for to, value in pairs if makes_module(source, value) and _is_plain(source, to, assign)
            }
    return out


def _is_plain(source: Source, target: cst.BaseExpression, assign: cst.Assign) -> bool:
    """Tell a name outside of modules: a layer that a module assigns to itself is no model that a loop would call."""
    return isinstance(target, cst.Name | cst.Attribute) and not is_module_class(source, class_around(source, assign))


def called(call: cst.Call) -> str:
    """Return what is called as it is written, such as ``self.model``; empty where it is no plain name."""
    parts: list[str] = []
    at: cst.BaseExpression = call.func
    while isinstance(at, cst.Attribute):
        parts.append(at.attr.value)
        at = at.value
    return ".".join([at.value, *reversed(parts)]) if isinstance(at, cst.Name) else ""


def names_of(node: cst.CSTNode) -> set[str]:
    """Return the names in *node*, those of attributes left out."""
    attributes = {each.attr for each in matchers.findall(node, matchers.Attribute()) if isinstance(each, cst.Attribute)}
    found = (each for each in matchers.findall(node, matchers.Name()) if isinstance(each, cst.Name))
    return {each.value for each in found if each not in attributes}


def bindings(function: cst.CSTNode, name: str) -> int:
    """Count where a function gives *name* a value: parameters, assignments of each kind, loops, with, imports."""
    count = 0
    for node in matchers.findall(
        function,
        matchers.AssignTarget()
        | matchers.AugAssign()
        | matchers.AnnAssign()
        | matchers.NamedExpr()
        | matchers.For()
        | matchers.AsName()
        | matchers.Param()
        | matchers.Del(),
    ):
        target = node.name if isinstance(node, cst.Param | cst.AsName) else getattr(node, "target", node)
        if isinstance(target, cst.Subscript | cst.Attribute):
            continue  # a part of it
        count += name in names_of(target)
    return count


def check_alone(source: Source, loop: cst.For, names: set[str]) -> None:
    """Raise ``NotEditable`` where names of a loop stand elsewhere in its function, other than in what gives them a value itself."""
    around: cst.CSTNode = function_around(source, loop) or source.module
    outer = list(source.around(loop))
    for node in matchers.findall(around, matchers.Name()):
        if (
            not isinstance(node, cst.Name)
            or node.value not in names
            or source.start(loop) <= source.start(node) < source.end(loop)
        ):
            continue
        parent = source.parent(node)
        named = isinstance(parent, cst.Attribute) and parent.attr is node
        keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if not named and not keyword and not _binds(source, node, outer):
            raise NotEditable(
                f"{node.value} of the loop at {source.path}:{source.lines(loop)[0]} stands elsewhere in the function"
            )


def _binds(source: Source, node: cst.Name, outer: Sequence[cst.CSTNode]) -> bool:
    """Tell a name of another loop, or of a comprehension, that gives it a value before it is read there."""
    for each in source.around(node):
        if isinstance(each, cst.FunctionDef) or each in outer:
            return False
        clause = each if isinstance(each, cst.For) else getattr(each, "for_in", None)
        if isinstance(clause, cst.For | cst.CompFor) and node.value in names_of(clause.target):
            return node.value not in names_of(clause.iter)
    return False
