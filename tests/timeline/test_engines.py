"""Annotations of engines: the phase, the sequences and the tokens that their names tell."""

from __future__ import annotations

import pytest

from advisor.timeline.engines import Batch, batch_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
            Batch("decode", "vLLM", 32, 32, 32785),
        ),
        ("execute_context_1(888_788544)_generation_0(0)", Batch("prefill", "vLLM", 1, 888)),
        (
            "execute_40_context_2(sq512sk512sqsq1sqsk1)_generation_38(sq38sk9sqsq1sqsk1)",
            Batch("mixed", "vLLM", 40, 550, 9),
        ),
        ("execute_new_1_cached_31", Batch("mixed", "vLLM", 32, None)),
        ("execute_new_0_cached_31", Batch("decode", "vLLM", 31, None)),
        ("step[DECODE bs=32]", Batch("decode", "SGLang", 32, 32)),
        ("step[EXTEND bs=2 toks=700]", Batch("prefill", "SGLang", 2, 700)),
        ("step[EXTEND bs=2]", Batch("prefill", "SGLang", 2, None)),
        ("step[TARGET_VERIFY bs=4]", Batch("decode", "SGLang", 4, None)),
        ("step[MIXED bs=9]", Batch("mixed", "SGLang", 9, None)),
        ("[Executor] _forward_step 12: 3 ctx reqs, 10 gen reqs", Batch("mixed", "TensorRT-LLM", 13, None)),
        ("execute_diffusion_1_256x256", Batch("diffusion", "xDiT", 1, None)),
        ("execute_context_0(0)_generation_0(0)", None),
        ("execute_model", None),
        ("step[IDLE]", None),
        ("ProfilerStep#3", None),
    ],
)
def test_batch_of_an_annotation(name: str, expected: Batch | None) -> None:
    assert batch_of(name) == expected
