"""Widths, padding and labels that the recorder reads off the first batches, by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from support.recording import needs_torch, record_script

pytestmark = needs_torch


def summary(*batches: Any) -> dict[str, Any]:
    import torch

    from advisor.record.batches import Batches

    facts = Batches()
    for batch in batches:
        facts.look(torch, batch)
    return facts.summary()


def words(*lengths: int, width: int = 20, left: bool = False) -> Any:
    """Rows of 7, 8, 9, … of these lengths, filled up to *width* with 0."""
    import torch

    rows = torch.zeros(len(lengths), width, dtype=torch.long)
    for at, length in enumerate(lengths):
        row = torch.arange(7, 7 + length)
        if left:
            rows[at, width - length :] = row
        else:
            rows[at, :length] = row
    return rows


@pytest.mark.parametrize("left", [False, True])
def test_rows_padded_to_a_width(left: bool) -> None:
    """40 rows' places a batch: 5 + 10 of words in one, 8 + 6 in the other: 25 and 26 of padding."""
    found = summary({"input_ids": words(5, 10, left=left)}, (words(8, 6, left=left), [1, 2]))
    assert (found["batch_width"], found["batch_longest"]) == (20, 9)  # 10 and 8: each batch is padded to its own
    assert found["padding_share"] == pytest.approx((25 / 40 + 26 / 40) / 2)
    assert found["ignored_share"] == 0


def test_up_to_eight_small_batches_count_and_two_large_ones() -> None:
    """Longest rows of 10 in the first two and 16 in the others: 14.5 of eight, and 10 of two."""
    small = [words(5, 10) if at < 2 else words(5, 16) for at in range(12)]
    assert summary(*small)["batch_longest"] == 15
    large = [words(*[5] * 3300, 10) if at < 2 else words(*[5] * 3300, 16) for at in range(12)]
    assert summary(*large)["batch_longest"] == 10


def test_rows_without_padding() -> None:
    found = summary(words(20, 20), words(20, 20))
    assert (found["batch_width"], found["batch_longest"], found["padding_share"]) == (20, 20, 0.0)


def test_a_mask_of_ones_is_no_padding() -> None:
    import torch

    found = summary(torch.ones(4, 20, dtype=torch.long), torch.ones(4, 20, dtype=torch.long))
    assert (found["batch_longest"], found["padding_share"]) == (20, 0.0)


def test_batches_of_their_own_widths_are_not_padded_to_one() -> None:
    assert summary(words(5, 10, width=20), words(5, 10, width=24))["batch_width"] is None


def test_one_batch_says_nothing() -> None:
    assert summary(words(5, 10))["batch_width"] is None


def test_labels_that_a_loss_leaves_out() -> None:
    """Three and four of eight labels are -100: the least share of two batches counts."""
    import torch

    first = torch.tensor([[-100, -100, -100, 1, 2, 3, 4, 5]])
    second = torch.tensor([[-100, -100, -100, -100, 2, 3, 4, 5]])
    assert summary({"labels": first}, {"labels": second})["ignored_share"] == 3 / 8


def test_what_holds_no_whole_numbers() -> None:
    import torch

    found = summary([torch.ones(4, 32)], object())
    assert not found.pop("uneven")
    assert set(found.values()) == {None}


def test_a_batch_that_cannot_be_read_does_not_end_the_program() -> None:
    class Odd:
        @property
        def data(self) -> Any:
            raise RuntimeError("gone")

    assert summary(Odd(), Odd())["batch_width"] is None


def frames(*lengths: int, width: int = 40, features: int = 12, last: bool = False) -> Any:
    """Rows of numbers other than 0, frames of these lengths, filled up to *width* with 0; *last*: time is the last dimension."""
    import torch

    rows = torch.zeros(len(lengths), width, features)
    for at, length in enumerate(lengths):
        rows[at, :length] = torch.rand(length, features) + 0.5
    return rows.transpose(1, 2) if last else rows


@pytest.mark.parametrize("last", [False, True])
def test_frames_padded_to_a_width(last: bool) -> None:
    """Longest rows of 20 and 12 frames of 40; 30 of 80 are real in one batch, 20 in the other: 5/8 and 3/4 are padding."""
    found = summary((frames(10, 20, last=last), [1, 2]), (frames(8, 12, last=last), [1, 2]))
    assert (found["feature_width"], found["feature_longest"]) == (40, 16)
    assert found["feature_padding"] == pytest.approx((5 / 8 + 3 / 4) / 2, abs=1e-4)
    assert found["batch_width"] is None


def test_waves_padded_to_a_width() -> None:
    found = summary(frames(10, 20, features=1)[:, :, 0], frames(8, 12, features=1)[:, :, 0])
    assert (found["feature_width"], found["feature_longest"]) == (40, 16)


@pytest.mark.parametrize("what", ["full", "border", "one-hot", "sparse", "zeros", "silence", "targets"])
def test_features_that_only_look_padded(what: str) -> None:
    import torch

    torch.manual_seed(0)
    batch = frames(40, 40, 40)
    if what == "border":  # of an image: on both sides
        batch[:, :5] = batch[:, 30:] = 0
    elif what == "one-hot":
        batch = torch.eye(64)[torch.tensor([3, 8, 12, 20])]
    elif what == "sparse":
        batch = frames(20, 20, 20) * (torch.rand(3, 40, 1) < 0.3)
    elif what == "zeros":
        batch = torch.zeros(3, 40, 12)
    elif what == "silence":  # the logarithm of nearly nothing is no constant
        batch[:, 20:] = -11.5 + 0.001 * torch.rand(3, 20, 12)
    elif what == "targets":  # smaller than the features beside them
        batch = [batch, frames(20, 20, 20, features=1)]
    found = summary(batch, batch)
    assert found["feature_padding"] == 0
    assert found["feature_longest"] == found["feature_width"]


@pytest.mark.parametrize(
    ("remade", "loop"),
    [
        (True, "for _ in range(20): one_pass(make())"),
        (False, "same = make()\nfor _ in range(20): one_pass(same)"),
    ],
)
def test_a_loader_made_for_each_pass_is_told(tmp_path: Path, remade: bool, loop: str) -> None:
    script = (
        "import torch\nfrom torch.utils.data import DataLoader\n"
        "model = torch.nn.Linear(4, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.0)\n"
        "def make():\n    return DataLoader(torch.ones(8, 4), batch_size=4)\n"
        "validation = make(); list(validation)\n"
        "def one_pass(loader):\n    for x in loader:\n        model(x).sum().backward()\n        optimizer.step()\n"
        + loop
    )
    record_script(script, tmp_path)
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    assert [loader.get("remade", False) for loader in settings["loaders"]] == [remade] * len(settings["loaders"])


def called(*inputs: Any) -> dict[str, Any]:
    import torch

    from advisor.record.batches import Batches

    facts = Batches()
    for given in inputs:
        facts.look_at_call(torch, given)
    return facts.summary()


def test_what_a_model_is_called_with_tells_where_there_is_no_loader() -> None:
    found = called(((words(9, 12, 5, 8, 3, 7, 4, 6),), {}))
    # 160 places, of which 54 are words.
    assert (found["batch_width"], found["batch_longest"], found["padding_share"]) == (20, 12, round(1 - 54 / 160, 4))


@pytest.mark.parametrize(
    "lengths",
    [
        (9, 12, 5, 8, 3, 7, 4),  # too few rows
        (20, 20, 20, 20, 20, 20, 20, 20),
    ],
)
def test_few_rows_or_full_ones_tell_nothing(lengths: tuple[int, ...]) -> None:
    assert called(((words(*lengths),), {}))["batch_width"] is None


def test_the_first_call_that_holds_rows_counts_alone() -> None:
    import torch

    full, padded = words(20, 20, 20, 20, 20, 20, 20, 20), words(9, 12, 5, 8, 3, 7, 4, 6)
    assert called(((full,), {}), ((padded,), {}))["batch_width"] is None
    # A loss that was given labels alone is none.
    assert called(((torch.zeros(8), torch.zeros(8, dtype=torch.long)), {}), ((padded,), {}))["batch_width"] == 20


def test_batches_of_a_loader_count_before_calls() -> None:
    import torch

    from advisor.record.batches import Batches

    facts = Batches()
    for _ in range(2):
        facts.look(torch, words(20, 20, 20, 20, 20, 20, 20, 20))
    facts.look_at_call(torch, ((words(9, 12, 5, 8, 3, 7, 4, 6),), {}))
    assert facts.summary()["padding_share"] == 0.0


def test_a_program_without_a_loader_is_told_of_its_padding(tmp_path: Path) -> None:
    script = (
        "import torch\nfrom torch import nn\n"
        "model = nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(96, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for step in range(20):\n"
        "    ids = torch.zeros(8, 24, dtype=torch.long)\n"
        "    for row in range(8): ids[row, : 3 + row] = torch.arange(1, 4 + row)\n"
        "    model(ids).sum().backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    record_script(script, tmp_path)
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    assert (settings["batch_width"], settings["batch_longest"]) == (24, 10)
    assert settings["padding_share"] == round(1 - 52 / 192, 4)


def test_rows_padded_to_the_longest_of_each_batch() -> None:
    """19 of 36 places and 48 of 72 hold words: 41 of 108 are padding; of their squares 185 of 324 and 752 of 1,728 are words'.

    Of 2 and 3 rows; batches count by their places.
    """
    first, second = words(5, 4, 10, width=12), words(24, 12, 12, width=24)
    one = words(12, 4, 3, width=12)
    found = summary({"input_ids": one}, {"input_ids": second})
    assert found["batch_width"] is None
    (uneven,) = found["uneven"]
    assert (uneven.rows, uneven.widths, uneven.time, uneven.size) == (3, (12, 24), 1, 0)
    assert uneven.padding == pytest.approx(1 - (19 + 48) / (36 + 72), abs=1e-4)
    assert uneven.squares == pytest.approx(1 - (144 + 16 + 9 + 576 + 144 + 144) / (3 * 144 + 3 * 576), abs=1e-4)
    assert not summary(first, second[:, :1])["uneven"]  # one of two batches holds no rows


@pytest.mark.parametrize("left", [False, True])
def test_the_side_that_is_padded_makes_no_difference(left: bool) -> None:
    (uneven,) = summary(words(5, 4, 20, left=left), words(30, 6, 6, width=30, left=left))["uneven"]
    assert uneven.padding == pytest.approx(1 - (29 + 42) / 150, abs=1e-4)


def test_rows_whose_first_dimension_is_time() -> None:
    """Of ten and more, so that rows of the other dimension are wide enough, too: late words are mostly padding."""
    lengths = [20, 6, 5, 9, 7, 4, 5, 3, 6, 4]
    (uneven,) = summary(*(words(*lengths).t() for _ in range(2)))["uneven"]
    assert (uneven.rows, uneven.widths, uneven.time) == (10, (20, 20), 0)
    assert uneven.padding == pytest.approx(1 - sum(lengths) / 200, abs=1e-4)


def test_narrow_batches_whose_first_dimension_is_time() -> None:
    (uneven,) = summary(words(5, 4, 20).t(), words(30, 6, 6, width=30).t())["uneven"]
    assert (uneven.rows, uneven.widths, uneven.time) == (3, (20, 30), 0)
    assert uneven.padding == pytest.approx(1 - (29 + 42) / 150, abs=1e-4)


@pytest.mark.parametrize("time", [0, 1, 2])
def test_frames_padded_to_the_longest_of_each_batch(time: int) -> None:
    batches = [frames(40, 10, 10, 20), frames(60, 10, 30, 20, width=60)]
    turned = {0: (1, 0, 2), 1: (0, 1, 2), 2: (0, 2, 1)}[time]
    found = summary(*([batch.permute(turned), [1, 2]] for batch in batches))
    assert found["feature_width"] is None or time == 0
    (uneven,) = found["uneven"]
    assert (uneven.rows, uneven.widths, uneven.time, uneven.size) == (4, (40, 60), time, 12)
    assert uneven.padding == pytest.approx(1 - (80 + 120) / 400, abs=1e-4)


def test_waves_padded_to_the_longest_of_each_batch() -> None:
    (uneven,) = summary(*(frames(40, 10, 10, width=40, features=1)[:, :, 0] for _ in range(2)))["uneven"]
    assert (uneven.widths, uneven.size, uneven.padding) == ((40, 40), 1, 0.5)


def test_words_and_frames_beside_one_another() -> None:
    found = summary(*((frames(40, 10, 10), words(20, 5, 5)) for _ in range(2)))
    assert [one.size for one in found["uneven"]] == [0, 12]


@pytest.mark.parametrize("what", ["like", "sorted", "packed", "mask", "image", "hot"])
def test_batches_that_hold_little_padding(what: str) -> None:
    import torch

    torch.manual_seed(0)
    batch: Any = words(20, 19, 18, 18)
    if what == "sorted":
        batch = words(20, 20, 19, 18)
    elif what == "packed":
        batch = torch.randint(1, 100, (4, 64))
    elif what == "mask":
        batch = torch.ones(4, 32, dtype=torch.long)
    elif what == "image":
        batch = [torch.rand(4, 3, 32, 32), torch.arange(4)]
    elif what == "hot":
        batch = torch.eye(64)[torch.tensor([3, 8, 12, 20])]
    assert all(one.padding < 0.1 for one in summary(batch, batch)["uneven"])


@needs_torch
def test_words_that_are_looked_up_tell_where_there_is_no_loader() -> None:
    """Eight rows of 4 words and one of 20, then of 40: as of a loader. One lookup says nothing, a loader is asked first."""
    import torch

    from advisor.record.batches import Batches

    first, second = words(*[4] * 8, 20, width=20), words(*[4] * 8, 40, width=40)
    facts = Batches()
    facts.look_at_lookup(torch, 1, first)
    assert facts.summary()["uneven"] == ()
    facts.look_at_lookup(torch, 1, second)
    facts.look_at_lookup(torch, 2, torch.arange(20))
    (uneven,) = facts.summary()["uneven"]
    assert (uneven.rows, uneven.widths) == (9, (20, 40))
    assert uneven.padding == pytest.approx(1 - (52 + 72) / (180 + 360), abs=1e-4)
    facts.look(torch, {"input_ids": words(20, 20, width=20)})
    assert facts.summary()["uneven"] == ()


@needs_torch
def test_a_program_that_pads_to_the_longest_row_without_a_loader(tmp_path: Path) -> None:
    script = (
        "import torch\nfrom torch import nn\n"
        "embedding = nn.Embedding(50, 4)\n"
        "class Model(nn.Module):\n"
        "    def forward(self, ids): return embedding(ids).mean(1)\n"
        "model = Model().eval()\n"
        "for step in range(40):\n"
        "    rows = [torch.arange(1, 5 + (16 + step % 3) * (row == 8)) for row in range(9)]\n"
        "    with torch.no_grad(): model(nn.utils.rnn.pad_sequence(rows, batch_first=True))\n"
    )
    record_script(script, tmp_path)
    settings = json.loads(gzip.decompress((tmp_path / "job.trace.json.gz").read_bytes()))["advisor"]
    (uneven,) = settings["uneven"]
    assert uneven["rows"] == 9
    assert set(uneven["widths"]) == {20, 21, 22}
    assert uneven["padding"] > 0.6
