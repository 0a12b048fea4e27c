"""Signatures as they are read: shapes, types, strides, values; what damage and old releases leave of them."""

from __future__ import annotations

import pytest
from support.signatures import signature, tensor, tensors, value

from advisor.roofline.signature import Tensor, read


def test_operands_of_all_kinds_are_told_apart() -> None:
    found = signature(
        "aten::x", tensor(2, 3), tensor(), tensors((4,), (5, 6)), value([1, 2]), value(0.5), value(None), value(True)
    )
    matrix, scalar_tensor, several, numbers, number, nothing, flag = found.operands
    assert matrix.tensor == Tensor((2, 3), "float32")
    assert scalar_tensor.tensor == Tensor((), "float32")
    assert several.tensors is not None
    assert [item.shape for item in several.tensors] == [(4,), (5, 6)]
    assert numbers.numbers == (1, 2)
    assert number.number == 0.5
    assert number.tensor is None
    assert nothing == nothing._replace(tensor=None, tensors=None, value="")
    assert (flag.flag, numbers.flag) == (True, None)


def test_of_2020_shapes_alone_make_tensors() -> None:
    found = read("aten::mm", b"[[2, 3], [3, 4], []]", b"[]")
    assert found is not None
    assert [operand.tensor for operand in found.operands] == [Tensor((2, 3), None), Tensor((3, 4), None), None]


def test_an_empty_shape_is_a_number_unless_its_type_says_tensor() -> None:
    found = read("aten::mul", b"[[2], []]", b'["float", "double"]')
    assert found is not None
    assert found.tensor(1) == Tensor((), "float64")
    found = read("aten::mul", b"[[2], []]", b'["float", "Scalar"]')
    assert found is not None
    assert found.tensor(1) is None


@pytest.mark.parametrize("dims", [b"", b"null", b"7", b"[[1,", b'{"a": 1}', b"[[99999999999, 99999999999]]"])
def test_damaged_shapes_are_no_signature(dims: bytes) -> None:
    assert read("aten::mm", dims) is None


def test_lists_of_another_length_are_passed_over() -> None:
    found = read("aten::neg", b"[[2, 2]]", b'["float"]', b"[[1, 2], [3]]", b"[]")
    assert found is not None
    assert found.tensor(0) == Tensor((2, 2), "float32")


def test_values_behind_the_last_shape_belong_to_operands_without_one() -> None:
    found = read(
        "aten::convolution",
        b"[[2, 8, 4, 4], [8, 8, 1, 7]]",
        b'["float", "float"]',
        b"",
        b'["", "", "", "(1,1)", "(0,3)"]',
    )
    assert found is not None
    assert len(found.operands) == 5
    assert (found.operand(2).numbers, found.operand(3).numbers, found.operand(4).numbers) == (None, (1, 1), (0, 3))


def test_types_by_the_names_of_scalar_types() -> None:
    found = read("aten::mm", b"[[2, 3], [3, 4], []]", b'["BFloat16", "Float", "Int"]')
    assert found is not None
    assert [operand.tensor for operand in found.operands] == [
        Tensor((2, 3), "bfloat16"),
        Tensor((3, 4), "float32"),
        None,
    ]


def test_three_dimensions_of_one_stride_are_a_placeholder() -> None:
    found = read("aten::relu", b"[[2, 3, 4]]", b'["float"]', b"[[1, 1, 1]]")
    assert found is not None
    assert found.tensor(0) == Tensor((2, 3, 4), "float32")
    windows = read("aten::relu", b"[[2, 30, 4]]", b'["float"]', b"[[40, 1, 1]]")
    assert windows is not None
    assert windows.tensor(0) == Tensor((2, 30, 4), "float32", (40, 1, 1))


@pytest.mark.parametrize(
    ("shape", "strides", "stored"),
    [
        ((4, 5), (5, 1), 20),
        ((4, 5), (0, 1), 5),  # expanded
        ((4, 5), (1, 0), 4),
        ((4, 5), (1, 1), 8),  # windows that overlap: 4 + 5 - 1 places
        ((1, 5), (0, 1), 5),
        ((4, 5), (10, 1), 20),  # a slice
        ((), (), 1),
        ((0, 5), (5, 1), 0),
    ],
)
def test_elements_that_are_stored(shape: tuple[int, ...], strides: tuple[int, ...], stored: int) -> None:
    assert Tensor(shape, "float32", strides).stored == stored
    assert Tensor(shape, "float32", strides).bytes == 4 * stored
