"""A training loop with knobs, for pairs of recordings that differ by one planted change: every kernel and wait has noise."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from pathlib import Path

from advisor.results.sites import Sites
from advisor.testing import TraceBuilder
from advisor.trace import read
from advisor.views.sites import sites_of

ALL = -2
BATCH = 19_267_584
GEMM = "ampere_sgemm_128x64_tn"
HALF_GEMM = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn"
CONV = "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x16"
NCHW_CONV = "void cudnn::cnn::implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(nchw)"
WGRAD = "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x64x16"
TURN = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(cudnn::ops::nchw2nhwc_params_t<float>)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>"
GELU = "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>"
TANH = "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda>"
POW = "void at::native::vectorized_elementwise_kernel<4, at::native::pow_tensor_scalar_kernel>"
MUL = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>>"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4>>"
SOFTMAX = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false>"
FUSED = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<fused_adamw>"


@dataclass(frozen=True)
class Loop:
    """Knobs of the loop: what a change of the program, of its data or of the machine does to a step."""

    host_us: float = 4
    blocks: int = 6
    steps: int = 7
    width: int = 1024
    batch: int = 32
    device: str = "NVIDIA A100-SXM4-80GB"
    clock: float = 1.0
    seed: int = 1
    loader_us: float = 300
    workers: int = 4
    pinned: bool = True
    gelu: str = "gelu"
    half_layer: int = -1
    wide_layer: int = -1
    nchw_layer: int = -1
    attention: str = "flash"
    buckets: int = 4
    item_in: int = -1
    sleep_us: float = 0
    twice: int = -1
    optimizer: str = "fused"
    compiled: bool = False
    slow_kernel: int = -1
    malloc: bool = False
    extra_norm: bool = False
    modules: bool = True

    def __post_init__(self) -> None:
        assert self.steps > 0


def build(loop: Loop) -> TraceBuilder:
    """Build the recording of a loop."""
    made = TraceBuilder(loop.device, profile_memory=False, rank=0, world_size=8, host_us=loop.host_us, latency_us=2)
    noise = random.Random(loop.seed)

    def about(us: float) -> float:
        return round(us * noise.uniform(0.985, 1.015), 3)

    last = made.kernel("warm", us=1)

    def kernel(name: str, us: float) -> None:
        nonlocal last
        last = made.kernel(name, us=about(us * loop.clock))

    def op(name: str, kernels: list[tuple[str, float]], shapes: list[list[int]], dtype: str = "float") -> None:
        with made.op(name, shapes=shapes, dtypes=[dtype] * len(shapes)):
            for kernel_name, us in kernels:
                kernel(kernel_name, us)

    def linear(block: int, *, backward: bool) -> None:
        half, wide = block == loop.half_layer, 2 if block == loop.wide_layer else 1
        name, us = (HALF_GEMM, 160.0) if half else (GEMM, 420.0)
        rows = loop.batch * 64
        shapes = [[loop.width * wide], [rows, loop.width], [loop.width, loop.width * wide]]
        slow = 1.7 if block == loop.slow_kernel else 1.0
        times = 2 if block == loop.twice and not backward else 1
        for _ in range(times):
            op("aten::mm" if backward else "aten::addmm", [(name, us * wide * slow * loop.batch / 32 * (2 if backward else 1))],
               shapes[1:] if backward else shapes, "c10::Half" if half else "float")  # fmt: skip

    def conv(block: int, *, backward: bool) -> None:
        turned = block == loop.nchw_layer
        kernels = [(WGRAD if backward else CONV, 500.0 * (2 if backward else 1))]
        if turned:
            kernels = [(TURN, 120.0), (NCHW_CONV, 1500.0), (TURN, 130.0)]
        shapes = [[loop.batch, 64, 56, 56], [64, 64, 3, 3]]
        op("aten::convolution_backward" if backward else "aten::cudnn_convolution",
           [(name, us * loop.batch / 32) for name, us in kernels], shapes)  # fmt: skip

    def activation() -> None:
        size = [[loop.batch * 64, loop.width]]
        if loop.gelu == "gelu":
            op("aten::gelu", [(GELU, 180)], size)
        else:
            for name, kernel_name in (("pow", POW), ("mul", MUL), ("add", ADD), ("tanh", TANH), ("mul", MUL)):
                op(f"aten::{name}", [(kernel_name, 170)], size)

    def attend() -> None:
        size = [[loop.batch, 16, 64, 64]] * 3
        if loop.attention == "flash":
            op("aten::_flash_attention_forward", [(FLASH, 240)], size)
        else:
            op("aten::bmm", [(GEMM, 400)], size[:2])
            op("aten::_softmax", [(SOFTMAX, 330)], size[:1])
            op("aten::bmm", [(GEMM, 390)], size[:2])

    seq = 0
    for _ in range(loop.steps):
        with made.step():
            with made.python("train.py(31): train"), made.loader(us=about(loop.loader_us), workers=loop.workers):
                pass
            with made.python("train.py(32): train"), made.op("aten::to"), made.op("aten::copy_"):
                made.copy("HtoD", BATCH, us=about(800 if loop.pinned else 2900), pinned=loop.pinned)
            with made.python("model.py(12): forward"), made.module("Model_0"):
                for block in range(loop.blocks):
                    with made.module(f"Block_{block}"):
                        with made.module(f"Conv2d_{block}"), made.op("aten::conv2d", seq=seq + 10 * block):
                            conv(block, backward=False)
                        if loop.compiled:
                            with (
                                made.op("Torch-Compiled Region: 0/0"),
                                made.op(f"triton_poi_fused_add_gelu_native_layer_norm_{block}"),
                            ):
                                kernel(f"triton_poi_fused_add_gelu_native_layer_norm_{block}", 200)
                        else:
                            with made.module(f"LayerNorm_{block}"), made.op("aten::layer_norm"):
                                op("aten::native_layer_norm", [(NORM, 210)], [[loop.batch * 64, loop.width]])
                            activation()
                            op("aten::add", [(ADD, 175)], [[loop.batch * 64, loop.width]] * 2)
                        attend()
                        with made.module(f"Linear_{block}"), made.op("aten::linear", seq=seq + 10 * block + 1):
                            linear(block, backward=False)
                        if loop.extra_norm and block == 2:
                            op(
                                "aten::sort",
                                [("void at::native::radixSortKVInPlace<2, -1, 32, 4, float>", 900)],
                                [[64, loop.width]],
                            )
                    if loop.item_in in (block, ALL):
                        with made.python("model.py(40): log_norm"):
                            made.item()
            with made.python("train.py(35): train"):
                for block in reversed(range(loop.blocks)):
                    with made.backward("AddmmBackward0", seq + 10 * block + 1):
                        linear(block, backward=True)
                    with made.backward("ConvolutionBackward0", seq + 10 * block):
                        conv(block, backward=True)
                for _ in range(loop.buckets):
                    made.collective(
                        "all_reduce",
                        100_000_000 // loop.buckets,
                        us=round(about(4800 / loop.buckets + 150)),
                        after=[last],
                    )
                seq += 1000
            made.sync("cudaDeviceSynchronize")
            with made.python("train.py(36): train"), made.annotation("Optimizer.step#AdamW.step"):
                if loop.malloc:
                    made.malloc(1 << 28, us=round(about(1800)))
                if loop.optimizer == "fused":
                    op("aten::_fused_adamw_", [(FUSED, 640)], [[loop.width]])
                else:
                    for _ in range(60):
                        op("aten::addcdiv_", [(MUL, 9)], [[loop.width]])
                        op("aten::lerp_", [(ADD, 9)], [[loop.width]])
            made.sync("cudaDeviceSynchronize")
            if loop.sleep_us:
                with (
                    made.python("train.py(37): train"),
                    made.python("metrics.py(8): update", us=round(about(loop.sleep_us))),
                ):
                    pass
    return made


def sites(loop: Loop, folder: Path) -> Sites:
    """Return the sites of the recording of a loop."""
    path = folder / f"{abs(hash(loop))}.json"
    build(loop).write(path)
    found = sites_of(read(str(path)))
    assert found is not None
    return found


@dataclass(frozen=True)
class Planted:
    """One planted change: the knobs that it turns, the reason that the first line gives, and a word of where."""

    knobs: dict[str, object]
    reasons: tuple[str, ...]
    where: str
    base: dict[str, object] = field(default_factory=dict)


CHANGES: dict[str, Planted] = {
    "operator": Planted({"gelu": "by hand"}, ("operator",), "pow"),
    "type": Planted({"half_layer": 3}, ("type",), "Linear_3"),
    "shape": Planted({"wide_layer": 2}, ("shape",), "Linear_2"),
    "sync": Planted({"item_in": ALL}, ("waits",), "log_norm", {"host_us": 60, "clock": 0.3}),
    "loader": Planted({"loader_us": 9000, "workers": 0}, ("loader",), "DataLoader"),
    "slower workers": Planted({"loader_us": 5000}, ("loader",), "DataLoader"),
    "memory format": Planted({"nchw_layer": 4}, ("layout",), "Conv2d_4"),
    "fusion": Planted({"compiled": True}, ("operator",), "triton"),
    "clock": Planted({"clock": 1.2}, ("clock",), "everywhere"),
    "bucket size": Planted({"buckets": 32}, ("calls", "bytes"), "nccl"),
    "pageable": Planted({"pinned": False}, ("kernel",), "pageable"),
    "backend": Planted({"attention": "math"}, ("operator",), "attention"),
    "more calls": Planted({"twice": 1}, ("calls",), "Linear_1"),
    "one slow kernel": Planted({"slow_kernel": 5}, ("slower",), "Linear_5"),
    "Python": Planted({"sleep_us": 6000}, ("host",), "update"),
    "optimizer": Planted({"optimizer": "for loop"}, ("operator", "host"), "optimizer"),
    "new operator": Planted({"extra_norm": True}, ("appeared",), "sort"),
    "allocation": Planted({"malloc": True}, ("waits",), "alloc"),
    "device": Planted({"device": "NVIDIA H100 80GB HBM3", "clock": 0.6}, ("device",), "H100"),
    "depth": Planted({"blocks": 8}, ("appeared", "calls"), "Block_"),
}


def pair(change: Planted, folder: Path, **both: object) -> tuple[Sites, Sites]:
    """Return the sites of both sides of a planted change."""
    base = replace(Loop(), **(change.base | both))  # type: ignore[arg-type]
    changed = replace(base, seed=2, **change.knobs)  # type: ignore[arg-type]
    return sites(base, folder), sites(changed, folder)
