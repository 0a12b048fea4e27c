"""Kernels that are far from what the device can do for one nameable reason, each beside its remedy; and some that are near it.

``python benchmarks/gpu.py --out DIR --only cases --budget 240`` leaves cases/NAME.json.gz, a trace, and cases/NAME.json, its truth.
"""

from __future__ import annotations

from gpu_parts.bench import Bench
from gpu_parts.case import Case, take
from gpu_parts.case_attention import ATTENTION
from gpu_parts.case_convolutions import CONVOLUTIONS
from gpu_parts.case_memory import MEMORY
from gpu_parts.case_products import PRODUCTS
from gpu_parts.case_tensors import TENSORS

CASES: dict[str, Case] = {**PRODUCTS, **CONVOLUTIONS, **ATTENTION, **MEMORY, **TENSORS}


def interleaved() -> list[str]:
    """Names of all cases, of each family in turn, so that a cut-off takes from each."""
    families = [list(family) for family in (PRODUCTS, CONVOLUTIONS, ATTENTION, MEMORY, TENSORS)]
    longest = max(map(len, families))
    return [family[at] for at in range(longest) for family in families if at < len(family)]


def run(bench: Bench) -> None:
    """Take all cases."""
    folder = bench.path.parent / "cases"
    folder.mkdir(exist_ok=True)
    for name in interleaved():
        bench.measure(f"case/{name}", lambda name=name: take(bench, name, CASES[name], folder))
