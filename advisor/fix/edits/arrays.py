"""Lists that torch.tensor converts element by element: joined by NumPy, and shared."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from advisor.fix.arguments import place
from advisor.fix.code import torch_name, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_TYPES = {
    "float32": "float32", "float": "float32", "float64": "float64", "double": "float64", "float16": "float16", "half": "float16",
    "int64": "int64", "long": "int64", "int32": "int32", "int": "int32", "int16": "int16", "int8": "int8", "uint8": "uint8",
    "bool": "bool_",
}  # fmt: skip
"""NumPy's formats by torch's; bfloat16 has none."""


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
    options = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
    plain = [arg for arg in call.args if arg.keyword is None]
    if len(plain) != 1 or plain[0].star or not set(options) <= {"dtype", "device"}:
        raise NotEditable(f"torch.tensor at {place(source, call)} has other arguments than data, dtype and device")
    value = plain[0].value
    if not isinstance(value, cst.Name | cst.Attribute | cst.Subscript | cst.ListComp):
        raise NotEditable(f"what torch.tensor takes at {place(source, call)} is no name and no list comprehension")
    wanted = source.name(options["dtype"]) if "dtype" in options else ""
    kind = _TYPES.get(wanted.removeprefix("torch."), "")
    if not kind:
        raise NotEditable(f"torch.tensor at {place(source, call)} has no dtype that NumPy has, and would find its own")
    numpy = source.imported_as("numpy")
    if numpy is None:
        raise NotEditable(f"{source.path} does not import numpy at its head")
    if "torch." in written(value) or "#" in source.code(call):
        raise NotEditable(f"what torch.tensor takes at {place(source, call)} may hold tensors")
    device = f".to({source.code(options['device'])})" if "device" in options else ""
    text = f"{torch_name(source)}.from_numpy({numpy}.array({source.code(value)}, dtype={numpy}.{kind})){device}"
    return [Piece(source.start(call), source.end(call), text)]


EDITS = (
    Edit(
        "joined-by-numpy",
        "Join the numbers in NumPy, and share them",
        ("cpu/list-conversion", "cpu/tensor-from-list", "gpu-idle/tensor-from-list"),
        _make,
    ),
)
