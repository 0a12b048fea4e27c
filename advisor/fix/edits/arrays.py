"""Lists that torch.tensor converts element by element: joined by NumPy, or shared array by array and joined by torch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from advisor.fix.arguments import place
from advisor.fix.code import torch_name, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source
from advisor.results.analysis import Finding

_TYPES = {
    "float32": "float32", "float": "float32", "float64": "float64", "double": "float64", "float16": "float16", "half": "float16",
    "int64": "int64", "long": "int64", "int32": "int32", "int": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
    "bool": "bool_",
}  # fmt: skip
"""NumPy's formats by torch's; bfloat16 has none."""
_LONG_MS = 2.0
"""Time that torch.tensor takes for some ten thousand numbers: lists of single ones are seldom longer."""


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded calls torch.tensor by its name"
    done: dict[Source, list[Piece]] = {}
    for spot in request.finding.where:
        if spot.file is None or spot.line is None:
            continue
        source, line = request.files.at(spot.file, spot.line)
        for call in source.calls("torch.tensor", line=line):
            try:
                pieces = done.setdefault(source, [])
                pieces += [piece for piece in _shared(source, call) if piece not in pieces]
            except NotEditable as reason:
                because = str(reason)
    for source, pieces in done.items():
        if pieces:
            yield changed(source, pieces, "arrays joined by NumPy and shared, torch.from_numpy")
            return
    raise NotEditable(because)


def _shared(source: Source, call: cst.Call) -> list[Piece]:
    """Return the piece that joins the list in an array of NumPy's; like torch.tensor, ``np.array`` always copies."""
    value, options = _taken(source, call)
    wanted = source.name(options["dtype"]) if "dtype" in options else ""
    kind = _TYPES.get(wanted.removeprefix("torch."), "")
    if not kind:
        raise NotEditable(f"torch.tensor at {place(source, call)} has no dtype that NumPy has, and would find its own")
    numpy = source.imported_as("numpy")
    if numpy is None:
        raise NotEditable(f"{source.path} does not import numpy at its head")
    device = f".to({source.code(options['device'])})" if "device" in options else ""
    text = f"{torch_name(source)}.from_numpy({numpy}.array({source.code(value)}, dtype={numpy}.{kind})){device}"
    return [Piece(source.start(call), source.end(call), text)]


def _taken(source: Source, call: cst.Call) -> tuple[cst.BaseExpression, dict[str, cst.BaseExpression]]:
    """Return the list that torch.tensor is given, and its options. Raises ``NotEditable`` where it may be something else."""
    options = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    plain = [arg for arg in call.args if arg.keyword is None]
    if len(plain) != 1 or plain[0].star or not set(options) <= {"dtype", "device"}:
        raise NotEditable(f"torch.tensor at {place(source, call)} has other arguments than data, dtype and device")
    value = plain[0].value
    if not isinstance(value, cst.Name | cst.Attribute | cst.Subscript | cst.ListComp):
        raise NotEditable(f"what torch.tensor takes at {place(source, call)} is no name and no list comprehension")
    if "torch." in written(value) or "#" in source.code(call):
        raise NotEditable(f"what torch.tensor takes at {place(source, call)} may hold tensors")
    return value, options


def _each_shared(request: Request) -> Iterator[Change]:
    """Share each array of a list without a type, and join them by torch.stack: each keeps the type that torch.tensor finds."""
    because = "no line that was recorded calls torch.tensor by its name"
    done: dict[Source, list[Piece]] = {}
    times = _times(request.finding)
    for source, line in request.places():
        for call in source.calls("torch.tensor", line=line):
            pieces = done.setdefault(source, [])
            try:
                if times.get(line, _LONG_MS) < _LONG_MS:
                    raise NotEditable(f"the list at {place(source, call)} is short, and may be one of numbers")
                piece = _stacked(source, call)
            except NotEditable as reason:
                because = str(reason)
                continue
            pieces += [piece] if piece not in pieces else []
    for source, pieces in done.items():
        if pieces:
            yield changed(source, pieces, "arrays of a list shared one by one, and joined")
            return
    raise NotEditable(because)


def _times(finding: Finding) -> dict[int, float]:
    """Return how long a conversion took in the median, in ms, by its line as it was recorded."""
    columns = finding.evidence.columns
    if not {"since_line", "median_ms"} <= set(columns):
        return {}
    line, ms = columns.index("since_line"), columns.index("median_ms")
    pairs = ((row[line], row[ms]) for row in finding.evidence.rows)
    return {at: float(took) for at, took in pairs if isinstance(at, int) and isinstance(took, int | float)}


def _stacked(source: Source, call: cst.Call) -> Piece:
    value, options = _taken(source, call)
    if "dtype" in options:
        raise NotEditable(f"torch.tensor at {place(source, call)} converts to a type")
    torch = torch_name(source)
    if isinstance(value, cst.ListComp):
        start, inner = source.start(value), value.elt
        before, behind = source.text[start : source.start(inner)], source.text[source.end(inner) : source.end(value)]
        items = f"{before}{torch}.as_tensor({source.code(inner)}){behind}"
    else:
        name = next((name for name in ("array", "row", "item") if name not in written(value)), "each")
        items = f"[{torch}.as_tensor({name}) for {name} in {source.code(value)}]"
    device = f".to({source.code(options['device'])})" if "device" in options else ""
    return Piece(source.start(call), source.end(call), f"{torch}.stack({items}){device}")


EDITS = (
    Edit("shared-arrays", "Share the arrays of a list, and join them at once", ("cpu/list-conversion",), _each_shared),
    Edit(
        "joined-by-numpy",
        "Join the numbers in NumPy, and share them",
        ("cpu/list-conversion", "cpu/tensor-from-list", "gpu-idle/tensor-from-list"),
        _make,
    ),
)
