"""Operators of a compiled region, as torch records them, aligned with those of its eager run: right, or left out."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from support.recording import needs_torch

from advisor.timeline.alignment import align

pytestmark = needs_torch

LAYERS = 12
# What is a kernel on a GPU; views and allocations are none.
COMPUTES = {f"aten::{name}" for name in ("addmm", "bmm", "native_layer_norm", "_softmax", "gelu", "add", "mul", "tanh")}


def model() -> Any:
    """Layers of attention, each wider than the one before: shapes tell which layer an operator is of, its name does not."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Layer(nn.Module):
        def __init__(self, width: int, out: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.projections = nn.Linear(width, 3 * width)
            self.inner, self.outer, self.past = (
                nn.Linear(width, 4 * width),
                nn.Linear(4 * width, out),
                nn.Linear(width, out),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            query, key, value = self.projections(self.norm(x)).chunk(3, -1)
            x = x + functional.softmax(query @ key.transpose(-1, -2), -1) @ value
            return self.past(x) * 0.5 + self.outer(functional.gelu(self.inner(x))).tanh()

    widths = [32 + 4 * layer for layer in range(LAYERS + 1)]
    return nn.Sequential(*(Layer(*pair) for pair in pairwise(widths))).eval()


def recorded(run: Any, path: Path) -> list[tuple[str, str, int]]:
    """Name and shapes of the operators that compute, in order, and how often the same two came before."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    x = torch.randn(2, 7, 32)
    with torch.inference_mode():
        run(x)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
            run(x)
    profiler.export_chrome_trace(str(path))
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("cat") == "cpu_op"]
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for event in sorted((event for event in events if event["name"] in COMPUTES), key=lambda event: event["ts"]):
        key = event["name"], str(event["args"].get("Input Dims"))
        found.append((*key, seen[key]))
        seen[key] += 1
    return found


def test_order_of_a_compiled_region_is_that_of_its_eager_run(tmp_path: Path) -> None:
    import torch

    program = model()
    eager = recorded(program, tmp_path / "eager.json")
    compiled = recorded(torch.compile(program, backend="aot_eager"), tmp_path / "compiled.json")
    assert len(compiled) >= 10 * LAYERS
    codes = {name: code for code, name in enumerate(sorted(COMPUTES))}
    found = align(*(np.array([codes[name] for name, *_ in run], np.int64) for run in (compiled, eager)))
    options: dict[int, list[int]] = {}
    for place, reference in zip(found.place.tolist(), found.reference.tolist(), strict=True):
        options.setdefault(place, []).append(reference)
    sure = {place: references[0] for place, references in options.items() if len(references) == 1}
    assert [compiled[place] for place, reference in sure.items() if compiled[place] != eager[reference]] == []
    assert len(sure) >= 0.97 * len(compiled)
