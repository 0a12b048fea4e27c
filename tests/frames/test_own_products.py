"""Products of matrices that are no library's, by the names of kernels and operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.frames.own_products import by_hand
from advisor.roofline.products import named
from advisor.testing import TraceBuilder
from advisor.trace import read


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("matmul_naive(float*, float*, float*, int)", True),
        ("naive_matmul_kernel(float const*, float const*, float*, int, int, int)", True),
        ("void sgemm_tiled<32>(int, int, int, float, float const*)", True),
        ("void MatrixMulCUDA<32>(float*, float*, float*, int, int)", True),
        ("wmma_gemm(half*, half*, float*, int)", True),
        ("matmul_kernel", False),  # Triton's have no parameters
        ("ampere_sgemm_128x64_tn", False),
        ("void gemmSN_NN_kernel<float, 128, 2, 4, 8, 5, 4>(cublasGemmSmallNParams<float>)", False),
        ("void gemv2T_kernel_val<int, int, float>(cublasGemvParamsEx<int>)", False),
        ("void splitKreduce_kernel<32, 16, int, float>(float const*, float*)", False),
        ("void wvSplitK_hf_sml_<__half, 64>(int, int, __half const*)", False),
        ("void at::native::mm_kernel<float>(float*)", False),
        ("stencil(float const*, float*, int)", False),
        ("command_list(int)", False),
        ("m" * 100_000 + "(float*", False),
    ],
)
def test_kernels_that_someone_wrote(name: str, expected: bool) -> None:
    assert by_hand(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MyMatmul", True),
        ("NaiveGEMM", True),
        ("MatMulFunction", True),
        ("torch_ext::tiled_gemm", True),
        ("mylib::matrix_multiply", True),
        ("MyMatmulBackward", False),
        ("W8A8Matmul", False),
        ("LinearFunction", False),
        ("Commit", False),
        ("Summary", False),
        ("Symmetric", False),
        ("mmcv::nms", False),
        ("aten::mm", False),
    ],
)
def test_operators_that_are_named_as_products(name: str, expected: bool) -> None:
    assert (named(name) is not None) is expected


def test_the_column_tells_a_programs_products_from_libraries(tmp_path: Path) -> None:
    b = TraceBuilder("Tesla T4")
    plain = "gemm(float const*, float const*, float*, int)"
    with b.step():
        b.kernel(plain, us=50)
        for op in ("mylib::matmul", "aten::mm", "triton_mm_0"):
            with b.op(op, shapes=[[64, 64], [64, 64]], dtypes=["float", "float"]):
                b.kernel("some_kernel" if op == "mylib::matmul" else plain, us=50)
        b.graph([(plain, 50)])
    found = read(str(b.write(tmp_path / "trace.json"))).kernels
    assert found["own_product"].tolist() == [True, True, False, False, False]
