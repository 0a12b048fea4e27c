"""Rates that programs reach, beside the peaks: measured where somebody measured, else a share of the peak by architecture.

A peak is cores times clock, and nobody holds that clock with all units at work: boards are held to a power, and memory
refreshes and turns around. A distance from a rate that nobody reaches would be no advice.
"""

from __future__ import annotations

from typing import NamedTuple

_OWN = "this project's own measurement on an H100 SXM (sample_traces/h100/figures.json): largest of square products; STREAM triad"
_MAMF = "Machine Learning Engineering by S. Bekman, table of maximum achievable matmul FLOPS"
_TRANSFORMERS = "transformers-benchmarks by M. Li, matrix products of A100, A6000, V100 and 3090 Ti"
_MAF = "AMD ROCm blog, Measuring Max-Achievable FLOPs, part 2"
_TRACELENS = "TraceLens by AMD, its file of the device, maximum achieved"
_ROOFLINE = "ROCm issue 5070: 4.2 TB/s by ROCm's roofline benchmark"
_CONSUMER = "own rates of GeForce boards: BLACKWALL, RTX 5060 Ti by type; NVIDIA CCCL pull request 9881, RTX 5090 by BabelStream"

MEASURED: dict[str, dict[str, tuple[float, str]]] = {
    "H100 SXM": {
        kind: (rate, _OWN)
        for kind, rate in (
            ("fp64_tensor", 61.97), ("fp32", 52.41), ("tf32", 390.7), ("fp16", 749.1), ("bf16", 778.6), ("fp8", 1479.7),
            ("int8", 928.6), ("memory", 3063.1),
        )
    },
    "H200 SXM": {"bf16": (794.5, _MAMF), "fp8": (1453.4, _MAMF)},
    "GH200 144 GB": {"bf16": (828.6, _MAMF), "fp8": (1535.0, _MAMF)},
    "A100 SXM 80 GB": {"bf16": (271.2, _MAMF)},
    "A100 PCIe 80 GB": {"bf16": (252.9, _MAMF)},
    "V100 SXM": {"fp32": (14.0, _TRANSFORMERS), "fp16": (95.0, _TRANSFORMERS)},
    "RTX A6000": {"tf32": (60.0, _TRANSFORMERS), "fp16": (95.0, _TRANSFORMERS)},
    "B200": {
        "bf16": (1745.0, _MAMF), "fp8": (3432.5, _MAMF), "fp4": (5912.0, _TRACELENS), "memory": (7476.0, _TRACELENS),
        "fp32": (66.0, _TRACELENS), "fp64_tensor": (36.0, _TRACELENS),
    },
    "MI250X": {"fp16": (147.0, _MAMF), "bf16": (147.0, _MAMF)},
    "MI300X": {"fp16": (654.0, _MAF), "bf16": (708.0, _MAF), "fp8": (1273.0, _MAF), "memory": (4200.0, _ROOFLINE)},
    "MI325X": {"fp16": (794.0, _MAF), "bf16": (843.0, _MAF), "fp8": (1519.0, _MAF)},
    "MI350X": {
        "fp16": (1345.0, _TRACELENS), "bf16": (1445.0, _TRACELENS), "fp8": (3028.0, _TRACELENS), "fp4": (4630.0, _TRACELENS),
        "memory": (7200.0, _TRACELENS),
    },
    "MI355X": {"fp16": (1518.0, _TRACELENS), "bf16": (1613.0, _TRACELENS), "fp8": (2905.0, _TRACELENS)},
}  # fmt: skip
"""TFLOP/s and GB/s by the table's name of the device."""


class Shares(NamedTuple):
    """Shares of the peak that are taken to be reachable, and where they come from."""

    basis: str
    fp64: float = 0.85
    fp32: float = 0.8
    tf32: float = 0.8
    half: float = 0.8
    fp8: float = 0.75
    fp4: float = 0.65
    int8: float = 0.6
    memory: float = 0.88
    link: float = 0.8

    def of(self, kind: str) -> float:
        """The share of one kind of rate."""
        named = {
            "fp64": self.fp64, "fp64_tensor": self.fp64, "fp32": self.fp32, "fp32_tensor": self.fp32, "tf32": self.tf32,
            "fp16": self.half, "bf16": self.half, "fp8": self.fp8, "fp4": self.fp4, "int8": self.int8, "memory": self.memory,
        }  # fmt: skip
        return named.get(kind, self.link)


OTHER = Shares("the middle of what is measured of other devices")

SHARES = {
    "volta": Shares(f"a V100: {_TRANSFORMERS}; memory as an H100's", fp32=0.89, half=0.76, memory=0.9),
    "t4": Shares(
        "a T4 is held to 70 W: NVIDIA developer forum, About GPU peak performance (24 of 65 TFLOP/s, more in short products)",
        fp32=0.6, half=0.45, int8=0.45, memory=0.75,
    ),
    "turing": Shares(OTHER.basis),
    "a100": Shares(f"an A100 SXM: {_MAMF}; memory as an H100's", fp64=0.92, fp32=0.9, tf32=0.8, half=0.869, memory=0.9),
    "a100-pcie": Shares(f"an A100 PCIe: {_MAMF}; memory as an H100's", fp64=0.92, fp32=0.9, tf32=0.75, half=0.811, memory=0.9),
    "ampere": Shares(f"an RTX A6000: {_TRANSFORMERS}, and a margin", tf32=0.78, half=0.7),
    "ada": Shares("an L20: CUDA-Learn-Notes, cuBLAS at 105 to 115 of 119.5 TFLOP/s", tf32=0.85, half=0.9, fp8=0.85, int8=0.8),
    "l4": Shares("an L4 is held to 72 W, as a T4 is; no measurement", fp32=0.6, tf32=0.6, half=0.6, fp8=0.6, int8=0.6),
    "geforce": Shares(_CONSUMER, fp32=0.75, tf32=0.95, half=0.95, fp8=0.95, fp4=0.9, int8=0.8),
    "hopper": Shares(_OWN, fp64=0.926, fp32=0.783, tf32=0.79, half=0.787, fp8=0.748, int8=0.469, memory=0.914),
    "hopper-pcie": Shares(
        "an H100 SXM, less for the lower power; no measurement", fp64=0.85, fp32=0.75, tf32=0.7, half=0.7, fp8=0.65,
        int8=0.45, memory=0.9,
    ),
    "hopper-small": Shares(
        "an H20 has a seventh of an H100's units on the same power: they hold their clock; no measurement",
        fp32=0.85, tf32=0.9, half=0.9, fp8=0.9, int8=0.8, memory=0.9,
    ),
    "gh200": Shares(f"a GH200 of 144 GB: {_MAMF}", fp64=0.926, half=0.837, fp8=0.776, int8=0.47, memory=0.9),
    "blackwell": Shares(
        f"a B200: {_MAMF}; {_TRACELENS}", fp64=0.95, fp32=0.88, tf32=0.77, half=0.776, fp8=0.763, fp4=0.657, int8=0.65,
        memory=0.934,
    ),
    "cdna": Shares("an MI100: composable_kernel's profiler, 108 of 184.6 TFLOP/s in fp16", half=0.6, int8=0.6, memory=0.8),
    "cdna2": Shares(f"a die of an MI250X: {_MAMF}", half=0.767, int8=0.767, memory=0.8, link=0.7),
    "mi300": Shares(f"an MI300X: {_MAF}; {_ROOFLINE}", tf32=0.5, half=0.541, fp8=0.487, int8=0.487, memory=0.789, link=0.7),
    "mi325": Shares(
        f"an MI325X: {_MAF}; memory as an MI300X's", tf32=0.6, half=0.645, fp8=0.581, int8=0.581, memory=0.789, link=0.7
    ),
    "mi350": Shares(f"an MI350X: {_TRACELENS}", half=0.626, fp8=0.656, fp4=0.502, int8=0.509, memory=0.9, link=0.7),
    "mi355": Shares(
        f"an MI355X: {_TRACELENS}; memory as an MI350X's", half=0.641, fp8=0.577, fp4=0.5, int8=0.577, memory=0.9, link=0.7
    ),
    "xe": Shares(
        "a stack of Aurora's Max 1550: ALCF user guide, node performance overview", fp64=0.74, fp32=0.95, tf32=0.6, half=0.74,
        int8=0.78, memory=0.65,
    ),
}  # fmt: skip
"""By the family of a device."""

PCIE_PEAK = {3: 15.75, 4: 31.5, 5: 63.0}
"""GB/s a direction over 16 lanes of PCI Express, by generation, after encoding."""
PCIE_REACHED = {3: 13.0, 4: 26.0, 5: 54.0}
"""Part of it that pinned copies reach at best."""
LANES = 16
