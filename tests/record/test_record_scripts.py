"""Scripts that make it hard to be recorded: each runs as it would without the recorder, and leaves what could be recorded."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.paths import ROOT
from support.recording import advisor, needs_torch, record_script

pytestmark = needs_torch
# Where a test is about how Python begins or ends, or what it starts.
record_anew = partial(record_script, anew=True)

HEAD = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

def loader(batches=24, **options):
    return DataLoader(TensorDataset(torch.ones(batches * 2, 4)), batch_size=2, **options)

def steps(batches=24, model=None, **options):
    model = nn.Linear(4, 1) if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number, (x,) in enumerate(loader(batches, **options)):
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield number
"""


def trace_in(folder: Path, name: str = "job.trace.json.gz") -> dict[str, Any]:
    root: dict[str, Any] = json.loads(gzip.decompress((folder / name).read_bytes()))
    return root


def steps_in(folder: Path, name: str = "job.trace.json.gz") -> int:
    return sum(event["name"].startswith("ProfilerStep#") for event in trace_in(folder, name)["traceEvents"])


def test_an_exception_passes_through_and_the_recording_is_kept(tmp_path: Path) -> None:
    script = HEAD + "for number in steps():\n    if number == 20:\n        raise ValueError('boom')\n"
    (tmp_path / "job.py").write_text(script)
    plain = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    done = record_anew(script, tmp_path, code=1)
    traceback = plain.stderr[plain.stderr.index("Traceback") :]
    assert traceback in done.stderr
    assert steps_in(tmp_path) == 5


def test_a_step_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    """Five steps are skipped and one warms up: of the steps from the seventh on, two are whole when the ninth raises."""
    done = record_script(
        HEAD + "for number in steps():\n    if number == 8:\n        raise ValueError\n", tmp_path, code=1
    )
    assert "recorded 2 steps" in done.stderr
    assert "the program ended before all 5" in done.stderr
    assert steps_in(tmp_path) == 2


@pytest.mark.parametrize(("leave", "code"), [("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit('words')", 1)])
def test_the_exit_status_is_the_scripts(tmp_path: Path, leave: str, code: int) -> None:
    script = HEAD + f"for number in steps():\n    if number == 20:\n        {leave}\n"
    done = record_script(script, tmp_path, code=code, anew=code == 1)  # Python says the words where it ends
    assert ("words" in done.stderr) == (code == 1)
    assert steps_in(tmp_path) == 5


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_worker_processes_neither_record_nor_write(tmp_path: Path, method: str) -> None:
    """Of 60 batches those that workers held ready while they started, where a busy machine lets them run ahead, are few."""
    script = (
        HEAD
        + f"if __name__ == '__main__':\n    print(sum(1 for _ in steps(60, num_workers=2, multiprocessing_context={method!r})))"
    )
    done = record_anew(script, tmp_path)
    assert done.stdout == "60\n"
    # On a machine that stands still now and then steps come in bursts, and are recorded again, which says so.
    assert done.stderr.count("advisor: recorded") == 1 + done.stderr.count("that came before them")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job.py", "job.trace.json.gz"]
    assert trace_in(tmp_path)["advisor"]["loaders"][0] | {"file": "", "line": 0} == {
        "workers": 2, "prefetch": 2, "batch_size": 2, "samples": 120, "passes": 1, "file": "", "line": 0,
    }  # fmt: skip


@pytest.mark.parametrize("leave", ["break", "sys.exit(0)"])
def test_a_child_that_was_forked_while_steps_were_recorded_ends(tmp_path: Path, leave: str) -> None:
    script = HEAD + (
        "child = None\nfor number in steps():\n    if number == 7:\n        child = os.fork()\n"
        f"    if child == 0 and number == 9:\n        {leave}\nif child:\n    print(os.waitpid(child, 0)[1])\n"
    )
    done = record_script(script, tmp_path, anew=leave == "break")
    assert done.stdout == "0\n"
    assert done.stderr.count("advisor: recorded") == 1
    assert steps_in(tmp_path) == 5


def test_a_profiler_of_the_scripts_own_works_and_is_told_of(tmp_path: Path) -> None:
    script = HEAD + (
        "from torch.profiler import profile\n"
        "for number in steps(30):\n    if number == 8:\n        with profile() as p:\n            torch.ones(3)\n"
        "        print(any(event.name == 'aten::ones' for event in p.events()))\n"
    )
    done = record_script(script, tmp_path)
    assert done.stdout == "True\n"
    assert "the program runs a profiler itself" in done.stderr
    assert steps_in(tmp_path) == 2


def test_a_profiler_around_the_whole_script_leaves_nothing_to_record(tmp_path: Path) -> None:
    script = HEAD + (
        "from torch.profiler import profile\nwith profile() as p:\n    for _ in steps(): pass\n"
        "print(len(p.events()) > 100)\n"
    )
    done = record_script(script, tmp_path, code=2)
    assert done.stdout == "True\n"
    assert "nothing was recorded: the program runs torch.profiler itself" in done.stderr


def test_arguments_folder_and_name_are_as_python_has_them(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 3\n")
    (folder / "data.txt").write_text("here")
    script = (
        "import argparse, os, sys, pickle, beside\nfrom pathlib import Path\nclass Own:\n    pass\n"
        "p = argparse.ArgumentParser()\np.add_argument('--steps', type=int)\np.add_argument('-o')\n"
        "print(__name__, p.parse_args(), sys.argv, sys.path[0] == os.path.dirname(__file__), beside.VALUE)\n"
        "print(type(pickle.loads(pickle.dumps(Own()))) is Own, (Path(__file__).parent / 'data.txt').read_text())\n"
        "os.chdir('/')\n" + HEAD + "for _ in steps(): pass\nsys.argv.clear()\n"
    )
    (folder / "job.py").write_text(script)
    arguments = ["src/job.py", "--steps", "4", "-o", "x"]
    plain = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = advisor("record", "-o", "out.json.gz", *arguments, cwd=tmp_path)
    assert done.stdout == plain.stdout
    assert steps_in(tmp_path, "out.json.gz") == 5
    # Places are as seen from where the command was given, whatever the working directory became.
    assert trace_in(tmp_path, "out.json.gz")["advisor"]["loaders"][0]["file"] == "src/job.py"


def test_a_module_runs_like_python_m(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "common.py").write_text(HEAD)
    (package / "train.py").write_text(
        "import sys\nfrom .common import steps\nprint(__name__, __package__, sys.argv[1:], len(list(steps())))\n"
    )
    done = advisor("record", "-m", "pkg.train", "--lr", "3", cwd=tmp_path)
    assert done.stdout == "__main__ pkg ['--lr', '3'] 24\n"
    assert steps_in(tmp_path, "train.trace.json.gz") == 5
    assert trace_in(tmp_path, "train.trace.json.gz")["advisor"]["loaders"][0]["file"] == "pkg/common.py"


def test_stop_ends_the_script_after_the_recording(tmp_path: Path) -> None:
    done = record_anew(
        HEAD + "try:\n    for _ in steps(10**6): pass\nfinally:\n    print('tidied')\nprint('on')", tmp_path, "--stop"
    )
    assert done.stdout == "tidied\n"
    assert steps_in(tmp_path) == 5


@pytest.mark.parametrize(
    ("loop", "said"),
    [
        (
            "model = nn.Linear(4, 4)\na, b = (torch.optim.Adam(model.parameters()) for _ in 'ab')\n"
            "schedule = torch.optim.lr_scheduler.StepLR(a, 1)\n"
            "for x, in loader():\n    model(x).sum().backward()\n    a.step()\n    b.step()\n    schedule.step()",
            "a step being one optimizer step",
        ),
        (
            "model = nn.Linear(4, 4)\no = torch.optim.LBFGS(model.parameters(), max_iter=2)\n"
            "def closure():\n    o.zero_grad()\n    loss = model(torch.ones(2, 4)).square().mean()\n"
            "    loss.backward()\n    return loss\n"
            "for _ in range(16): o.step(closure)",
            "a step being one optimizer step",
        ),
        (
            "model = nn.Linear(4, 1)\no = torch.optim.SGD(model.parameters(), lr=0.1)\n"
            "s = torch.amp.GradScaler('cpu', init_scale=3e38)\n"
            "for x, in loader():\n    s.scale(model(x).sum() * 9).backward()\n    s.step(o)\n    s.update()\n    o.zero_grad()",
            "a step being one optimizer step",
        ),
        ("model = nn.Linear(4, 4)\nfor _ in range(20): model(torch.ones(2, 4))", "a step being one call of the model"),
        (
            "encoder, decoder = nn.Linear(4, 4), nn.Linear(4, 4)\n"
            "def generate(x):\n    for _ in range(7): x = decoder(x)\n    return x\n"
            "for _ in range(20): generate(encoder(torch.ones(2, 4)))",
            "a step being one turn of the loop that calls the model",
        ),
        (
            "model, prompts = nn.Linear(4, 4), 20\nwhile prompts:\n    x = torch.ones(2, 4)\n"
            "    for _ in range(7): x = model(x)\n    prompts -= 1",
            "a step being one turn of the loop that calls the model",
        ),
        (
            "model = torch.compile(nn.Linear(4, 1), backend='eager')\nfor _ in steps(model=model): pass",
            "optimizer step",
        ),
    ],
    ids=["two optimizers", "closure", "skipped by the scaler", "calls", "turns", "turns of while", "compiled"],
)
def test_loops_of_other_shapes(tmp_path: Path, loop: str, said: str) -> None:
    done = record_script(HEAD + loop, tmp_path)
    assert said in done.stderr
    assert "recorded 5 steps" in done.stderr
    assert steps_in(tmp_path) == 5


def test_few_frames_of_ours_are_around_the_script(tmp_path: Path) -> None:
    """Formatting tracebacks, as anomaly detection does for each operator, takes nearly as long as without the recorder."""
    script = HEAD + "import traceback\nfor _ in steps(12): pass\nprint(len(traceback.format_stack()))\n"
    assert int(record_anew(script, tmp_path).stdout) <= 10


@pytest.mark.parametrize(
    "loop",
    [
        "for _ in range(40): out = model(torch.ones(2, 4)); copies.append(copy.deepcopy(model)); torch.save(model, 'm.pt')",
        "for _ in range(40):\n    for _ in range(3): out = model(torch.ones(2, 4))\n"
        "    copies.append(copy.deepcopy(model)); pickle.dumps(model)",
    ],
    ids=["calls", "turns"],
)
def test_a_model_whose_calls_are_watched_can_be_copied_and_saved(tmp_path: Path, loop: str) -> None:
    """Quantization copies the model that it converts. A copy's calls are no steps, and it has nothing of ours."""
    script = "import copy, pickle\n" + HEAD + "model, copies = nn.Sequential(nn.Linear(4, 4)), []\n" + loop
    script += "\nprint(any(each._forward_pre_hooks or each._forward_hooks for each in copies), '__call__' in vars(nn.Sequential))"
    done = record_script(script, tmp_path)
    assert "recorded 5 steps" in done.stderr
    assert done.stdout == "False False\n"


def test_ranges_that_quantizing_looks_at_are_no_steps(tmp_path: Path) -> None:
    """An observer is a module, and quantizing calls one for each of the 30 weights, before anything calls the model."""
    script = HEAD + (
        "import warnings\nwarnings.filterwarnings('ignore')\n"
        "model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(30)))\n"
        "model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)\n"
        "with torch.inference_mode():\n    for _ in range(40): model(torch.ones(2, 4))\n"
    )
    done = record_script(script, tmp_path)
    assert "recorded 5 steps" in done.stderr
    names = [event["name"] for event in trace_in(tmp_path)["traceEvents"]]
    assert names.count("quantized::linear_dynamic") == 5 * 30
    assert "aten::aminmax" not in names


def test_a_compiled_model_is_compiled_once_as_without_the_recorder(tmp_path: Path) -> None:
    script = HEAD + (
        "model = torch.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)), backend='eager', dynamic=False)\n"
        "for _ in steps(model=model): pass\nprint(torch._dynamo.utils.counters['stats'])\n"
    )
    (tmp_path / "job.py").write_text(script)
    plain = subprocess.run([sys.executable, "job.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert record_anew(script, tmp_path).stdout == plain.stdout
    assert trace_in(tmp_path)["advisor"]["compiled"][0]["backend"] == "eager"
    assert trace_in(tmp_path)["advisor"]["compiled"][0]["dynamic"] is False


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (HEAD + "for _ in steps(3): pass", "ended after 3 optimizer steps, 4 batches"),
        ("print('no torch')", "no optimizer step, no batch of a DataLoader, no call of a module and no loop around"),
    ],
)
def test_a_script_that_leaves_nothing_to_record(tmp_path: Path, script: str, said: str) -> None:
    done = record_script(script, tmp_path, code=2, anew=HEAD not in script)  # torch need not be there
    assert f"nothing was recorded: {'the program ' if 'ended' in said else ''}{said}" in done.stderr
    assert not (tmp_path / "job.trace.json.gz").exists()


@pytest.mark.parametrize(
    ("memory", "steps", "stacks", "said"),
    [
        # Of 80 kB free 48 may be taken; a step with stacks takes 27 bytes for each of a file of several kB a step.
        ("available=lambda: 80_000", 5, "none", "no source lines: there was no memory for the pass"),
        # The process grows by 1 GiB a step, and torch takes twelve times that to end: 12 of 25 GiB for one, 24 for two.
        ("available=lambda: 25 << 30, resident=lambda: next(grows)", 1, "second pass", "recorded 1 step, a step being"),
        (
            "available=lambda: 17 << 30, resident=lambda: next(grows) // 3",
            2,
            "second pass",
            "more would not fit into memory",
        ),
        ("available=lambda: None, resident=lambda: None", 5, "second pass", "recorded 5 steps, a step being"),
        # 190 MiB a step: two are no more than 384 yet.
        (
            "available=lambda: 99 << 30, resident=lambda: next(grows) // 1024 * 190",
            3,
            "second pass",
            "request for its batch (the recording was large before all 5)",
        ),
        (
            "available=lambda: 99 << 30, resident=lambda: next(grows) // 1024 * 767",
            2,
            "second pass",
            "large before all 5",
        ),
        (
            "available=lambda: 99 << 30, resident=lambda: next(grows) // 1024 * 769",
            1,
            "second pass",
            "large before all 5",
        ),
    ],
)
def test_what_would_not_fit_into_memory_is_not_recorded(
    tmp_path: Path, memory: str, steps: int, stacks: str, said: str
) -> None:
    script = (
        "import itertools\nfrom advisor.record import memory\ngrows = (n << 30 for n in itertools.count())\n"
        f"vars(memory).update(dict({memory}))\n" + HEAD + "for _ in steps(): pass"
    )
    done = record_script(script, tmp_path)
    assert said in done.stderr
    assert steps_in(tmp_path) == steps
    assert trace_in(tmp_path)["advisor"]["stacks"] == stacks


def test_an_error_of_the_script_counts_before_an_empty_recording(tmp_path: Path) -> None:
    record_script("import sys\nsys.exit(5)", tmp_path, code=5)
    record_anew("def f(:\n", tmp_path, code=1)


def test_after_the_recording_all_hooks_are_gone_but_one(tmp_path: Path) -> None:
    script = (
        "import torch\nfrom torch.utils.data import dataloader\nfrom torch.optim import optimizer\n"
        "from torch.nn.modules import module\n"
        "def state():\n"
        "    owners = [dataloader.DataLoader, dataloader._BaseDataLoaderIter, torch.optim.Optimizer, torch.autocast,\n"
        "              torch.amp.GradScaler, torch.autograd.profiler.profile]\n"
        "    found = [vars(owner).get(name) for owner in owners for name in\n"
        "             ('__init__', '__next__', '__enter__', '__exit__', 'step', 'profile_hook_step', '_prepare_trace')]\n"
        "    found += [torch.autograd.backward, torch.compile]\n"
        "    return [hasattr(each, '__wrapped__') and 'advisor' in getattr(each, '__globals__', {}).get('__name__', '')\n"
        "            for each in (getattr(each, '__func__', each) for each in found)]\n"
        "print(sum(state()) > 5)\n"
        + HEAD
        + "for _ in steps(): pass\n"
        "print(sum(state()), len(optimizer._global_optimizer_post_hooks), len(module._global_forward_hooks), sys.gettrace())\n"
        "print(hasattr(torch.optim.SGD.step, 'advisor'), torch.optim.SGD.step.hooked)\n"
    )  # fmt: skip
    done = record_script(script, tmp_path)
    # What is left hears that the training goes on: as long as it does, nothing else is looked for.
    assert done.stdout == "True\n0 1 0 None\nFalse True\n"


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """A shell has what it starts in the background ignore Ctrl-C: these tests, and what they start."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


@pytest.mark.usefixtures("ctrl_c_is_heard")
def test_ctrl_c_keeps_what_was_recorded(tmp_path: Path) -> None:
    script = (
        HEAD
        + "import time\nfor number in steps():\n    if number == 20:\n        print('waits', flush=True)\n        time.sleep(120)\n"
    )
    (tmp_path / "job.py").write_text(script)
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "advisor", "record", "job.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert steps_in(tmp_path) == 5


def test_output_is_never_overwritten_unasked(tmp_path: Path) -> None:
    (tmp_path / "job.trace.json.gz").write_text("mine")
    done = record_script("print('ran')", tmp_path, code=2)
    assert done.stdout == ""
    assert "exists already" in done.stderr
    record_script(HEAD + "for _ in steps(): pass", tmp_path, "--force", "--no-stacks")
    assert steps_in(tmp_path) == 5
    assert trace_in(tmp_path)["advisor"]["stacks"] == "none"
