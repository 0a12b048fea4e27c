"""``advisor ladder``: the program in its states, the table, and a short climb on the CPU where torch is installed."""

from __future__ import annotations

import ast
import base64
import gzip
import hashlib
import importlib.util
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner
from ladder import html, running, table, text
from ladder.machine import Machine
from ladder.states import Article, Measurement, Settings, State, Task, change, on_cpu, on_cuda
from msgspec import json, structs
from support.paths import ROOT
from support.traces import sample

import advisor
from advisor.cli import main
from advisor.errors import UsageError
from advisor.record.environment import usable_cores

WHY = "torch is not installed here; .ci/run runs this against the torch it names"
MACHINE = Machine(
    device="cpu",
    name="a <processor>",
    cores=4,
    memory_bytes=None,
    torch="2.13.0",
    python="3.11.9",
    bf16=False,
    compiler=True,
)
GATE = ROOT / "sample_traces" / "gate"
SAMPLES = ROOT / "sample_traces" / "cpu_ladder"


def test_the_gpu_gets_the_articles_eight_states() -> None:
    """One change each, in the article's order; with 8 cores 8 workers load, as in the article."""
    settings, states = on_cuda(8)
    made = [settings := change(settings, state) for state in states]
    assert [state.name for state in states] == [
        "baseline", "workers", "pinned", "batch512", "uint8", "set_to_none", "amp", "compile",
    ]  # fmt: skip
    assert [one.batch for one in made] == [32, 32, 32, 512, 512, 512, 1024, 1024]
    assert [one.workers for one in made] == [0] + [8] * 7
    assert made[0] == Settings(device="cuda", set_to_none=False)
    assert made[7] == Settings(
        device="cuda", batch=1024, workers=8, pin=True, as_bytes=True, autocast="float16", compiled=True
    )


@pytest.mark.parametrize(("cores", "workers", "threads"), [(1, 1, 1), (2, 1, 1), (4, 2, 2), (7, 3, 4), (64, 8, 56)])
def test_workers_and_operators_share_the_cores(cores: int, workers: int, threads: int) -> None:
    settings, states = on_cpu(cores)
    assert settings.workers == 0
    assert settings.threads is None
    loaded = change(settings, states[1])
    assert (loaded.workers, loaded.threads) == (workers, threads)


@pytest.mark.parametrize("make", [on_cuda, on_cpu])
def test_every_rule_that_a_state_names_is_in_the_catalogue(make: object) -> None:
    from advisor import rulebook

    known = {rule.id for rule in rulebook.load([rulebook.builtin_rules_dir()]).rules}
    _, states = make(8)  # type: ignore[operator]
    assert {rule for state in states for rule in state.rules} <= known
    assert all(state.rules for state in states[1:])
    assert len({state.name for state in states}) == len(states)


def test_what_the_article_gained() -> None:
    """80 to 37 ms is 2.16 times as fast; the first state came from nowhere."""
    _, states = on_cuda(8)
    gains = [state.article.became if state.article else None for state in states]
    assert [gain and round(gain, 2) for gain in gains] == [None, 2.16, 1.39, 1.32, 1.05, 1.0, 1.48, 1.32]


def climb(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    laps: dict[str, list[float] | str],
    keep: Callable[[table.Ladder], None] = lambda _: None,
) -> table.Ladder:
    """A climb of two states and a third that needs bfloat16, with laps (or a failure) given, on traces that lie here."""
    states = [
        State(name="workers", title="as written"),
        State(name="no_workers", title="batch 64", change={"batch": 64}, rules=("data-loading/single-process-loader",)),
        State(name="half", title="in bfloat16", change={"autocast": "bfloat16"}, needs="bf16"),
        State(
            name="pinned",
            title="pinned",
            change={"pin": True},
            rules=("data-loading/single-process-loader",),
            article=Article(samples_per_s=300.0, from_per_s=200.0),
        ),
    ]
    monkeypatch.setattr(table, "on_cpu", lambda cores: (Settings(device="cpu"), states))

    def run(settings: Settings, steps: int, where: Path, trace: Path) -> running.Run:
        name = re.sub(r"^state\d_", "", trace.name)
        given = laps[name.removesuffix(".json.gz")]
        if isinstance(given, str):
            raise running.Failed(given)
        measured = Measurement(
            laps_ms=given, peak_memory_bytes=1 << 20, network="a network", parameters=1234, threads=2
        )
        return running.Run(measured, GATE / name)

    monkeypatch.setattr(running, "run", run)
    return table.climb(MACHINE, folder, steps=4, keep=keep)


def test_the_table_says_what_led_what_was_predicted_and_what_it_became(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """32 images in 10 ms are 3,200 a second, 64 in 40 ms 1,600, 64 in 16 ms 4,000: half as fast, then 2.5 times."""
    laps: dict[str, list[float] | str] = {"workers": [10.0] * 4, "no_workers": [40.0] * 4, "pinned": [16.0] * 4}
    found = climb(monkeypatch, tmp_path, laps)
    first, second, third, fourth = found.rungs
    assert [rung.outcome for rung in found.rungs] == ["climbed", "climbed", "skipped", "climbed"]
    assert [rung.samples_per_s for rung in found.rungs] == pytest.approx([3200, 1600, None, 4000])
    assert (first.became, second.became, third.became, fourth.became) == (None, 0.5, None, 2.5)
    assert (second.since, fourth.since) == (0, 1)
    assert "amx_bf16" in third.because
    # The change of the state that was skipped is left out of those after it.
    assert fourth.settings == Settings(device="cpu", batch=64, pin=True)
    # State 0 has workers: the rule is quiet there, and says nothing of state 1.
    assert second.led is None
    assert second.predicted is None
    assert second.not_led == "data-loading/single-process-loader did not fire on state 0"
    # State 1 has none: what the replay makes of its trace is the prediction.
    analysis = advisor.analyze(advisor.read(str(GATE / "no_workers.json.gz")), what_if=fourth.led and [fourth.led.rule])
    assert fourth.led is not None
    assert fourth.led.rule == analysis.findings[fourth.led.rank - 1].rule == "data-loading/single-process-loader"
    assert analysis.what_if is not None
    after = analysis.what_if.step_ms_after
    assert fourth.predicted is not None
    assert fourth.predicted.by == "replay"
    assert fourth.predicted.low == pytest.approx(analysis.what_if.step_ms_before / after["high"])
    assert fourth.predicted.high == pytest.approx(analysis.what_if.step_ms_before / after["low"])
    assert 1.0 < fourth.predicted.low < fourth.predicted.high


def test_on_a_gpu_each_profile_names_the_articles_next_change(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The states as the article has them, on the traces built from its figures: each change is led to, and priced."""
    built = sorted((ROOT / "sample_traces" / "article").glob("rung*.json.gz"))
    _, states = on_cuda(8)
    rates = [state.article.samples_per_s for state in states if state.article and state.article.samples_per_s]

    def run(settings: Settings, steps: int, folder: Path, trace: Path) -> running.Run:
        number = int(trace.name[len("state")])
        lap = 1000 * settings.batch / rates[number]
        measured = Measurement(
            laps_ms=[lap] * steps, peak_memory_bytes=None, network="ResNet-18", parameters=1, threads=8
        )
        return running.Run(measured, built[number])

    monkeypatch.setattr(running, "run", run)
    machine = structs.replace(MACHINE, device="cuda", cores=8)
    found = table.climb(machine, tmp_path, steps=3)
    assert [rung.samples_per_s for rung in found.rungs] == pytest.approx(rates)
    assert [rung.led and rung.led.rule for rung in found.rungs[1:]] == [state.rules[0] for state in states[1:]]
    assert all(rung.predicted and rung.predicted.by == "replay" for rung in found.rungs[1:])
    # 400 to 865 samples a second; the loader's wait is 43.75 of 80 ms, all of it hidden 80 / 36.25 = 2.21 times as fast.
    first = found.rungs[1]
    assert first.became == pytest.approx(2.1625)
    assert first.predicted is not None
    assert first.predicted.high == pytest.approx(2.21, abs=0.02)
    assert found.rungs[0].gpu_utilization == pytest.approx(0.3165, abs=0.0001)
    tensor = [rung.tensor_core_share for rung in found.rungs]
    assert tensor[:6] == [0] * 6
    assert tensor[6] == pytest.approx(0.263, abs=0.001)
    assert "Tensor Cores" in text.render(found)
    assert "26.3 %" in html.render(found)


def test_a_state_that_fails_is_told_and_its_change_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    laps: dict[str, list[float] | str] = {"workers": [10.0], "no_workers": "OutOfMemoryError: x", "pinned": [5.0]}
    found = climb(monkeypatch, tmp_path, laps)
    assert [rung.outcome for rung in found.rungs] == ["climbed", "failed", "skipped", "climbed"]
    assert found.rungs[1].because == "OutOfMemoryError: x"
    assert found.rungs[3].settings.batch == 32
    assert found.rungs[3].since == 0
    shown = text.render(found)
    assert "batch 64: failed" in shown
    assert "1: failed: OutOfMemoryError: x" in shown


def test_a_climb_that_is_cut_short_has_kept_the_table_so_far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The states that ran, each time one more; one that fails or is skipped comes with the next."""
    kept: list[int] = []
    laps: dict[str, list[float] | str] = {"workers": [10.0], "no_workers": "OutOfMemoryError: x", "pinned": [5.0]}
    climb(monkeypatch, tmp_path, laps, keep=lambda found: kept.append(len(found.rungs)))
    assert kept == [1, 4]


def test_the_table_goes_to_json_and_back_and_to_a_page_that_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = climb(monkeypatch, tmp_path, {"workers": [10.0], "no_workers": [40.0], "pinned": [16.0]})
    assert table.Ladder.from_json(found.to_json()) == found
    page = html.render(found)
    assert "a &lt;processor&gt;" in page
    assert "a <processor>" not in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}';" in policy[1]
    assert "unsafe" not in policy[1]
    assert "default-src 'none'" in policy[1]
    assert " style=" not in page
    assert "<script" not in page
    for words in ("2.50", "1.50", "3,200"):  # what it became, what the article's did, the first rate
        assert words in page
        assert words in text.render(found)


def test_without_torch_the_command_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "torch" else find(name, *a))
    done = CliRunner().invoke(main, ["ladder", "--out", str(tmp_path / "out")], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "pip install" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = CliRunner().invoke(main, ["ladder", "--out", str(tmp_path)], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "--force" in str(done.exception)


def test_the_process_that_analyzes_imports_no_torch() -> None:
    code = (
        "import sys, advisor.cli.ladder; sys.path.insert(0, 'examples'); import ladder.table, ladder.html;"
        "print(sorted({'torch', 'torchvision', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_example_uses_public_names_of_the_advisor_only() -> None:
    """But for the cores that a process may use, which the recorder counts and no trace is there yet to say."""
    for path in (ROOT / "examples" / "ladder").glob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for node in tree:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "advisor":
                assert node.attr in {*advisor.__all__, "__file__"}, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("advisor"):
                assert (path.name, node.module) == ("machine.py", "advisor.record.environment")
                assert [name.name for name in node.names] == ["usable_cores"]


@pytest.fixture
def torch_is_here() -> None:
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("PIL") is None:
        if os.environ.get("CI") and os.environ.get("ADVISOR_TORCH") == "1":
            pytest.fail(WHY)
        pytest.skip(WHY)


@pytest.mark.usefixtures("torch_is_here")
def test_the_network_is_a_resnet18() -> None:
    """torchvision's resnet18 has 11,689,512 parameters in 62 tensors, and with them 20 batch norms with 3 buffers each."""
    from ladder.train import ResNet18

    state = ResNet18().state_dict()
    assert sum(p.numel() for p in ResNet18().parameters()) == 11_689_512
    assert len(state) == 62 + 60
    assert list(state)[:2] == ["conv1.weight", "bn1.weight"]
    assert tuple(state["layer2.0.downsample.0.weight"].shape) == (128, 64, 1, 1)
    if importlib.util.find_spec("torchvision") is not None:
        import torch
        from torchvision.models import resnet18

        theirs, ours = resnet18().eval(), ResNet18().eval()
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(2, 3, 64, 64)
        assert torch.equal(theirs(x), ours(x))


@pytest.mark.usefixtures("torch_is_here")
def test_what_only_the_gpus_states_set_runs(tmp_path: Path) -> None:
    """Arrays for pictures, bytes for the device, zeroed gradients, autocast, and the network at full width: on the CPU here."""
    import torch
    from ladder import train

    settings = Settings(
        device="cpu", batch=2, workers=1, size=32, as_bytes=True, set_to_none=False, autocast="bfloat16"
    )
    asked, result = tmp_path / "asked.json", tmp_path / "result.json"
    asked.write_bytes(json.encode(Task(settings=settings, warmup=1, steps=3)))
    train.main(str(asked), str(result))
    found = json.decode(result.read_bytes(), type=Measurement)
    assert len(found.laps_ms) == 3
    assert min(found.laps_ms) > 0
    assert found.parameters == 11_689_512
    # A picture that is sent as bytes becomes what the loader would have made of it: 0 to -1, 255 to 1.
    pixels, _ = train.FakeCIFAR(settings, 1)[0]
    floats, _ = train.FakeCIFAR(structs.replace(settings, as_bytes=False), 1)[0]
    assert pixels.dtype == torch.uint8
    assert torch.equal(train.normalize(pixels), floats)
    assert train.normalize(torch.tensor([0, 255], dtype=torch.uint8).expand(3, 1, 2))[0, 0].tolist() == [-1, 1]


@pytest.mark.usefixtures("torch_is_here")
def test_a_short_climb_on_the_cpu_finds_the_loader_and_mends_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """States in order, figures measured; the wait for data leads at state 0 to workers, and is gone at state 1.

    Smaller JPEGs and larger inputs than the ladder's, and one thread from the start, so that loading takes about a quarter of
    what computing takes, on a busy machine too: in turns it is a part of the step that counts, beside it it is hidden.
    """
    monkeypatch.setattr(table, "on_cpu", smaller)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    machine = structs.replace(MACHINE, cores=usable_cores())  # the command's test asks what it is
    found = table.climb(machine, tmp_path, steps=6, states=2)
    assert [(rung.number, rung.name, rung.outcome) for rung in found.rungs] == [
        (0, "baseline", "climbed"),
        (1, "workers", "climbed"),
    ], [rung.because for rung in found.rungs]
    for rung in found.rungs:
        assert rung.step_ms is not None
        assert 0 < rung.step_ms.p10 <= rung.step_ms.median <= rung.step_ms.p90
        assert rung.step_ms.count == 6
        assert rung.samples_per_s
        assert rung.peak_memory_bytes
        assert rung.gpu_busy_share is None
        assert rung.operators_share
    before, after = found.rungs
    # The same JPEGs are decoded in every epoch: of that the wait is a part, and it is what is said first.
    assert "data-loading/decoded-again" in [finding.rule for finding in before.findings]
    assert not {"data-loading/decoded-again", "cpu/loader-wait"} & {finding.rule for finding in after.findings}
    assert after.led is not None
    assert after.led.rule == "data-loading/decoded-again"
    assert str(after.led.place).startswith("train.py:")
    assert after.predicted is not None
    assert 1 <= after.predicted.low <= after.predicted.high
    assert after.became
    assert after.became > 0
    nameless(tmp_path.glob("*.json.gz"))


def smaller(cores: int) -> tuple[Settings, list[State]]:
    """The CPU's states, with smaller JPEGs and larger inputs."""
    settings, states = on_cpu(cores)
    return structs.replace(settings, stored=160, size=96), states


def nameless(traces: Iterable[Path]) -> None:
    """No trace names a folder of this machine, its host or its user."""
    words = {str(Path.home()), socket.gethostname(), tempfile.gettempdir(), str(ROOT)} - {"", "/", "localhost"}
    for trace in traces:
        body = gzip.decompress(trace.read_bytes()).decode("utf-8")
        assert not [word for word in words if word in body], trace.name


@pytest.mark.usefixtures("torch_is_here")
def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(advisor.AdvisorError, match="--device cuda: torch sees no GPU here"):
        running.machine("cuda")


@pytest.mark.usefixtures("torch_is_here")
def test_the_command_leaves_traces_program_and_tables(tmp_path: Path) -> None:
    # .ci/run names the command of a package that is installed, which has the example within it.
    installed = os.environ.get("ADVISOR_COMMAND")
    command = shlex.split(installed) if installed else [sys.executable, "-m", "advisor"]
    done = subprocess.run(
        [*command, "ladder", "--device", "cpu", "--steps", "2", "--states", "1", "--out", "out"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": "" if installed else str(ROOT)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / "out"
    names = ["ladder.html", "ladder.json", "ladder.txt", "state0_baseline.json.gz", "train.py"]
    assert sorted(path.name for path in out.iterdir()) == names
    found = table.Ladder.from_json((out / "ladder.json").read_bytes())
    assert found.machine.device == "cpu"
    assert found.steps == 2
    assert (out / "ladder.txt").read_text() == text.render(found)
    assert text.headline(found) in done.stdout


def test_the_sample_ladder_was_climbed_and_names_nobody() -> None:
    """Its table is of the traces that lie beside it, whose figures an analysis finds again."""
    found = table.Ladder.from_json((SAMPLES / "ladder.json").read_bytes())
    climbed = [rung for rung in found.rungs if rung.outcome == "climbed"]
    assert {rung.trace for rung in climbed} == {path.name for path in SAMPLES.glob("*.json.gz")}
    for rung in climbed:
        path = SAMPLES / str(rung.trace)
        assert path.stat().st_size < 2 << 20
        body = gzip.decompress(path.read_bytes()).decode("utf-8")
        assert not re.findall(r"/(?:tmp|work|root|home|Users)\b[^\"]{0,40}", body), path.name
        assert "Call stack" in body
        analysis = sample(path)
        assert rung.number or "cpu/loader-wait" in [finding.rule for finding in analysis.findings]
        assert analysis.summary.causes.get("loader", 0.0) == pytest.approx(rung.loader_share)
