"""Long convolutions: computed by Fourier transforms, in a function that takes what torch's conv1d takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from advisor.fix.arguments import place
from advisor.fix.code import torch_name, unused_name, written
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import INDENT, NotEditable, Piece, Source
from advisor.regex import regex

_NAMES = ("torch.nn.functional.conv1d", "torch.conv1d")
_ORDER = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_NEUTRAL = {
    "bias": ("None",),
    "stride": ("1", "(1,)", "[1]"),
    "dilation": ("1", "(1,)", "[1]"),
    "groups": ("1",),
    "padding": ("0", "(0,)", "[0]", "'valid'", '"valid"'),
}
"""Values of arguments that change nothing."""
_COUNT = regex(r"[\w.]+(?:[-+*/]+[\w.]+)*")
_LOWER = regex(r"autocast|\.half\(|float16|bfloat16|torch\.compile|jit\.script")
"""Words of a file whose transforms may meet numbers that they do not take, or sizes that are no numbers."""
_FUNCTION = '''
def {name}(x, weight):
    """Convolve as {torch}.nn.functional.conv1d does, by Fourier transforms: a long filter takes less work."""
    size = x.shape[-1]
    unit = 1 << max(size.bit_length() - 4, 0)
    points = -(-size // unit) * unit  # 8 to 16 times a power of two: other sizes can be slower
    signal, response = {torch}.fft.rfft(x, points), {torch}.fft.rfft(weight, points).conj()
    product = {torch}.einsum("...if,oif->...of", signal, response)
    return {torch}.fft.irfft(product, points)[..., : size - weight.shape[-1] + 1]
'''


def _make(request: Request) -> Iterator[Change]:
    because = "no line that was recorded calls conv1d by its name"
    for source, line in request.places():
        pieces: list[Piece] = []
        for call in source.calls(*_NAMES, line=line):
            try:
                pieces += _transformed(source, call)
            except NotEditable as reason:
                because = str(reason)
        if pieces:
            yield changed(
                source, [*pieces, _defined(source)], f"a convolution by Fourier transforms, {source.path}:{line}"
            )
            return
    raise NotEditable(because)


def _name(source: Source) -> str:
    return unused_name(source, "fft_conv1d", "conv1d_by_fft")


def _transformed(source: Source, call: cst.Call) -> list[Piece]:
    """Return the pieces that call the new function, with signals that are padded before where conv1d pads them."""
    where = place(source, call)
    if (match := _LOWER.search(source.text)) is not None:
        raise NotEditable(f"{source.path} has {match[0]}, of which transforms take not all")
    given: dict[str, cst.Arg] = {}
    for at, arg in enumerate(call.args):
        if arg.star or (arg.keyword is None and at >= len(_ORDER)):
            raise NotEditable(f"arguments of conv1d at {where} come by {arg.star or 'too many positions'}")
        given[arg.keyword.value if arg.keyword is not None else _ORDER[at]] = arg
    if not {"input", "weight"} <= set(given) or "#" in source.code(call):
        raise NotEditable(f"conv1d at {where} is called in another way, or has a comment inside")
    padding = written(given["padding"].value) if "padding" in given else "0"
    for name, arg in given.items():
        text = written(arg.value)
        if name in _NEUTRAL and text not in _NEUTRAL[name] and not (name == "padding" and _COUNT.fullmatch(text)):
            raise NotEditable(f"conv1d at {where} has {name}={text}")
    signal = source.code(given["input"].value)
    if padding not in _NEUTRAL["padding"]:
        count = source.code(given["padding"].value)
        signal = f"{torch_name(source)}.nn.functional.pad({signal}, ({count}, {count}))"
    text = f"{_name(source)}({signal}, {source.code(given['weight'].value)})"
    return [Piece(source.start(call), source.end(call), text)]


def _defined(source: Source) -> Piece:
    """Return the piece that defines the function, behind the imports of the file's head, two empty lines around."""
    text = _FUNCTION.format(name=_name(source), torch=torch_name(source)).strip("\n").replace("\n    ", f"\n{INDENT}")
    piece = source.after_imports("")
    behind = source.text[piece.start :]
    empty = len(re.match(r"(?:[ \t]*\r?\n)*", behind)[0].splitlines()) if behind else 2  # type: ignore[index]
    lead = "" if source.text[: piece.start].endswith("\n") else "\n"
    code = f"{lead}\n\n{text}\n" + "\n" * max(0, 2 - empty)
    return Piece(piece.start, piece.start, code.replace("\n", source.newline))


EDITS = (Edit("fft-convolution", "Convolve by Fourier transforms", ("kernels/long-convolution",), _make),)
