"""The five recordings of engines, through the command line: phases, unknown time, and what ought to be done first.

Phases are read from the raw JSON here. What ought to be done first was written down from it before the rules were.
"""

from __future__ import annotations

import gzip
import json
import re
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner
from support.traces import real_trace

from advisor.cli import main
from advisor.results.analysis import Analysis

pytestmark = pytest.mark.real
ENGINES = (
    "mi300_sglang_decode",
    "mi300_vllm_graph_replay",
    "audited/mi300_vllm_graph_capture",
    "audited/b200_vllm_gptoss_eager",
    "audited/mi300_xdit_flux",
)
_VLLM = re.compile(r"execute_(?:\d+_)?context_(\d+)\(\D*(\d+).*?\)_generation_(\d+)\(\D*(\d+)")
_IDLE = re.compile("gpu-idle/|sync/")


@cache
def analyzed(name: str) -> Analysis:
    result = CliRunner().invoke(main, ["analyze", real_trace(name), "-f", "json"])
    assert result.exit_code == 0, result.output
    return Analysis.from_json(result.stdout)


@cache
def annotations(name: str) -> list[dict[str, Any]]:
    with gzip.open(real_trace(name)) as file:
        events = json.load(file)["traceEvents"]
    return [event for event in events if event.get("cat") == "user_annotation"]


def annotated(name: str) -> list[tuple[str, int, int, int | None]]:
    """Phase, batches, sequences and tokens of a batch, as the annotations of the raw file have them; the inner of two."""
    found: list[tuple[str, int, int | None]] = []
    for event in annotations(name):
        if match := re.match(r"step\[DECODE bs=(\d+)\]", event["name"]):
            return [("decode", 1, int(match[1]), int(match[1]))]
        if match := _VLLM.match(event["name"]):
            prompts, prompt_tokens, decoding, tokens = map(int, match.groups())
            phase = "mixed" if prompts and decoding else "prefill" if prompts else "decode"
            found.append((phase, prompts + decoding, prompt_tokens + tokens))
        elif match := re.match(r"execute_diffusion_(\d+)_", event["name"]):
            found.append(("diffusion", int(match[1]), None))
    assert len(found) <= 1
    return [(phase, 1, sequences, tokens) for phase, sequences, tokens in found]


@pytest.mark.parametrize("name", ENGINES)
def test_phases_are_those_of_the_annotations(name: str) -> None:
    phases = [(p.phase, p.iterations, p.sequences, p.tokens) for p in analyzed(name).phases]
    assert phases == annotated(name)
    assert bool(phases) != ("capture" in name)


@pytest.mark.parametrize("name", ENGINES)
def test_unknown_time_is_less_than_a_twentieth_of_the_window(name: str) -> None:
    causes = analyzed(name).summary.causes
    assert causes.get("unknown", 0.0) < 0.05
    assert sum(causes.values()) == pytest.approx(1, abs=0.001)


FIRST = {
    # 5.8 of 9.8 ms are products of 32 rows in 16 bits at half of the memory's rate; graphs replay, and nothing waits.
    "mi300_sglang_decode": ("inference/small-decode-batch", "Quantize the weights", None),
    # 7.0 of 10.7 ms are the experts' products, in 4 bits already, three times as long as their weights take to read; busy 99.8 %.
    # Of them the second, of half the weights, takes 3.76 ms, the first 3.27.
    "mi300_vllm_graph_replay": ("inference/slow-expert-product", "other kernels for experts", None),
    # Start-up: kernels are recorded into a graph and not run.
    "audited/mi300_vllm_graph_capture": (None, "", r"graph capture.*idle means nothing"),
    # 923 launches for 11.6 ms of work in 84.5 ms.
    "audited/b200_vllm_gptoss_eager": ("gpu-idle/launch-bound", "Leave eager mode", None),
    # 27 ms of bookkeeping that launches nothing cost nothing to drop. Of 227 ms 201 are work, 133 of it products in bfloat16 on a
    # GPU with FP8 units, in graphs, whose shapes nothing tells: worth about as much, but only possible, and coarser numbers.
    "audited/mi300_xdit_flux": ("gpu-idle/host-function", "_set_context", None),
}
# 1.9 of 9.8 ms are attention that reads keys and values of 16 bits; 1.0 ms are 36 runs of six kernels of 5 us: two copies, two
# normalizations, the rotary embedding, the write to the cache.
BESIDE = {
    "mi300_sglang_decode": {"inference/wide-cache", "inference/short-kernels"},
    "audited/mi300_xdit_flux": {"precision/half-products"},
}


@pytest.mark.parametrize("name", ENGINES)
def test_what_ought_to_be_done_first_is_said_first(name: str) -> None:
    found = analyzed(name)
    rule, title, headline = FIRST[name]
    assert found.headline is not None
    assert found.headline.first == rule
    if rule is None:
        assert [finding.rule for finding in found.findings if finding.severity != "note"] == []
    else:
        assert found.findings[0].rule == rule
        assert title in found.findings[0].fix.title
    assert headline is None or re.search(headline, found.headline.text)


def test_a_switch_that_is_on_is_not_advised() -> None:
    """AITER's normalizations run, as the capture of the same server shows by their operators: to switch it on returns nothing."""
    after = analyzed("mi300_vllm_graph_replay").findings[0].fix.after
    assert "VLLM_ROCM_USE_AITER" not in after
    assert '"moe_backend": "aiter"' in after


@pytest.mark.parametrize("name", ENGINES)
def test_nothing_is_said_of_switches_that_are_right(name: str) -> None:
    """No idle time is blamed where graphs replay or are captured, and of an engine's switches none but the one above."""
    found = {finding.rule for finding in analyzed(name).findings}
    assert {rule for rule in found if rule.startswith("inference/")} <= {FIRST[name][0], *BESIDE.get(name, ())}
    assert BESIDE.get(name, set()) <= found
    if "b200" not in name and "flux" not in name:
        assert not [rule for rule in found if _IDLE.match(rule)]
