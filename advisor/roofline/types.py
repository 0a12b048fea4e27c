"""Number formats of tensors, as the profiler writes them (C++ names), and the bytes of an element.

Source: c10/core/ScalarType.h, and caffe2::TypeMeta's names of these types.
"""

from __future__ import annotations

SIZES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
    "complex32": 4,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of one element by format; of ``float4_e2m1fn_x2`` one element holds two numbers."""

_WRITTEN = {
    "double": "float64",
    "float": "float32",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu",
    "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "char": "int8",
    "unsigned char": "uint8",
    "unsigned short": "uint16",
    "short unsigned int": "uint16",
    "unsigned int": "uint32",
    "unsigned long": "uint64",
    "long unsigned int": "uint64",
    "bool": "bool",
    "c10::qint8": "int8",
    "c10::quint8": "uint8",
    "c10::qint32": "int32",
    "c10::complex<c10::Half>": "complex32",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
}
# Names of torch's ScalarType, which tools that write traces of their own use instead.
_SCALAR_TYPES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
}
_RANKS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def parse_type(written: str) -> str | None:
    """The format that a C++ name of the profiler stands for; None where it names no type of elements."""
    return _WRITTEN.get(written)


def parse_scalar_type(written: str) -> str | None:
    """The format that a name of torch's ScalarType stands for; of operands with dimensions only: a value may be an `Int` too."""
    return _SCALAR_TYPES.get(written)


def is_floating(kind: str) -> bool:
    """Tell whether a format holds fractions."""
    return kind.startswith(("float", "bfloat", "complex"))


def promote(kinds: list[str]) -> str | None:
    """The format in which torch computes on tensors of these formats; None for none.

    Source: https://docs.pytorch.org/docs/stable/tensor_attributes.html#type-promotion-doc, tensors with dimensions only.
    """
    distinct = list(dict.fromkeys(kinds))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    complexes = [kind for kind in distinct if kind.startswith("complex")]
    if complexes:
        return max(complexes, key=SIZES.__getitem__)
    floats = [kind for kind in distinct if is_floating(kind)]
    if len(floats) > 1 and max(SIZES[kind] for kind in floats) == 2:
        return "float32"  # float16 and bfloat16 meet in float32
    if floats:
        return max(floats, key=SIZES.__getitem__)
    return max(distinct, key=lambda kind: _RANKS.index(kind) if kind in _RANKS else 0)
