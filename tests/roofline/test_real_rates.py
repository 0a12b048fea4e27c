"""Rates that the products of real traces reached: FLOPs of the operators over the time of their kernels.

Expected values were worked out by hand from shapes and durations in the files, with a tool that is not part of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pytest

from advisor.intervals import Bools, Ints, fetch
from advisor.reading.stream import Reader
from advisor.roofline.recording import Modelled, divided, modelled
from advisor.timeline.recording import KERNEL, Recording


@lru_cache(maxsize=1)
def read(path: str) -> tuple[Recording, Modelled]:
    """A recording and the work of its operators."""
    recording = Recording(Reader(path).read())
    return recording, modelled(recording)


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "operator", "shapes", "rate"),
    [
        ("h100_owlv2_large", "bmm", b"[[16, 5185, 64], [16, 64, 5185]]", 50.8),
        ("h100_owlv2_large", "bmm", b"[[16, 5185, 5185], [16, 5185, 64]]", 66.5),
        ("audited/h100_timesformer", "bmm", b"[[96, 3137, 64], [96, 64, 3137]]", 63.6),
        ("audited/h100_timesformer", "bmm", b"[[96, 3137, 3137], [96, 3137, 64]]", 71.2),
        ("h100_qwen_0.5b", "mm", b"[[8944, 1024], [1024, 2816]]", 616.6),
        ("h100_qwen_0.5b", "mm", b"[[8944, 2816], [2816, 1024]]", 682.2),
        ("audited/a100_switch_transformer_8x1024", "addmm", b"[[1024], [8192, 4096], [4096, 1024], [], []]", 14.0),
        ("audited/a100_switch_transformer_8x1024", "addmm", b"[[4096], [8192, 1024], [1024, 4096], [], []]", 14.9),
        ("audited/a100_switch_transformer_8x1024", "addmm", b"[[100000], [8192, 1024], [1024, 100000], [], []]", 18.6),
    ],
)
def test_products_of_real_traces(
    real: Callable[[str], str], name: str, operator: str, shapes: bytes, rate: float
) -> None:
    recording, known = read(real(name))
    host, work = recording.host, recording.work
    table = recording.tables["op"]
    node = host.node_of["op"]
    mine = node[(table["name"] == recording.names.index(f"aten::{operator}"))]
    raws = [b"".join(raw.split()) for raw in recording.recorded.raws]
    shapes = b"".join(shapes.split())
    mine = mine[[raws[table["dims"][host.row[at]]] == shapes for at in mine.tolist()]]
    flops, _ = divided(recording, known)
    kernels = np.isin(known.owner, mine) & (work.kind == KERNEL)
    assert kernels.any()
    # Of operators that launched a kernel: some calls are recorded before the device is.
    owners = np.unique(known.owner[kernels])
    reached = flops[owners].sum() / (work.end - work.start)[kernels].sum() / 1e3
    assert reached == pytest.approx(rate, rel=0.02)


MODELLED = {
    "h100_owlv2_large": 0.99,
    "v100_resnet50_workers0": 0.99,
    "audited/mi300_xdit_flux": 0.99,
    "mi300_compile_triton": 0.99,
    "mi300_resnet_ddp_checkpointing": 0.99,
    "a100_megatron_tp8/rank0": 0.99,
}


def counted_kernels(recording: Recording) -> tuple[Bools, Ints]:
    """Flags of the kernels that are no communication and whose launching operator has shapes; and lengths, of all work."""
    host, work = recording.host, recording.work
    shaped = np.array([raw not in (b"", b"null") for raw in recording.recorded.raws], np.bool_)
    has = np.zeros(host.size, np.bool_)
    has[host.node_of["op"]] = shaped[recording.tables["op"]["dims"]]
    inside = fetch(host.attributes.op, work.launch)
    return (inside >= 0) & has[inside] & ~work.communication & (work.kind == KERNEL), work.end - work.start


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(MODELLED))
def test_kernel_time_whose_work_is_known(real: Callable[[str], str], name: str) -> None:
    """Of the kernels that are no communication and whose launching operator has shapes."""
    recording, known = read(real(name))
    counted, length = counted_kernels(recording)
    assert length[counted & (known.owner >= 0)].sum() >= MODELLED[name] * length[counted].sum()


@pytest.mark.real
def test_tables_of_embeddings_are_said_to_be_unknown(real: Callable[[str], str]) -> None:
    known = read(real("a100_dlrm_rank3of8"))[1]
    reasons = {work.missing for work in known.works if work is not None and not work.known}
    assert "the width of each table, and how often each is asked" in reasons


@pytest.mark.real
def test_experts_without_their_weights_are_said_to_be_unknown(real: Callable[[str], str]) -> None:
    known = read(real("audited/b200_vllm_gptoss_eager"))[1]
    reasons = {work.missing for work in known.works if work is not None and not work.known}
    assert "the experts' weights, which are no operands" in reasons
    assert "the lengths of the cached sequences, which are values of a tensor" in reasons


@pytest.mark.real
def test_convolutions_of_2021_get_their_output_from_what_stands_beside(real: Callable[[str], str]) -> None:
    """ResNet-50's convolutions: 4.087 G multiply–adds an image; the first, 0.118 G, needs no gradient of its input."""
    recording, known = read(real("v100_resnet50_workers0"))
    host = recording.host
    flops, _ = divided(recording, known)
    found = {}
    for part, count in (("", 53), ("_backward_weight", 53), ("_backward_input", 52)):
        code = recording.names.index(f"aten::cudnn_convolution{part}")
        mine = host.node_of["op"][recording.tables["op"]["name"] == code]
        mine = mine[np.isin(mine, known.owner)]
        assert len(mine) == 6 * count  # six steps of 32 images
        found[part] = flops[mine].sum() / (2 * 6 * 32)
    assert found[""] == pytest.approx(4.087e9, rel=1e-3)
    assert found["_backward_weight"] == pytest.approx(4.087e9, rel=1e-3)
    assert found["_backward_input"] == pytest.approx(4.087e9 - 0.118e9, rel=1e-3)


UNKNOWN = {
    "audited/a100_dlrm_rank0of16": (0.28, ("CompiledFunctionBackward", "CompiledFunction")),
    "audited/a100_dlrm_shampoo_rank1of128": (
        0.47,
        ("torch::autograd::CppNode<SplitLookupFunction", "fbgemm::split_embedding_codegen_lookup_"),
    ),
    "a100_dlrm_rank3of8": (
        0.73,
        ("torch::autograd::CppNode<SplitLookupFunction", "fbgemm::split_embedding_codegen_lookup_"),
    ),
    "audited/b200_vllm_gptoss_eager": (0.25, ("vllm::moe_forward", "vllm::unified_attention_with_output")),
}
"""The traces of which under nine tenths is modelled: the share, and the operators that most of the rest belongs to.

Compiled functions record no operands of their kernels; the tables' widths of FBGEMM's embeddings and the experts' weights are no
operands; the cached sequences' lengths are values of a tensor. Of the other 39 traces with shapes the least is 0.93, the median 1.
"""


@pytest.mark.real
@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_what_is_missing_of_traces_under_nine_tenths(real: Callable[[str], str], name: str) -> None:
    share, operators = UNKNOWN[name]
    recording, known = read(real(name))
    counted, length = counted_kernels(recording)
    assert length[counted & (known.owner >= 0)].sum() / length[counted].sum() == pytest.approx(share, abs=0.01)
    host, work = recording.host, recording.work
    left = np.flatnonzero(counted & (known.owner < 0))
    names = [recording.names[code] for code in host.name[fetch(host.attributes.op, work.launch[left])].tolist()]
    listed = np.array([name.startswith(operators) for name in names])
    assert length[left[listed]].sum() >= 0.95 * length[left].sum()
