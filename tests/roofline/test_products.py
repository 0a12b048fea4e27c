"""Products: arithmetic and bytes by hand."""

from __future__ import annotations

import pytest
from support.signatures import BF16, HALF, signature, tensor, value, work_of

from advisor.roofline.families import work
from advisor.roofline.signature import read
from advisor.roofline.work import Sizes, Work


@pytest.mark.parametrize(
    ("name", "operands", "flops", "moved"),
    [
        ("aten::mm", [tensor(2, 3), tensor(3, 4)], 48, 4 * (6 + 12 + 8)),
        ("aten::addmm", [tensor(4), tensor(2, 3), tensor(3, 4), value(1), value(1)], 48, 4 * (4 + 6 + 12 + 8)),
        ("aten::addmm", [tensor(4), tensor(2, 3), tensor(3, 4), value(0), value(1)], 48, 4 * (6 + 12 + 8)),
        ("aten::bmm", [tensor(5, 2, 3), tensor(5, 3, 4)], 240, 4 * (30 + 60 + 40)),
        ("aten::baddbmm", [tensor(5, 2, 4), tensor(5, 2, 3), tensor(5, 3, 4), value(1), value(1)], 240, 4 * 170),
        ("aten::matmul", [tensor(5, 2, 3), tensor(3, 4)], 240, 4 * (30 + 12 + 40)),
        ("aten::mv", [tensor(2, 3), tensor(3)], 12, 4 * (6 + 3 + 2)),
        ("aten::dot", [tensor(7), tensor(7)], 14, 4 * 15),
        ("aten::addbmm", [tensor(2, 4), tensor(5, 2, 3), tensor(5, 3, 4)], 240, 4 * (8 + 30 + 60 + 8)),
        ("aten::outer", [tensor(3), tensor(4)], 12, 4 * (3 + 4 + 12)),
        ("aten::linear", [tensor(6, 2, 3), tensor(4, 3), tensor(4)], 288, 4 * (36 + 12 + 4 + 48)),
        # Two products of 2·12·3·4; the bias' gradient is not asked for.
        (
            "aten::linear_backward",
            [tensor(6, 2, 3), tensor(6, 2, 4), tensor(4, 3), value([True, True, False])],
            576,
            4 * (48 + 12 + 36 + 36 + 12),
        ),
    ],
)
def test_by_hand(name: str, operands: list[dict[str, object]], flops: int, moved: int) -> None:
    found = work_of(name, *operands)
    assert (found.kind, found.flops, found.bytes, found.arithmetic) == ("matmul", flops, moved, "float32")
    assert (found.exact, found.missing, found.matrix) == (True, None, True)


def test_a_product_in_a_format_of_its_own() -> None:
    found = work_of("aten::mm", tensor(2, 3, type=BF16), tensor(3, 4, type=BF16), tensor(2, 4))
    assert (found.flops, found.bytes, found.arithmetic) == (48, 2 * 18 + 4 * 8, "bfloat16")


def test_an_expanded_factor_is_read_as_it_is_stored() -> None:
    a = tensor(5, 2, 3, type=HALF, strides=[0, 3, 1])
    found = work_of("aten::bmm", a, tensor(5, 3, 4, type=HALF, strides=[12, 4, 1]), strided=True)
    assert (found.flops, found.bytes) == (240, 2 * (6 + 60 + 40))


def test_without_types_the_arithmetic_is_known_and_the_bytes_are_not() -> None:
    untyped = read("aten::mm", b"[[2, 3], [3, 4]]", b"[]")
    assert untyped is not None
    assert work(untyped) == Work("matmul", 48, None, None, False, "the operands' types", Sizes(1, 2, 4, 3))


def test_factors_that_do_not_fit_have_no_work() -> None:
    assert work(signature("aten::mm", tensor(2, 3), tensor(5, 4))) is None


def test_an_unknown_operator_has_no_work() -> None:
    assert work(signature("my::op", tensor(2, 3))) is None
    assert work(signature("aten::view", tensor(2, 3))) is None


def test_an_operator_of_ones_own_that_is_named_as_a_product_is_one() -> None:
    for name in ("mylib::matmul", "MyLib::naive_matmul_fp16", "ops::batched_mm", "gemm"):
        assert work_of(name, tensor(2, 3, type=HALF), tensor(3, 4, type=HALF)).flops == 48
    for name in ("mylib::matmul_scaled", "mylib::grouped_gemm", "mylib::compare", "mylib::mmap", "a" * 300 + "_mm"):
        assert work(signature(name, tensor(2, 3, type=HALF), tensor(3, 4, type=HALF))) is None
