"""The first of some layers that are alike, where it takes far longer. Worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.traces import analysis as real

import advisor
from advisor.report import step_time
from advisor.results.analysis import Summary
from advisor.testing import TraceBuilder


def model(
    folder: Path, *, first_us: int, passes: int = 1, again: bool = False, kernels: int = 1, layers: int = 5
) -> Summary:
    """Layers of 1 ms on the host, which launches 50 us of work in each; the first takes *first_us*, and in every pass with *again*.

    The first launches so many kernels.
    """
    b = TraceBuilder("NVIDIA A100-SXM4-40GB", host_us=0, latency_us=0, with_stack=True)
    for turn in range(passes):
        with b.module("Model_0"):
            for layer in range(layers):
                cold = layer == 0 and (turn == 0 or again)
                with b.module(f"Block_{layer}"):
                    for _ in range(kernels if layer == 0 else 1):
                        with b.op("aten::add"):
                            b.kernel("vectorized_elementwise_kernel", us=50)
                    for _ in range(10):
                        b.idle(us=first_us / 10 if cold else 100)
                        with b.op("aten::view"):
                            pass
        b.sync()
    return advisor.analyze(advisor.read(str(b.write(folder / "t.json")))).summary


def test_what_the_first_layer_takes_beyond_the_others_is_told_with_what_counts_as_steady(tmp_path: Path) -> None:
    """4 ms against 1 in each of four: 3 more of 8. In each the GPU works for 50 us, so that it idles 3 ms more; no start-up."""
    summary = model(tmp_path, first_us=4000)
    found = summary.first_layer
    assert found is not None
    assert (found.name, found.others) == ("Block_0", 4)
    assert (found.ms, found.other_ms, found.counted_ms) == (
        pytest.approx(4.0, abs=0.02),
        pytest.approx(1.0, abs=0.02),
        pytest.approx(3.0, abs=0.02),
    )
    assert step_time.first_layer(summary) == (
        "first calls: Block_0 held the CPU for 4.00 ms, the 4 after it 1.00 each; of the 3.00 more, 3.00 count as steady"
    )


def test_a_first_layer_that_is_long_in_every_pass_makes_no_first_calls(tmp_path: Path) -> None:
    assert model(tmp_path, first_us=4000, passes=2).first_layer is not None
    assert model(tmp_path, first_us=4000, passes=2, again=True).first_layer is None


def test_layers_that_differ_are_none_of_these(tmp_path: Path) -> None:
    assert model(tmp_path, first_us=1900).first_layer is None  # not twice as long
    assert model(tmp_path, first_us=4000, kernels=4).first_layer is None  # it launches more
    assert model(tmp_path, first_us=4000, layers=3).first_layer is None  # two others tell nothing


def test_the_first_layer_of_a_real_trace() -> None:
    """By the raw file TransformerBlock_0 takes 10.26 ms and the median of the other 35 1.89; three first aten::addmm are 5.6 of the
    difference.
    """
    summary = real("audited/b200_vllm_gptoss_eager").summary
    found = summary.first_layer
    assert found is not None
    assert (found.name, found.others) == ("TransformerBlock_0", 35)
    assert (found.ms, found.other_ms) == (pytest.approx(10.26, abs=0.01), pytest.approx(1.89, abs=0.01))
    assert found.counted_ms == pytest.approx(10.26 - 1.89 - 5.6, abs=0.15)


def test_where_the_difference_is_start_up_its_own_line_says_it() -> None:
    """By the raw file SwitchTransformerBlock_0 takes 155 ms, the others 40 to 80 with their waits; most of it is first launches."""
    summary = real("audited/a100_switch_transformer_8x1024").summary
    assert summary.first_layer is not None
    assert step_time.first_layer(summary) == ""


def test_what_is_left_of_a_cold_layer_is_told_where_it_is_much_of_the_steady_time(tmp_path: Path) -> None:
    """Of 160 ms more nearly all is start-up; the 5 ms that are none are as much as a few of the other layers."""
    made = model(tmp_path, first_us=5000)
    found, steady = made.first_layer, made.steady_ms
    assert found is not None
    assert steady is not None
    much = replace(made, first_layer=replace(found, ms=160.0, counted_ms=0.06 * steady))
    assert "of the 159 more" in step_time.first_layer(much)
    little = replace(made, first_layer=replace(found, ms=160.0, counted_ms=0.04 * steady))
    assert step_time.first_layer(little) == ""


def test_a_real_model_whose_first_block_loads_its_code() -> None:
    """By the raw file block 0 takes 172.5 ms of host time and each of the nine after it 3.8."""
    told = step_time.first_layer(real("a100_switch_transformer").summary)
    assert told.startswith("first calls: SwitchTransformerBlock_0 held the CPU for 172 ms, the 9 after it 3.81 each"), (
        told
    )
