"""Sums and means of the rows of each group that a loop takes by a mask: of all groups at once, by index_add.

As hand-written graph layers have it, a node at a time, and prototypes, a class at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import (
    bindings,
    check_alone,
    class_around,
    function_around,
    indent_of,
    names_of,
    torch_name,
    unused_name,
    written,
)
from advisor.fix.edit import Change, Edit, Request, changed, first_possible, loops_at
from advisor.fix.source import NotEditable, Piece, Source
from advisor.regex import regex

_BY_ELEMENT = (
    *(
        "abs",
        "clone",
        "cos",
        "detach",
        "double",
        "exp",
        "float",
        "half",
        "log",
        "neg",
        "relu",
        "rsqrt",
        "sigmoid",
        "sin",
    ),
    *("softplus", "sqrt", "square", "tanh"),
)
"""Methods that compute each element by itself."""
_FUNCTIONS = tuple(
    f"{module}.{name}"
    for module in ("torch", "torch.nn.functional")
    for name in (*_BY_ELEMENT, "elu", "gelu", "leaky_relu", "silu")
)
_OTHERWISE = regex(r"requires_grad|dtype|\.long|\.int|\.bool")
"""Words of a table that is no plain one of floats."""
_WRITES = ("inplace", "out")
_REDUCED = regex(r"^(mean|sum)\((?:dim=)?0(,keepdim=True)?\)$")
_DOUBTFUL = regex(r"autocast|float16|\.half\(|register_forward|ignore_index|-100\b")
"""Words of a file in which sums of all rows may overflow, layers may look at a batch, or labels may be of no group."""
_ZEROS = ("torch.zeros", "torch.zeros_like")


@dataclass(frozen=True)
class Group:
    """The rows of a group: those where *key* is the number that the loop counts by *count*; *members* names them."""

    key: str
    count: str
    members: str


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded sums or averages the rows of groups in a loop"
    loops = ((source, loop) for source, loop in loops_at(request) if not matchers.findall(loop.body, matchers.For()))
    return first_possible(loops, _all_groups, because)


def _all_groups(source: Source, loop: cst.For) -> Change:
    return changed(
        source,
        [_at_once(source, loop)],
        f"all groups at once, {place(source, loop)}; each row has to be of one of them",
    )


def _at_once(source: Source, loop: cst.For) -> Piece:
    """Return the piece that sums the rows of all groups in place of the loop."""
    where = place(source, loop)
    lines = list(loop.body.body)
    if _DOUBTFUL.search(source.text):
        raise NotEditable(f"{source.path} computes in half precision, hooks layers or leaves labels out")
    rows = re.fullmatch(r"range\((.*)\)", written(loop.iter))
    if not isinstance(loop.target, cst.Name) or rows is None or loop.orelse is not None or len(lines) < 2:
        raise NotEditable(f"the loop at {where} is not over groups")
    if "#" in source.text[source.start(loop) : source.end(loop)]:
        raise NotEditable(f"a comment stands in the loop at {where}")
    group = _group(source, lines[0], loop.target.value, where)
    own = {loop.target.value, group.members, *(names_of(target.target).pop() for target in _targets(lines[1:-1]))}
    skips = _skips(lines[1], group)
    reader = _Rows(source, group, where, own)
    texts = [reader.assigned(line) for line in lines[2 if skips else 1 : -1]]
    out, value, reduction, added = _result(lines[-1], group, where)
    _check_out(source, loop, out, rows[1], made=not added)
    around: cst.CSTNode = function_around(source, loop) or source.module
    sizes = names_of(cst.parse_expression(rows[1]))
    if any(out in names_of(line) for line in [*lines[:-1], value]) or any(bindings(around, name) > 1 for name in sizes):
        raise NotEditable(f"the loop at {where} reads what it writes, or counts to what changes")
    check_alone(source, loop, own)
    new = reader.text(value)
    if not added:
        new = f"({new}).to({out}.dtype)" if isinstance(value, cst.BinaryOperation) else f"{new}.to({out}.dtype)"
    torch = torch_name(source)
    indent = indent_of(source, source.lines(loop)[0])
    if reduction == "sum":
        texts.append(f"{out} = {out}.index_add(0, {group.key}, {new})")
    else:
        counts = unused_name(source, "counts", "group_sizes")
        clamped = ".clamp(min=1)" if skips else ""  # else an empty group is not a number, as it was
        texts.append(f"{counts} = {torch}.bincount({group.key}, minlength={out}.shape[0]){clamped}")
        sums = f"{torch}.zeros_like({out}).index_add(0, {group.key}, {new})"
        texts.append(f"{out} = {out} + ({sums}.movedim(0, -1) / {counts}).movedim(-1, 0)")
    return Piece(source.start(loop), source.end(loop), f"{source.newline}{indent}".join(texts))


def _group(source: Source, line: cst.CSTNode, count: str, where: str) -> Group:
    """Read ``rows = (key == node).nonzero().squeeze(1)``, or a mask."""
    match = re.fullmatch(r"(\w+)=(.*)", written(line))
    told = match[2] if match is not None else ""
    for form in (
        r"\((.*)\)\.nonzero\(\)\.(?:squeeze\((?:1|-1)\)|flatten\(\)|view\(-1\))",
        r"\((.*)\)\.nonzero\(as_tuple=True\)\[0\]",
        rf"{torch_name(source)}\.where\((.*)\)\[0\]",
        rf"{torch_name(source)}\.nonzero\((.*)\)\.(?:squeeze\((?:1|-1)\)|flatten\(\)|view\(-1\))",
    ):
        if (found := re.fullmatch(form, told)) is not None:
            told = found[1]
            break
    compared = re.fullmatch(r"([\w.]+)==([\w.]+)", told)
    if match is None or compared is None or count not in compared.groups() or compared[1] == compared[2]:
        raise NotEditable(f"the loop at {where} does not begin with the rows of a group")
    return Group(compared[2] if compared[1] == count else compared[1], count, match[1])


def _skips(line: cst.CSTNode, group: Group) -> bool:
    """Tell ``if len(rows) == 0: continue``."""
    name = re.escape(group.members)
    text = written(line).removesuffix(":continue").removeprefix("if")
    if not isinstance(line, cst.If) or line.orelse is not None or not written(line).endswith(":continue"):
        return False
    return (
        re.fullmatch(
            rf"(?:len\({name}\)|{name}\.(?:numel\(\)|size\(0\)|shape\[0\]|sum\(\)))==0|not{name}\.any\(\)", text
        )
        is not None
    )


def is_linear(source: Source, node: cst.Call) -> bool:
    """Tell the call of a linear layer of the module's own, which treats each row alike."""
    owner = class_around(source, node)
    if owner is None or re.fullmatch(r"self\.\w+", written(node.func)) is None or len(node.args) != 1:
        return False
    made = [
        assign.value
        for assign in matchers.findall(owner, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(to.target) == written(node.func) for to in assign.targets)
    ]
    return len(made) == 1 and isinstance(made[0], cst.Call) and source.name(made[0].func) == "torch.nn.Linear"


class _Rows:
    """Reads expressions of which each row follows from one member of the group, and writes them for all members of all groups."""

    def __init__(self, source: Source, group: Group, where: str, own: set[str]) -> None:
        self._source, self._group, self._where, self._own = source, group, where, own
        self.names: set[str] = set()
        """Names that the loop gives such rows."""

    def assigned(self, line: cst.CSTNode) -> str:
        """Write a line of the loop that gives a name rows."""
        if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            line = line.body[0]
        target = line.targets[0].target if isinstance(line, cst.Assign) and len(line.targets) == 1 else None
        if not isinstance(line, cst.Assign) or not isinstance(target, cst.Name):
            raise NotEditable(f"the loop at {self._where} does more than to sum the rows of groups")
        text = self.text(line.value)
        self.names.add(target.value)
        return f"{target.value} = {text}"

    def text(self, node: cst.BaseExpression) -> str:
        """Write an expression. Raises ``NotEditable`` where its rows may follow from several members."""
        if isinstance(node, cst.Name) and node.value in self.names:
            return self._source.code(node)
        if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            return self._picked(node, node.slice[0].slice.value)
        if isinstance(node, cst.Call):
            return self._called(node)
        if isinstance(node, cst.BinaryOperation):
            return self._combined(node)
        raise self._refusal(node)

    def _picked(self, node: cst.Subscript, index: cst.BaseExpression) -> str:
        base = self._source.code(node.value)
        if not self._is_free(node.value):
            raise self._refusal(node)
        if written(index) == self._group.members:
            return base
        return f"{base}[{self.text(index)}]"

    def _called(self, node: cst.Call) -> str:
        name = self._source.name(node.func)
        values = [arg.value for arg in node.args]
        if name == "torch.bmm" and len(values) == len(("left", "right")):
            return f"{self._source.code(node.func)}({self.text(values[0])}, {self.text(values[1])})"
        layer = name in (*_FUNCTIONS, "torch.nn.functional.linear") or is_linear(self._source, node)
        if values and layer and self._takes_rows_alone(node):
            rest = [self._source.code(arg) for arg in node.args[1:]]
            return f"{self._source.code(node.func)}({', '.join([self.text(values[0]), *rest])})"
        if not isinstance(node.func, cst.Attribute):
            raise self._refusal(node)
        method, given = node.func.attr.value, [written(value) for value in values]
        moved = method in ("squeeze", "unsqueeze") and len(given) == 1 and given[0].isdigit() and given[0] != "0"
        if moved or (method in _BY_ELEMENT and not given):
            return f"{self.text(node.func.value)}.{method}({', '.join(given)})"
        raise self._refusal(node)

    def _takes_rows_alone(self, node: cst.Call) -> bool:
        """Tell a call whose other arguments are the same for each group, and that writes nothing in place."""
        free = all(self._is_free(arg.value) and written(arg.value) not in ("True", "out") for arg in node.args[1:])
        return free and not any(
            arg.star or (arg.keyword is not None and arg.keyword.value in _WRITES) for arg in node.args
        )

    def _combined(self, node: cst.BinaryOperation) -> str:
        """Write a sum or product of rows with rows, or with a number: a table may have a row for each member."""
        if not isinstance(node.operator, cst.Add | cst.Subtract | cst.Multiply | cst.Divide):
            raise self._refusal(node)
        number = [isinstance(side, cst.Integer | cst.Float) for side in (node.left, node.right)]
        sides = [
            self._source.code(side) if known else self.text(side)
            for side, known in zip((node.left, node.right), number, strict=True)
        ]
        text = f"{sides[0]}{cst.Module([]).code_for_node(node.operator)}{sides[1]}"
        return f"({text})" if node.lpar else text

    def _is_free(self, node: cst.BaseExpression) -> bool:
        """Tell what is the same for each group: a number, a name, an attribute, without the loop's own names."""
        return not names_of(node) & self._own and not matchers.findall(node, matchers.Call() | matchers.NamedExpr())

    def _refusal(self, node: cst.CSTNode) -> NotEditable:
        return NotEditable(f"whether {written(node)} at {self._where} treats each row by itself is not certain")


def _result(line: cst.CSTNode, group: Group, where: str) -> tuple[str, cst.BaseExpression, str, bool]:
    """Return the table of results, the rows, ``sum`` or ``mean``, and whether they are added to what there was."""
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        line = line.body[0]
    refusal = NotEditable(f"the loop at {where} does not end with a sum or mean of each group")
    value: cst.BaseExpression | None = None
    out, added, kept = "", False, False
    if isinstance(line, cst.AugAssign) and isinstance(line.operator, cst.AddAssign):
        out, value = _row_of(line.target, group), line.value
    elif isinstance(line, cst.Assign) and len(line.targets) == 1:
        target = line.targets[0].target
        out, value = _row_of(target, group), line.value
        call = line.value
        if (
            isinstance(target, cst.Name)
            and isinstance(call, cst.Call)
            and len(call.args) == len(("dim", "index", "rows"))
        ):
            places = rf"[\w.]+\(\[{group.count}\](,device=[\w.]+)?\)"
            asked = f"{target.value}.index_add(0,"
            if written(call).startswith(asked) and re.fullmatch(places, written(call.args[1].value)):
                out, value, added, kept = target.value, call.args[2].value, True, True
    if not out or not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        raise refusal
    given_to = ",".join(written(arg).rstrip(",") for arg in value.args)
    match = _REDUCED.match(f"{value.func.attr.value}({given_to})")
    if match is None or bool(match[2]) != kept:
        raise refusal
    return out, value.func.value, match[1], added


def _row_of(target: cst.BaseExpression, group: Group) -> str:
    match = re.fullmatch(rf"(\w+)\[{re.escape(group.count)}\]", written(target))
    return match[1] if match is not None else ""


def _check_out(source: Source, loop: cst.For, out: str, rows: str, *, made: bool) -> None:
    """Raise ``NotEditable`` unless the table has as many rows as there are groups; *made*: unless it is made of zeros, too."""
    where = place(source, loop)
    value = _made_by(source, loop, out)
    if value is None:
        raise NotEditable(f"what {out} at {where} is before the loop is not certain")
    if made and (source.name(value.func) not in _ZEROS or _OTHERWISE.search(source.code(value))):
        raise NotEditable(f"whether {out} at {where} is made of zeros is not certain")
    if not _has_rows(source, value, out, rows):
        raise NotEditable(f"whether {out} at {where} has a row for each group is not certain")


def _targets(lines: Sequence[cst.CSTNode]) -> list[cst.AssignTarget]:
    found = (each for line in lines for each in matchers.findall(line, matchers.AssignTarget()))
    return [each for each in found if isinstance(each, cst.AssignTarget) and isinstance(each.target, cst.Name)]


def _made_by(source: Source, loop: cst.For, out: str) -> cst.Call | None:
    """Return the call that gives a name its value in the loop's own block, where nothing names it between or before."""
    around: cst.CSTNode = function_around(source, loop) or source.module
    block = source.parent(loop)
    lines = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else []
    before = [line for line in lines if source.end(line) <= source.start(loop) and out in names_of(line)]
    assign = before[0].body[0] if len(before) == 1 and isinstance(before[0], cst.SimpleStatementLine) else None
    inside = [each for each in matchers.findall(around, matchers.Name(out)) if source.start(each) < source.start(loop)]
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or len(inside) != 1:
        return None
    plain = isinstance(assign.targets[0].target, cst.Name)
    return assign.value if plain and isinstance(assign.value, cst.Call) else None


def _has_rows(source: Source, value: cst.Call, out: str, rows: str) -> bool:
    """Tell whether what a call makes has as many rows as the loop counts to."""
    sizes = [written(arg.value) for arg in value.args if arg.keyword is None]
    if sizes and sizes[0].lstrip("([").partition(",")[0] == rows:
        return True
    of = re.fullmatch(r"len\((\w+)\)|(\w+)\.(?:shape\[0\]|size\(0\))", rows)
    table = (of[1] or of[2]) if of is not None else None
    # A layer of the same table, or zeros like it: as many rows as that has.
    like = is_linear(source, value) or source.name(value.func) == "torch.zeros_like"
    return table is not None and (table == out or (like and sizes == [table]))


EDITS = (
    Edit(
        "groups-at-once",
        "Sum the rows of all groups at once",
        ("cpu/separate-turns", "cpu/tiny-operators", "cpu/element-loop", "kernels/for-loop-indexing"),
        _make,
    ),
)
