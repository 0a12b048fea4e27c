"""A program run without a profiler: its steps, its losses with what is random made to repeat, and what it writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from support.measured import measured
from support.paths import ROOT
from support.recording import needs_torch

from advisor.record.measured import Measured

pytestmark = needs_torch

TRAINING = """
import random, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self):
        return 96
    def __getitem__(self, i):
        return torch.rand(4) + random.random() + i

def main():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    opt = torch.optim.SGD(net.parameters(), lr=1e-5)
    for x in DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=int(sys.argv[1])):
        loss = net(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("end")

if __name__ == "__main__":
    main()
"""


def test_losses_repeat_whichever_process_loads(tmp_path: Path) -> None:
    """Shuffling, augmentation and dropout draw the same in the training process and in workers."""
    runs = [
        measured(TRAINING, tmp_path / f"job{at}", "--check", "--most", "8", arguments=(workers,))
        for at, workers in enumerate(("0", "1", "2"))
    ]
    for run in runs:
        assert len(run.losses) >= 6
        assert run.losses[:6] == runs[0].losses[:6]
    assert len(set(runs[0].losses)) > 1
    assert runs[0].outputs


WIDTHS = """
import sys
import torch
from torch import nn

net = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), nn.Dropout(0.5))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(10):
    x = torch.ones(2, int(sys.argv[1]), 8)
    mask = torch.arange(x.size(1)).expand(2, -1) >= 3
    loss = net[1](net[0](x, src_key_padding_mask=mask))[:, :3].square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_without_dropout_what_it_would_draw_for_another_width_makes_no_difference(tmp_path: Path) -> None:
    options = ("--check", "--most", "8", "--least", "8", "--seconds", "0")

    def losses(*more: str, width: str) -> list[float]:
        run = measured(WIDTHS, tmp_path / "job", *options, *more, arguments=(width,))
        return [loss.numbers[1] for loss in run.losses[:6]]

    assert losses(width="3") != pytest.approx(losses(width="9"), rel=1e-2)
    assert losses("--no-dropout", width="3") == pytest.approx(losses("--no-dropout", width="9"), rel=1e-5)


def test_a_run_ends_with_its_steps_and_times_each(tmp_path: Path) -> None:
    run = measured(TRAINING, tmp_path / "job", "--most", "12", arguments=("0",))
    assert (run.error, run.ended, run.unit, len(run.step_ms)) == ("", True, "optimizer", 12)
    assert len(run.cpu_ms) == 12
    assert min(run.step_ms) > 0.1  # no boundary counts twice
    assert run.losses == ()
    assert str((tmp_path / "job" / "job.py").resolve()) in run.loaded


def test_a_timed_run_tells_how_fast_the_machine_was_beside_each_step(tmp_path: Path) -> None:
    text = TRAINING.replace('    print("end")', "").replace(
        "        opt.step()", "        opt.step(); time.sleep(0.03)"
    )
    run = measured("import time" + text, tmp_path / "job", "--most", "12", arguments=("0",))
    assert len(run.sum_ms) == len(run.step_ms) == 12
    assert min(run.sum_ms) > 0.02
    assert len(set(run.sum_ms)) > 3
    checked = measured(TRAINING, tmp_path / "job", "--check", "--most", "8", "--seconds", "0", arguments=("0",))
    assert checked.sum_ms == ()


def test_a_short_program_is_timed_to_its_end(tmp_path: Path) -> None:
    run = measured(TRAINING, tmp_path / "job", "--seconds", "1000", arguments=("0",))
    assert (run.ended, len(run.step_ms)) == (False, 23)  # between the ends of 24


COMPILED = """
import time
import torch
from torch import nn

net = torch.compile(nn.Linear(4, 1), backend="eager", dynamic=False)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(60):
    loss = net(torch.ones(9 if step == 10 else 5 if step >= 4 else 2, 4)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    time.sleep(0.01)
"""


def test_steps_that_compile_are_told_and_the_seconds_of_steps_count_from_behind_them(tmp_path: Path) -> None:
    run = measured(COMPILED, tmp_path / "job", "--least", "2", "--seconds", "0.2")
    # A step ends with the optimizer's: the fifth and the eleventh of them are the steps 3 and 9 between these ends.
    assert run.compiled == (3, 9)
    assert run.ended
    assert sum(run.step_ms[10:]) >= 195


@pytest.mark.parametrize(
    "words", [["advisor.record.measure", "--out", "out.json", "--root", "."], ["advisor", "record"]]
)
def test_a_run_ends_with_the_process_that_had_it_run(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as starter:
        env = os.environ | {"PYTHONPATH": str(ROOT), "ADVISOR_STARTED_BY": str(starter.pid)}
        command = [sys.executable, "-m", *words, "job.py"]
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            assert run.stdout.readline() == b"begun\n"
            starter.kill()  # nothing has taken note of it yet
            assert run.wait(30) == 1


@pytest.mark.parametrize(
    ("last", "error"), [("raise ValueError", "an exception"), ("raise SystemExit(3)", "exit status 3"), ("pass", "")]
)
def test_the_end_of_the_program_is_told(last: str, error: str, tmp_path: Path) -> None:
    assert measured(f"import torch\n{last}\n", tmp_path / "job", code=1 if error else 0).error == error


def test_files_outside_the_copy_are_named(tmp_path: Path) -> None:
    # Neither below the copied tree nor below the folder for temporary files, where CI's checkout lies.
    outside = Path.home() / f"outside-{os.getpid()}.tmp"
    text = f"import torch\nopen('inside.txt', 'w').close()\nopen({str(outside)!r}, 'a').close()\nopen({str(outside)!r}).close()\n"
    try:
        run = measured(text, tmp_path / "job", "--check")
    finally:
        outside.unlink(missing_ok=True)
    assert run.outside == (str(outside.resolve()),)


def test_outputs_are_kept_of_a_program_that_does_not_train(tmp_path: Path) -> None:
    text = "import torch\nnet = torch.nn.Linear(4, 2)\nfor _ in range(20):\n    net(torch.ones(3, 4))\n"
    run = measured(text, tmp_path / "job", "--check", "--most", "8")
    assert run.unit == "calls"
    assert not run.losses
    assert run.outputs[0].numbers[0] == 6
    assert run.outputs[0].dtypes == ("float32",)


def test_steps_are_what_the_recorder_found_them_to_be(tmp_path: Path) -> None:
    """Twelve calls are a calibration: without the recorder's word they would be taken for steps."""
    text = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 4)
for _ in range(12):
    model(torch.ones(2, 4))
for x in DataLoader(torch.ones(80, 4), batch_size=2):
    model(x)
"""
    found = measured(text, tmp_path / "job", "--by", "batches", "--most", "30", "--least", "20", "--seconds", "0")
    assert (found.unit, len(found.step_ms)) == ("batches", 20)


HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader
model = nn.Linear(4, 4)
head = nn.Linear(4, 4)
def train(steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        head(model(torch.ones(2, 4))).sum().backward()
        optimizer.step()
def answer(prompts):
    for prompt in range(prompts):
        x = model(torch.ones(2, 4))
        for token in range(5):
            x = head(x)
def tag(batches):
    for x in DataLoader(torch.ones(batches * 2, 4), batch_size=2):
        model(x)
def score(calls):
    for _ in range(calls):
        model(torch.ones(2, 4))
"""


@pytest.mark.parametrize(
    ("by", "job"), [("turns", "answer(15)"), ("batches", "tag(14)"), ("calls", "score(15)")]
)  # 15 begins: of a loader the end is one
def test_steps_behind_a_training_are_timed_without_those_of_the_training(by: str, job: str, tmp_path: Path) -> None:
    run = measured(HEAD + f"train(12)\n{job}\n", tmp_path / "job", "--by", by, "--behind")
    assert (run.unit, run.ended, len(run.step_ms)) == (by, False, 14)
    ended = measured(
        HEAD + f"train(12)\n{job}\n", tmp_path / "job", "--by", by, "--behind", "--least", "9", "--seconds", "0"
    )
    assert (ended.ended, len(ended.step_ms)) == (True, 9)


def test_of_several_stretches_between_trainings_the_longest_is_timed(tmp_path: Path) -> None:
    text = HEAD + "train(12)\ntag(9)\ntrain(12)\ntag(18)\ntrain(30)\ntag(9)\n"
    assert len(measured(text, tmp_path / "job", "--by", "batches", "--behind").step_ms) == 18


def test_a_loop_is_followed_by_its_name(tmp_path: Path) -> None:
    """Six turns that warm up come before, and would be taken for the steps."""
    text = HEAD + "for size in range(6):\n    model(torch.ones(size, 4)), head(torch.ones(size, 4))\nanswer(15)\n"
    assert len(measured(text, tmp_path / "job", "--by", "turns").step_ms) < 14
    assert len(measured(text, tmp_path / "job", "--by", "turns", "--loop", "answer(prompt)").step_ms) == 14


SPAWNED = """
import os, sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def train(rank, folder, steps):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    net = nn.Linear(8, 1)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(steps):
        opt.zero_grad()
        net(torch.ones(4, 8)).mean().backward()
        for p in net.parameters():
            dist.all_reduce(p.grad)
        opt.step()
    dist.destroy_process_group()

if __name__ == "__main__":
    mp.spawn(train, args=(os.getcwd(), int(sys.argv[1])), nprocs=2)
"""


@pytest.mark.parametrize("steps", [8, 200])
def test_ranks_that_the_program_starts_are_measured_in_its_place(tmp_path: Path, steps: int) -> None:
    """Each leaves a file with its rank, after as many steps as the other, whoever ends first."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "job.py").write_text(SPAWNED)
    out = tmp_path / "run.json"
    options = ["--out", str(out), "--root", str(folder), "--least", "6", "--check"]
    command = [sys.executable, "-m", "advisor.record.measure", *options, "job.py", str(steps)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert not out.exists()
    runs = [msgspec.json.decode((tmp_path / f"run.rank{rank}.json").read_bytes(), type=Measured) for rank in (0, 1)]
    assert [run.error for run in runs] == ["", ""]
    assert len({len(run.step_ms) for run in runs}) == 1
    assert [run.ended for run in runs] == [steps == 200] * 2
    assert all(run.losses for run in runs)
