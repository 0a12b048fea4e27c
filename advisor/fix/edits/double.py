"""Double precision that came in with NumPy: its arrays are converted to float32 where they enter, and the model stays there."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import class_around, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_MODULES = ("torch.nn.",)
_CONVERTING = ("float", "long", "int", "bool", "half", "bfloat16", "to", "type", "double")


def _make(request: Request) -> Iterator[Change]:
    for source in request.sources():
        entries, doubles = list(_entries(source)), list(_doubles(source))
        pieces = [*entries, *doubles]
        if doubles and not entries and (call := _unknown(source)) is not None:
            raise NotEditable(f"whether float64 enters at {place(source, call)} is not certain, and the model is in it")
        if pieces:
            yield changed(source, pieces, f"float32 where the data enters {source.path}, and no .double()")
            return
    raise NotEditable(
        "no NumPy array enters by torch.from_numpy in the files that the finding names, and no .double() is called"
    )


def _entries(source: Source) -> Iterator[Piece]:
    """Convert what enters by ``torch.from_numpy(array)``: NumPy's float64 alone, as ``Tensor.float`` does."""
    for call in source.calls("torch.from_numpy"):
        if len(call.args) != 1 or call.args[0].keyword is not None or call.args[0].star:
            continue
        value = call.args[0].value
        if _is_converted(source, call) or not _may_be_float(source, value):
            continue
        yield Piece(source.end(call), source.end(call), ".float()")


def _unknown(source: Source) -> cst.Call | None:
    """Return a call by which an array enters that may be one of floats, and is not converted; None where there is none."""
    calls = source.calls("torch.from_numpy")
    return next((call for call in calls if not _is_converted(source, call)), None)


def _is_converted(source: Source, call: cst.Call) -> bool:
    """Tell a tensor that a method behind it in the same expression gives another type, or may: ``x.unsqueeze(0).to(dtype)``."""
    at: cst.CSTNode = call
    holder = source.parent(at)
    while isinstance(holder, cst.Attribute) and holder.value is at:
        if holder.attr.value in _CONVERTING:
            return True
        outer = source.parent(holder)
        at = outer if isinstance(outer, cst.Call) and outer.func is holder else holder
        holder = source.parent(at)
    return False


def _may_be_float(source: Source, value: cst.BaseExpression) -> bool:
    """Tell an array that is certain to hold floats: a name assigned from arithmetic or from NumPy's random floats."""
    seen: set[str] = set()
    return _is_float(source, value, seen)


_FLOATS = (
    "normal",
    "standard_normal",
    "uniform",
    "random",
    "rand",
    "randn",
    "linspace",
    "random_sample",
    "exponential",
    "beta",
    "gamma",
    "zeros",
    "ones",
    "hypot",
)
_KEEPING = ("tanh", "exp", "log", "sqrt", "sin", "cos", "log1p", "expm1", "mean", "std", "var")
_OF_TWO = ("maximum", "minimum", "add", "subtract", "multiply", "power", "dot", "matmul", "outer", "abs")
_JOINING = ("concatenate", "stack", "hstack", "vstack", "column_stack")
_SHAPING = ("reshape", "copy", "transpose", "ravel", "flatten", "squeeze", "clip", "T")


def _is_float(source: Source, value: cst.BaseExpression, seen: set[str]) -> bool:
    if isinstance(value, cst.Float):
        return True
    if isinstance(value, cst.Name):
        if value.value in seen:
            return False
        given = source.assigned(value.value)
        return bool(given) and any(_is_float(source, one, {*seen, value.value}) for one in given)
    if isinstance(value, cst.BinaryOperation):
        return (
            isinstance(value.operator, cst.Divide)
            or _is_float(source, value.left, seen)
            or _is_float(source, value.right, seen)
        )
    if isinstance(value, cst.Subscript) or (isinstance(value, cst.Attribute) and value.attr.value == "T"):
        return _is_float(source, value.value, seen)
    if isinstance(value, cst.Attribute):
        return _holds_float(source, value, seen)
    return isinstance(value, cst.Call) and _returns_float(source, value, seen)


def _holds_float(source: Source, value: cst.Attribute, seen: set[str]) -> bool:
    """Tell an attribute of an object that its class gives floats, wherever its methods assign it."""
    name, owner = written(value), class_around(source, value)
    if name in seen or owner is None or not name.startswith("self."):
        return False
    given = [
        assign.value
        for assign in matchers.findall(owner, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(written(target.target) == name for target in assign.targets)
    ]
    return bool(given) and all(_is_float(source, one, {*seen, name}) for one in given)


def _returns_float(source: Source, call: cst.Call, seen: set[str]) -> bool:
    """Tell a call that returns floats: of NumPy, or of a function of the file that does."""
    if isinstance(call.func, cst.Name):
        return any(_is_float(source, one, seen) for one in source.returned(call.func.value))
    if not isinstance(call.func, cst.Attribute):
        return False
    if any(arg.keyword is not None and arg.keyword.value == "dtype" for arg in call.args):
        return False
    name = call.func.attr.value
    if name in _JOINING and call.args:
        joined = call.args[0].value
        if isinstance(joined, cst.ListComp):
            return _is_float(source, joined.elt, seen)
        parts = joined.elements if isinstance(joined, cst.List | cst.Tuple) else ()
        return any(_is_float(source, part.value, seen) for part in parts)
    if name in _OF_TWO and source.name(call.func).startswith("numpy."):
        return any(_is_float(source, arg.value, seen) for arg in call.args if arg.keyword is None and not arg.star)
    return name in _FLOATS or name in _KEEPING or (name in _SHAPING and _is_float(source, call.func.value, seen))


def _doubles(source: Source) -> Iterator[Piece]:
    """Take ``.double()`` off what is built: a module of torch.nn, or a class of the file that is one."""
    for call in source.method_calls("double"):
        func = call.func
        if call.args or not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Call):
            continue
        name = source.name(func.value.func)
        if name.startswith(_MODULES) or _is_module(source, func.value.func):
            yield Piece(source.end(func.value), source.end(call), "")


def _is_module(source: Source, func: cst.BaseExpression) -> bool:
    if not isinstance(func, cst.Name):
        return False
    for statement in source.module.body:
        if isinstance(statement, cst.ClassDef) and statement.name.value == func.value:
            return any(source.name(base.value) == "torch.nn.Module" for base in statement.bases)
    return False


EDITS = (
    Edit(
        "float32",
        "Make the data float32 where it enters, and leave the model in float32",
        ("cpu/float64", "precision/float64", "cpu/slow-convolution"),
        _make,
    ),
)
