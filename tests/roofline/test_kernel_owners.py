"""Signatures of a recording, and the owner of each kernel's work, on traces of a few events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.raw_events import Event, gpu, kernel, launch, op

from advisor.reading.stream import Reader
from advisor.roofline.recording import Modelled, divided, modelled, signatures
from advisor.timeline.recording import Recording


def shaped(
    name: str,
    start: float,
    dur: float,
    dims: Any,
    types: list[str],
    strides: Any = None,
    values: Any = None,
    **more: Any,
) -> Event:
    """An operator with operands as the profiler writes them."""
    args = {"Input Dims": dims, "Input type": types}
    args |= {} if strides is None else {"Input Strides": strides}
    args |= {} if values is None else {"Concrete Inputs": values}
    event = op(name, start, dur)
    event["args"] |= args | more
    return event


def recorded(tmp_path: Path, events: list[Event]) -> Recording:
    """The recording of these events."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return Recording(Reader(str(path)).read())


def owners(recording: Recording, known: Modelled) -> list[str]:
    """Names of the operators that own the kernels, in order of start."""
    host = recording.host
    return ["" if node < 0 else recording.names[host.name[node]] for node in known.owner.tolist()]


F = "float"


def test_the_innermost_operator_with_a_formula_owns_the_kernel_once(tmp_path: Path) -> None:
    recording = recorded(
        tmp_path,
        [
            shaped("aten::linear", 0, 50, [[2, 3], [4, 3], [4]], [F, F, F]),
            shaped("aten::t", 1, 3, [[4, 3]], [F]),
            shaped("aten::addmm", 10, 30, [[4], [2, 3], [3, 4], [], []], [F, F, F, "Scalar", "Scalar"]),
            launch(1, 12),
            shaped("aten::my_helper", 20, 10, [[2, 4]], [F]),
            launch(2, 22),
            shaped("my::op", 60, 10, [[2, 4]], [F]),
            launch(3, 62),
            kernel(100, 10, 1),
            kernel(120, 10, 2),
            kernel(140, 10, 3),
        ],
    )
    known = modelled(recording)
    # A helper that no formula knows works for the operator around it; a kernel outside of all is nobody's.
    assert owners(recording, known) == ["aten::addmm", "aten::addmm", ""]
    flops, moved = divided(recording, known)
    node = int(known.owner[0])
    assert (flops[node], moved[node]) == (48, 4 * (4 + 6 + 12 + 8))
    work = known.work_of(node)
    assert work is not None
    assert work.flops == 48
    assert known.work_of(-1) is None


def test_what_an_operator_inside_owns_is_not_counted_again(tmp_path: Path) -> None:
    convolution = shaped(
        "aten::convolution_backward",
        0,
        90,
        [[2, 6, 4, 4], [2, 4, 8, 8], [6, 4, 3, 3], [], [], [], [], [], [], [], []],
        [F, F, F, *["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"],
        None,
        ["", "", "", "[6]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, True]"],
    )
    weight = shaped(
        "aten::cudnn_convolution_backward_weight",
        30,
        20,
        [[], [2, 6, 4, 4], [2, 4, 8, 8], [], [], [], []],
        ["ScalarList", F, F, *["ScalarList"] * 3, "Scalar"],
        None,
        ["[6, 4, 3, 3]", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "1"],
    )
    copy = shaped("aten::copy_", 10, 10, [[2, 4, 8, 8], [2, 4, 8, 8], []], [F, F, "Scalar"])
    bias = shaped("aten::sum", 60, 10, [[2, 6, 4, 4], [], [], []], [F, "ScalarList", "Scalar", ""])
    events = [convolution, copy, launch(1, 12), weight, launch(2, 32), launch(3, 55), bias, launch(4, 62)]
    recording = recorded(tmp_path, [*events, *(kernel(100 + 20 * at, 10, at) for at in (1, 2, 3, 4))])
    known = modelled(recording)
    names = ["aten::copy_", "aten::cudnn_convolution_backward_weight", "aten::convolution_backward", "aten::sum"]
    assert owners(recording, known) == names
    flops, moved = divided(recording, known)
    one = 2 * 2 * 16 * 216
    assert flops[known.owner].tolist() == [0, one, one, 192]
    whole = 4 * (192 + 216 + 512 + 512 + 216 + 6)
    # The copy prepares an operand and the sum adds to it: only the other product takes off what the outer one moves.
    assert moved[known.owner[2]] == whole - 4 * (192 + 512 + 216)


def test_signatures_are_read_once_and_values_count_only_where_they_matter(tmp_path: Path) -> None:
    types = [F, F, "Scalar"]
    events = [shaped("aten::add", 10 * at, 5, [[4, 5], [4, 5], []], types, None, ["", "", str(at)]) for at in range(4)]
    sums = ["[0]", "[1]", "[0]"]
    events += [
        shaped(
            "aten::sum",
            50 + 10 * at,
            5,
            [[4, 5], [], [], []],
            [F, "ScalarList", "Scalar", ""],
            None,
            ["", text, "False", ""],
        )
        for at, text in enumerate(sums)
    ]
    events += [shaped("aten::view", 90, 5, [[4, 5], []], [F, "ScalarList"]), op("aten::add", 97, 1)]
    found = signatures(recorded(tmp_path, events))
    assert [signature.name for signature in found.table if signature] == ["aten::add", "aten::sum", "aten::sum"]
    assert found.code.tolist() == [0, 0, 0, 0, 1, 2, 1, -1, -1]


def test_strides_tell_what_is_stored(tmp_path: Path) -> None:
    dims, types = [[4, 5], [4, 5], []], [F, F, "Scalar"]
    events = [
        shaped("aten::copy_", 0, 5, dims, types, [[5, 1], [0, 1], []], ["", "", "False"]),
        launch(1, 1),
        kernel(9, 3),
    ]
    recording = recorded(tmp_path, events)
    known = modelled(recording)
    assert divided(recording, known)[1][known.owner[0]] == 4 * (20 + 5)


def test_without_strides_an_expansion_just_before_tells_it(tmp_path: Path) -> None:
    events = [
        shaped("MeanBackward1", 0, 30, [[4, 5, 1]], [F]),
        shaped("aten::expand", 1, 5, [[4, 5, 1], [], []], [F, "ScalarList", "Scalar"]),
        shaped("aten::as_strided", 2, 2, [[4, 5, 1], [], []], [F, "ScalarList", "ScalarList"]),
        shaped("aten::div", 10, 5, [[4, 5, 6], []], [F, "Scalar"]),
        launch(1, 11),
        kernel(50, 3),
    ]
    recording = recorded(tmp_path, events)
    known = modelled(recording)
    assert divided(recording, known)[1][known.owner[0]] == 4 * (20 + 120)


def test_damaged_shapes_beside_an_expansion_are_passed_over(tmp_path: Path) -> None:
    events = [
        shaped("aten::expand", 1, 5, [[4, 5, 1], [], []], [F, "ScalarList", "Scalar"]),
        shaped("aten::div", 10, 5, {"4": 5}, [F, "Scalar"]),
        shaped("aten::mul", 20, 5, [[4, 5, 7], [2, 2]], [F, F]),
        launch(1, 11),
        launch(2, 21),
        kernel(50, 3, 1),
        kernel(60, 3, 2),
    ]
    assert modelled(recorded(tmp_path, events)).owner.tolist() == [-1, -1]


def test_the_output_of_a_convolution_comes_from_its_gradient_or_the_next_operator(tmp_path: Path) -> None:
    convolution = shaped("aten::cudnn_convolution", 0, 10, [[2, 4, 8, 8], [6, 4, 3, 3], []], [F, F, "Scalar"])
    behind = shaped("aten::relu", 20, 10, [[2, 6, 4, 4]], [F])
    recording = recorded(tmp_path, [convolution, launch(1, 1), behind, kernel(50, 3)])
    known = modelled(recording)
    assert divided(recording, known)[0][known.owner[0]] == 2 * 2 * 16 * 216
    convolution["args"]["Sequence number"] = 7
    gradient = shaped("ConvolutionBackward0", 40, 5, [[2, 6, 8, 8]], [F], **{"Sequence number": 7, "Fwd thread id": 1})
    recording = recorded(tmp_path, [convolution, launch(1, 1), behind, gradient, kernel(50, 3)])
    known = modelled(recording)
    # The gradient is as large as the output; what comes next may be of another branch.
    assert divided(recording, known)[0][known.owner[0]] == 2 * 2 * 64 * 216


def test_winograd_takes_fewer_operations_than_the_operator_has(tmp_path: Path) -> None:
    dims, types = [[2, 6, 8, 8], [2, 4, 8, 8], [6, 4, 3, 3], [], [], [], [], [], [], [], []], [F, F, F]
    types += [*["ScalarList"] * 4, "Scalar", "ScalarList", "Scalar", "ScalarList"]
    texts = ["", "", "", "[6]", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, False]"]
    backward = shaped("aten::convolution_backward", 0, 90, dims, types, None, texts)
    direct = 2 * 2 * 64 * 216
    for name, least in (
        ("sgemm", direct),
        ("winogradForwardData4x4<float>", direct / 4),
        ("fft2d_r2c_32x32<float>", np.nan),
    ):
        recording = recorded(tmp_path, [backward, launch(1, 5), gpu("kernel", name, 100, 9, 1)])
        known = modelled(recording)
        node = known.owner[0]
        assert divided(recording, known)[0][node] == direct
        np.testing.assert_equal(divided(recording, known, least=True)[0][node], least)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("void at::native::CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 2, 64, 64>", 2),
        (
            "void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2>>",
            2,
        ),
        ("void at::native::multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<float, 2>>", 4),
        ("some_kernel", None),
    ],
)
def test_the_kernel_names_the_type_of_a_list(tmp_path: Path, name: str, size: int | None) -> None:
    events = [
        shaped("aten::cat", 0, 10, [[[2, 3], [4, 3]], []], ["TensorList", "Scalar"]),
        launch(1, 1),
        gpu("kernel", name, 50, 3, 1),
    ]
    recording = recorded(tmp_path, events)
    known = modelled(recording)
    moved = divided(recording, known)[1][known.owner[0]]
    assert np.isnan(moved) if size is None else moved == 2 * 18 * size


def test_operators_whose_work_is_unknown_leave_the_kernel_to_nobody(tmp_path: Path) -> None:
    moe = shaped("vllm::moe_forward", 0, 10, [[888, 3072], [888, 128], []], ["c10::BFloat16", "c10::BFloat16", ""])
    recording = recorded(tmp_path, [moe, launch(1, 1), kernel(50, 3)])
    known = modelled(recording)
    assert known.owner.tolist() == [-1]
    work = known.work_of(int(np.flatnonzero(known.form >= 0)[0]))
    assert work is not None
    assert work.missing == "the experts' weights, which are no operands"


def test_communication_inside_an_operator_is_none_of_its_work(tmp_path: Path) -> None:
    product = shaped("aten::mm", 0, 30, [[2, 3], [3, 4]], [F, F])
    names = ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "sgemm")
    kernels = [gpu("kernel", name, 50 + 20 * at, 10, at) for at, name in enumerate(names, 1)]
    recording = recorded(tmp_path, [product, launch(1, 5), launch(2, 15), *kernels])
    assert owners(recording, modelled(recording)) == ["", "aten::mm"]


def test_a_recording_without_operators_or_shapes_has_no_work(tmp_path: Path) -> None:
    recording = recorded(tmp_path, [kernel(50, 3)])
    known = modelled(recording)
    assert (known.works, known.owner.tolist()) == ([], [-1])
    recording = recorded(tmp_path, [op("aten::mm", 0, 10), launch(1, 1), kernel(50, 3)])
    known = modelled(recording)
    assert (known.works, known.owner.tolist()) == ([], [-1])
    assert np.isnan(divided(recording, known)[0]).all()
