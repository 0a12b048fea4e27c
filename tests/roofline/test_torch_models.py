"""Arithmetic of small models as torch records them on the CPU: equal to torch's own count, operator by operator.

``torch.utils.flop_counter`` sees each call of an operator below autograd; a recording of the same step holds the same calls in the
same order. What it does not count, or counts wrongly, is compared with values by hand.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.recording import needs_torch

from advisor.reading.stream import Reader
from advisor.roofline.recording import divided, modelled
from advisor.timeline.calls import OP
from advisor.timeline.recording import Recording

pytestmark = needs_torch

NAMES = (
    "resnet",
    "depthwise",
    "unet",
    "bert",
    "llama",
    "grouped_queries",
    "vit",
    "experts",
    "lstm",
    "gan",
)
# Pairs of query and key in a head: of twelve tokens under a causal mask, of sixteen patches, of twelve tokens.
PAIRS = {"llama": 12 * 13 // 2, "grouped_queries": 12 * 13 // 2, "vit": 16 * 16, "bert": 12 * 12}
LAYERS = {"llama": 2}
# Weights of two layers of 16: gates 4·16, inputs 8 and 16, hidden 16.
WEIGHTS = (64 * 8 + 64 * 16, 64 * 16 + 64 * 16)
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


@pytest.fixture(scope="module", params=NAMES)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model's step, counted by torch and recorded."""
    import torch
    from support.small_models import MODELS
    from torch.profiler import ProfilerActivity, profile
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    counted: dict[str, list[int]] = defaultdict(list)

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            formula = flop_registry.get(func._overloadpacket)
            if formula is not None:
                counted[func._overloadpacket.__name__].append(formula(*args, **(kwargs or {}), out_val=out))
            return out

    torch.manual_seed(0)
    step = MODELS[request.param]()
    with Count():
        step()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorder:
        step()
    path = tmp_path_factory.mktemp("models") / f"{request.param}.json"
    recorder.export_chrome_trace(str(path))
    return {"name": request.param, "counted": counted, **_recorded(path)}


def _recorded(path: Path) -> dict[str, Any]:
    recording = Recording(Reader(str(path)).read())
    known = modelled(recording)
    calls: dict[str, list[Any]] = defaultdict(list)
    host = recording.host
    for node in np.flatnonzero(host.group == OP).tolist():
        name = recording.names[host.name[node]].removeprefix("aten::")
        calls[name].append(known.work_of(node))
    flops, _ = divided(recording, known, np.ones(host.size, np.bool_))
    works = [known.work_of(node) for node in range(host.size)]
    matrix = np.array([work is not None and work.matrix for work in works], np.bool_)
    return {"calls": calls, "total": float(np.nansum(flops[matrix]))}


def flops_of(calls: list[Any]) -> list[int]:
    """The arithmetic of some calls; each must be known."""
    assert all(work is not None and work.flops is not None and work.exact for work in calls), calls
    return sorted(work.flops for work in calls)


def test_products_equal_torchs_count(run: dict[str, Any]) -> None:
    for name in PRODUCTS:
        expected = sorted(run["counted"][name])
        # Attention on the CPU without a fused kernel and recurrent layers run products inside operators that torch counts not.
        found = flops_of(run["calls"][name])
        assert len(found) >= len(expected)
        missing = list(found)
        for value in expected:
            nearest = min(missing, key=lambda other: abs(other - value))
            assert nearest == pytest.approx(value, rel=0.01), name
            missing.remove(nearest)


def test_convolutions_equal_torchs_count(run: dict[str, Any]) -> None:
    assert flops_of(run["calls"]["convolution"]) == pytest.approx(sorted(run["counted"]["convolution"]), rel=0.01)
    found = run["calls"]["convolution_backward"]
    if run["name"] == "depthwise":
        # torch counts all pairs of channels for the weights of a grouped convolution; each group has its own.
        # Forward, in this order: depthwise at 16², point at 16², depthwise at 8², point at 8², 4 groups of 4·8·3² at 8².
        forward = [2 * 2 * places * weights for places, weights in FORWARD]
        assert flops_of(run["calls"]["convolution"]) == sorted(forward)
        # The first layer needs no gradient of its input.
        assert flops_of(found) == sorted([forward[0], *(2 * value for value in forward[1:])])
    else:
        assert flops_of(found) == pytest.approx(sorted(run["counted"]["convolution_backward"]), rel=0.01)


FORWARD = ((256, 16 * 9), (256, 16 * 16), (64, 16 * 9), (64, 16 * 16), (64, 32 * 4 * 9))


def test_what_operators_own_counts_each_product_once(run: dict[str, Any]) -> None:
    """linear → addmm, convolution → a library's: the sum over all operators is torch's, and what torch counts not by hand."""
    name, counted = run["name"], run["counted"]
    expected = sum(sum(counted[operator]) for operator in (*PRODUCTS, "convolution", "convolution_backward"))
    # Attention: two products forward and five backward, 2·8 operations each for a pair in each of 2·4 heads.
    expected += 7 * 2 * 8 * 2 * 4 * PAIRS.get(name, 0) * LAYERS.get(name, 1)
    if name == "depthwise":
        forward = [2 * 2 * places * weights for places, weights in FORWARD]
        expected = sum(forward) * 3 - forward[0]
    if name == "lstm":
        expected = 3 * sum(2 * 15 * count for count in WEIGHTS)
    assert run["total"] == pytest.approx(expected, rel=1e-9)


def test_attention_on_the_cpu(run: dict[str, Any]) -> None:
    forward = run["calls"]["_scaled_dot_product_flash_attention_for_cpu"]
    backward = run["calls"]["_scaled_dot_product_flash_attention_for_cpu_backward"]
    # Batch 2, four heads of size 8: scores and weighted sum are 4·8 operations a pair, backward five products of 2·8.
    pairs, layers = PAIRS.get(run["name"], 0), LAYERS.get(run["name"], 1 if run["name"] in PAIRS else 0)
    assert flops_of(forward) == [2 * 4 * pairs * 4 * 8] * layers
    assert flops_of(backward) == [2 * 4 * pairs * 5 * 2 * 8] * layers


def test_recurrent_layers_multiply_each_weight_at_each_step(run: dict[str, Any]) -> None:
    if run["name"] != "lstm":
        return
    layers, backward = run["calls"]["mkldnn_rnn_layer"], run["calls"]["mkldnn_rnn_layer_backward"]
    assert flops_of(layers) == sorted(2 * 15 * count for count in WEIGHTS)  # three sequences of five steps
    assert flops_of(backward) == sorted(2 * 2 * 15 * count for count in WEIGHTS)
