"""Every formula on operands that do not fit it: None or a work, never an error, never a negative number."""

from __future__ import annotations

import json
import random

from advisor.roofline.families import FORMULAS, work
from advisor.roofline.signature import read
from advisor.roofline.work import Hints

NAMES = [*FORMULAS, "triton_poi_fused_add_0", "triton_red_fused_sum_1", "triton_tem_fused_mm_2"]
VALUES = (
    "",
    "True",
    "False",
    "0",
    "1",
    "-1",
    "7",
    "2.5",
    "[]",
    "[1]",
    "[0, 0]",
    "[-3, 2]",
    "[1, 2, 3]",
    "[True, False]",
    "x",
)
TYPES = ("float", "c10::Half", "long int", "bool", "", "Scalar", "TensorList", "c10::Float4_e2m1fn_x2", "strange")


def shape(dice: random.Random) -> list[int]:
    """A shape of few dimensions, some of them 0 or 1."""
    return [dice.choice((0, 1, 2, 3, 8)) for _ in range(dice.choice((0, 1, 2, 2, 3, 4, 5)))]


def test_no_formula_fails_on_operands_that_do_not_fit() -> None:
    dice = random.Random(17)
    known = 0
    for name in NAMES:
        for _ in range(25):
            count = dice.randrange(12)
            nested = [dice.random() < 0.15 for _ in range(count)]
            dims = [[shape(dice) for _ in range(dice.randrange(4))] if many else shape(dice) for many in nested]
            columns = [[dice.choice(words) for _ in range(count)] for words in (TYPES, VALUES)]
            strides = [[dice.choice((0, 1, 5)) for _ in sizes] for sizes in dims]
            texts = (json.dumps(column).encode() for column in (dims, columns[0], strides, columns[1]))
            signature = read(name, *texts)
            if signature is None:
                continue
            near = tuple(tuple(shape(dice)) for _ in range(3))
            for hints in (Hints(), Hints(near, "float16")):
                found = work(signature, hints)
                if found is not None:
                    known += found.known
                    assert (found.flops or 0) >= 0, (name, dims, columns)
                    assert (found.bytes or 0) >= 0, (name, dims, columns)
                    assert found.known or found.missing, (name, dims, columns)
    assert known > len(NAMES)
