"""Tokens that all prompts begin with, as the recorder reads them off what embeddings are given, by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

pytestmark = needs_torch

WORDS = 1000
PREFIX = [3, 14, 15, 92, 65, 35, 89, 79, 32, 38, 46, 26, 43, 38, 32, 79, 50, 28, 84, 19]  # twenty tokens


def looked(*batches: Any, embedding: Any = None) -> Any:
    """Return the record of the embedding's calls with these."""
    import torch

    from advisor.record.prompts import Prompts

    embedding = embedding if embedding is not None else torch.nn.Embedding(WORDS, 4).eval()
    prompts = Prompts()
    for batch in batches:
        prompts.look(torch, embedding, batch)
    return prompts.summary()


def texts(*rests: int, prefix: list[int] = PREFIX, width: int = 10, left: int = 0) -> Any:
    """Rows of the prefix and ten tokens that count up by 7 from those given; with *left* of them padded in front, by 0, 1, 2 …"""
    import torch

    rows = [prefix + [100 + (rest + 7 * at) % 800 for at in range(width)] for rest in rests]
    if left:
        rows = [[0] * (left * at) + row[: len(row) - left * at] for at, row in enumerate(rows)]
    return torch.tensor(rows)


def test_tokens_that_all_rows_of_all_calls_begin_with() -> None:
    found = looked(texts(1, 2), texts(3, 4), texts(5, 6, 8))
    assert (found.entries, found.tokens, found.rows, found.calls) == (WORDS, 20, 3, 3)


def test_one_row_in_each_call_of_its_own_width() -> None:
    found = looked(texts(1, width=8), texts(2, width=14), texts(3, width=11))
    assert (found.tokens, found.rows, found.calls) == (20, 1, 3)


def test_tokens_of_one_call_alone_are_no_prefix() -> None:
    assert looked(texts(1, 2)) is None
    assert looked(texts(1, 2), texts(3, 4, prefix=PREFIX[::-1])).tokens == 0


def test_the_first_call_may_be_of_something_else() -> None:
    found = looked(texts(1, 2, prefix=PREFIX[::-1]), texts(3, 4), texts(5, 6))
    assert (found.tokens, found.calls) == (20, 2)


def test_rows_of_a_call_that_begin_otherwise() -> None:
    import torch

    other = torch.cat([texts(3), texts(4, prefix=PREFIX[:7] + PREFIX[8:] + [1])])
    assert looked(texts(1, 2), other).tokens == 7


@pytest.mark.parametrize("width", [30, 31, 35])
def test_a_text_that_comes_again_or_goes_on_is_one(width: int) -> None:
    """The same text, and with one or five tokens behind it: as a loop without a cache gives it, or a talk."""
    text = texts(1, width=15)
    assert looked(text[:, :30], text[:, :width]) is None


def test_a_buffer_of_fixed_width_that_is_filled_is_one_text() -> None:
    import torch

    buffer = torch.zeros(1, 40, dtype=torch.long)
    buffer[0, :20] = torch.tensor(PREFIX)
    steps = []
    for at in range(3):
        buffer[0, 20 + at] = 500 + at
        steps.append(buffer.clone())
    assert looked(*steps) is None


def test_padding_in_front_is_left_out() -> None:
    """Of three rows the second has two tokens of padding in front, and the third four: the rows themselves begin alike."""
    found = looked(texts(1, 2, 3, left=2), texts(4, 5, 6, left=2))
    assert (found.tokens, found.rows) == (20, 3)


def test_padding_behind_the_rows_is_no_prefix() -> None:
    import torch

    rows = torch.nn.functional.pad(texts(1, 2), (0, 6))
    assert looked(rows, torch.nn.functional.pad(texts(3, 4), (0, 6))).tokens == 20


def test_at_least_the_last_token_is_computed() -> None:
    import torch

    alone = torch.tensor([PREFIX])
    assert looked(texts(1), alone, texts(2)).tokens == 19


def test_a_run_of_equal_tokens_stands_for_an_image() -> None:
    """Eight times one token, behind twenty of text: what stands there is in no embedding. Seven may be text."""
    for run, tokens in ((8, 20), (7, 31)):
        prefix = [*PREFIX, *[999] * run, 11, 12, 13, 14]
        assert looked(texts(1, prefix=prefix), texts(2, prefix=prefix)).tokens == tokens


def test_positions_are_no_tokens() -> None:
    """Numbers that count up in each row, behind padding in front of some."""
    import torch

    def positions(*lengths: int) -> Any:
        return torch.tensor([[1] * (40 - length) + list(range(length)) for length in lengths])

    assert looked(positions(40, 30, 35), positions(40, 28, 33)).tokens == 0


@pytest.mark.parametrize("what", ["narrow", "floats", "flat", "deep", "empty"])
def test_what_is_no_batch_of_prompts(what: str) -> None:
    import torch

    batch = {
        "narrow": texts(1, 2)[:, :15],
        "floats": texts(1, 2).float(),
        "flat": texts(1)[0],
        "deep": texts(1, 2)[None],
        "empty": torch.zeros(0, 30, dtype=torch.long),
    }[what]
    assert looked(batch, batch + 1 if what != "floats" else batch) is None


def test_training_is_not_looked_at() -> None:
    import torch

    embedding = torch.nn.Embedding(WORDS, 4)
    assert looked(texts(1, 2), texts(3, 4), embedding=embedding) is None
    with torch.no_grad():
        assert looked(texts(1, 2), texts(3, 4), embedding=embedding).tokens == 20


def test_some_calls_of_a_few_tables_and_some_rows_are_copied() -> None:
    import torch

    from advisor.record.prompts import Prompts

    prompts, tables = Prompts(), [torch.nn.Embedding(WORDS + at, 4).eval() for at in range(6)]
    for call in range(8):
        for table in tables:
            prompts.look(torch, table, texts(*range(200 * call, 200 * call + 200)))
        assert prompts.enough == (call == 7)
    copies = [[tuple(copy.tokens.shape) for copy in table.copies] for table in prompts._tables.values()]
    assert copies == [[(50, 30)] * 5] * 4
    assert prompts.summary().rows == 200
    assert not prompts._tables


def test_a_copy_is_what_was_given_then() -> None:
    import torch

    from advisor.record.prompts import Prompts

    prompts, embedding, buffer = Prompts(), torch.nn.Embedding(WORDS, 4).eval(), texts(1, 2)
    prompts.look(torch, embedding, buffer)
    buffer.copy_(texts(3, 4))
    prompts.look(torch, embedding, buffer)
    assert prompts.summary().calls == 2


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modes_graphs_and_transforms_of_the_program_see_nothing() -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from advisor.record.prompts import Prompts

    seen: list[str] = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    prompts, embedding = Prompts(), torch.nn.Embedding(WORDS, 4).eval()
    first, other = texts(1, 2), texts(3, 4)
    with Mode():
        prompts.look(torch, embedding, first)

    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            prompts.look(torch, embedding, x)
            return x + 1

    traced = torch.jit.trace(Model(), (other,), check_trace=False)
    torch.vmap(lambda rows: (prompts.look(torch, embedding, rows), rows + 1)[1])(torch.stack([first, other]))
    with torch.profiler.profile() as profiler:
        prompts.look(torch, embedding, other)
    assert not seen
    assert "aten::clone" not in str(traced.graph)
    assert not [event.key for event in profiler.key_averages() if "clone" in event.key]
    assert prompts.summary() is None


SCRIPT = """
import torch
torch.manual_seed(0)
class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.out = torch.nn.Embedding(1000, 32), torch.nn.Linear(32, 1000)
    def forward(self, ids):
        x = self.tokens(ids)[:, None]
        return self.out(torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)[:, 0, -1])
model = Decoder().eval()
instructions = torch.randint(0, 1000, (40,))
@torch.inference_mode()
def answer():
    rest = torch.randint(0, 1000, (4, 10))
    return model(torch.cat([instructions.expand(4, -1), rest], 1)).argmax(-1)
"""
LOOP = "for _ in range(30): answer()\n"
LEFT = "print('left behind' if '__call__' in vars(torch.nn.Embedding) else 'as it was')\n"


def settings(folder: Path) -> Any:
    return json.loads(gzip.decompress((folder / "job.trace.json.gz").read_bytes()))["advisor"]


def test_a_recording_tells_how_many_tokens_and_none_of_them(tmp_path: Path) -> None:
    process = record_script(SCRIPT + LOOP + LEFT, tmp_path)
    assert settings(tmp_path)["prompts"] == {"entries": 1000, "tokens": 40, "rows": 4, "calls": 4}
    assert "as it was" in process.stdout


def test_what_a_loader_feeds_is_looked_at_as_well(tmp_path: Path) -> None:
    """A model is not watched where a loader tells of the steps: its embedding is."""
    loop = "for _ in torch.utils.data.DataLoader(range(30)): answer()\n"
    record_script(SCRIPT + loop, tmp_path)
    assert settings(tmp_path)["prompts"]["tokens"] == 40


def test_a_training_tells_nothing(tmp_path: Path) -> None:
    loop = """
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    rest = torch.randint(0, 1000, (4, 10))
    model(torch.cat([instructions.expand(4, -1), rest], 1)).logsumexp(-1).mean().backward()
    optimizer.step()
"""
    record_script(SCRIPT + loop + LEFT, tmp_path)
    assert "prompts" not in settings(tmp_path)


def test_a_compiled_model_is_left_alone(tmp_path: Path) -> None:
    loop = "model.forward = torch.compile(model.forward, backend='eager', fullgraph=True)\n"
    loop += "for _ in torch.utils.data.DataLoader(range(30)): answer()\n"
    process = record_script(SCRIPT + loop + LEFT, tmp_path)
    assert "as it was" in process.stdout
    assert "prompts" not in settings(tmp_path)


def test_a_compilation_that_the_recorder_does_not_hear_of() -> None:
    """With fullgraph, Python that cannot be compiled would end it."""
    import torch

    from advisor.record.hooks import Hooks
    from advisor.record.settings import Settings

    program: dict[str, Any] = {}
    exec(SCRIPT, program)  # noqa: S102
    told = Settings()
    hooks = Hooks(told)
    hooks.install(calls=False)
    try:
        compiled = torch._dynamo.optimize(backend="eager", nopython=True)(program["model"])
        for rest in (1, 2, 3):
            compiled(texts(rest))
        assert "__call__" in vars(torch.nn.Embedding)
        assert told.prompts.summary() is None
    finally:
        hooks.remove()
        torch._dynamo.reset()
    assert "__call__" not in vars(torch.nn.Embedding)


def test_a_model_that_is_scripted_or_exported_meanwhile(tmp_path: Path) -> None:
    script = SCRIPT + "answer()\nscripted = torch.jit.script(Decoder().eval())\nscripted(torch.zeros(1, 20).long())\n"
    script += "exported = torch.export.export(Decoder().eval(), (torch.zeros(2, 20).long(),))\n"
    script += "print([node.target for node in exported.graph.nodes if 'clone' in str(node.target)])\n"
    process = record_script(script + LOOP + LEFT, tmp_path)
    assert "[]" in process.stdout
    assert "as it was" in process.stdout
    assert settings(tmp_path)["prompts"]["tokens"] == 40


def test_an_embedding_that_is_the_model_itself(tmp_path: Path) -> None:
    """Its calls are heard as steps as well, by the class's own call."""
    script = SCRIPT + "table = torch.nn.Embedding(1000, 8).eval()\nfor step in range(30):\n"
    script += "    with torch.no_grad(): table(torch.cat([instructions, torch.randint(0, 1000, (10,))])[None])\n"
    process = record_script(script + LEFT, tmp_path)
    assert settings(tmp_path)["prompts"]["tokens"] == 40
    assert "as it was" in process.stdout


def test_a_block_that_marks_its_steps(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    from support.paths import ROOT

    script = SCRIPT + "import advisor\nwith advisor.profile('job.trace.json.gz', steps=2, skip=4) as p:\n"
    script += "    for _ in range(12):\n        answer()\n        p.step()\n" + LEFT
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert settings(tmp_path)["prompts"]["tokens"] == 40
    assert "as it was" in process.stdout
