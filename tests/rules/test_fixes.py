"""The code of each fix, before and after: it parses, and it runs against the torch that is installed."""

from __future__ import annotations

import ast
import importlib.util
import multiprocessing
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from support.paths import ROOT

from advisor import rulebook
from advisor.rulebook import Rule

BOOK = rulebook.load([ROOT / "rules"])
FUSED = ("SGD", "Adagrad", "AdamW")
OPTIMIZERS = (*FUSED, "RMSprop", "NAdam")


def snippets() -> Iterator[Any]:
    """Every fix of every rule, before and after; where it names the program's optimizer, with each of some."""
    for rule in BOOK.rules:
        variants = rule.variants
        for place, fix in enumerate(variants, 1):
            for which in ("before", "after"):
                code = getattr(fix, which)
                names = (FUSED if "fused_possible" in fix.given else OPTIMIZERS) if "{optimizers}" in code else ("",)
                number = f" {place}" if len(variants) > 1 else ""
                for name in names if code.strip() else ():
                    filled = getattr(fix.filled({"optimizers": name}), which)
                    yield pytest.param(rule, which, filled, id=f"{rule.id}{number} {which} {name}".strip())


SNIPPETS = list(snippets())
LIMIT_S = 120
WHY = "torch is not installed here; .ci/run runs this against the torch it names"


@pytest.mark.parametrize(("rule", "which", "code"), SNIPPETS)
def test_the_code_parses(rule: Rule, which: str, code: str) -> None:
    ast.parse(code)


def test_all_rules_but_some_show_code() -> None:
    """A file that was cut off or filtered is mended by no change to the program, and no code fits any operator there is."""
    bare = [rule.id for rule in BOOK.rules if not all(fix.before and fix.after for fix in rule.variants)]
    assert bare == ["kernels/slow-operator", "profile/thinned", "profile/truncated"]
    fixes = next(rule.variants for rule in BOOK.rules if rule.id == "kernels/slow-operator")
    bare = [fix.title for fix in fixes if not fix.after]
    assert bare == ["Look at those indices: fewer, longer or sorted rows", fixes[-1].title]


@pytest.fixture
def torch_is_here() -> None:
    if importlib.util.find_spec("torch") is None:
        if os.environ.get("CI") and os.environ.get("ADVISOR_TORCH") == "1":
            pytest.fail(WHY)
        pytest.skip(WHY)


@pytest.mark.usefixtures("torch_is_here")
@pytest.mark.parametrize(("rule", "which", "code"), SNIPPETS)
def test_the_code_runs(rule: Rule, which: str, code: str) -> None:
    problem = problem_of(code, rule.id, which)
    assert not problem, f"{rule.path}, fix.{which}: {problem}"


@pytest.mark.usefixtures("torch_is_here")
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("loss = citerion(model(x), y)", "line 1: NameError"),
        ("x = 1\ntorch.symeig(x)", "line 2: RuntimeError"),
        ("torch.cuda.memory_in_use()", "AttributeError"),
        ("torch.cuda.comm.broadcast(x, ['cuda:0'])", "Error"),
        ("x = x.to('cuda:0', blocking=False)", "TypeError"),
        ("start = torch.cuda.Event(timing=True)", "TypeError"),
        ("torch.cuda.synchronize(stream=0)", "TypeError"),
        ("side = torch.cuda.Stream()\nside.wait(side)", "AttributeError"),
        ("loader = DataLoader(dataset, workers=8, pin_memory=True)", "TypeError"),
        ("loader = DataLoader(dataset, num_workers=0, persistent_workers=True)", "ValueError"),
        ("model = torch.compile(model, mode='fastest')", "knows no mode"),
        ("model = torch.compile(model, options={'fast': True})", "knows not all of"),
        ("model = torch.compile(model, full_graph=True)", "TypeError"),
        ("model = nn.Linear(7, 7)", "RuntimeError"),
        ("optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True, foreach=True)", "RuntimeError"),
        ("from torch.cuda.amp import GradScaler\nscaler = GradScaler()", "it warns"),
        (
            "for i, batch in enumerate(loader):\n    if i > 100:\n        train_step(batch)",
            "were not run: ['train_step",
        ),
        ("class Photos(Dataset):\n    def __len__(self):\n        return 1", "were not run: ['return 1']"),
        ("import ctypes\nctypes.string_at(0)", "ended its process"),
        ("exit()", "SystemExit"),
        ("while True:\n    pass", "has not ended"),
    ],
    ids=lambda text: str(text).splitlines()[-1].strip()[:40],
)
def test_what_is_wrong_with_code_is_found(code: str, problem: str) -> None:
    assert problem in problem_of(code, "a/rule", "after", limit_s=3)


@pytest.mark.usefixtures("torch_is_here")
@pytest.mark.parametrize(
    "code",
    [
        "raise_lr = False\nif raise_lr or not model.training:\n    raise ValueError('never')",
        "for i, (x, y) in enumerate(loader):\n    if i % 500 == 499:\n        print(i)\n    else:\n        x = x.cuda()",
        "with torch.cuda.amp.autocast():\n    loss = criterion(model(x), y)",  # deprecated: before the change it may be
    ],
    ids=["raises", "every 500", "deprecated"],
)
def test_what_is_sound_passes(code: str) -> None:
    assert problem_of(code, "a/rule", "before") == ""


def problem_of(code: str, rule: str, which: str, limit_s: float = LIMIT_S) -> str:
    """What is wrong with a snippet, run in a process of its own: it may change, break or hang what it likes there."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while it is loaded; and that a process with threads forks
        from support import fix_run

        fork = multiprocessing.get_context("fork")
        report, end = fork.Pipe(duplex=False)
        snippet = fix_run.Snippet(code, rule, place=f"<fix.{which} of {rule}>", strict=which == "after")
        child = fork.Process(target=fix_run.run_and_report, args=(snippet, folder, end))
        child.start()
        end.close()
        try:
            return str(report.recv()) if report.poll(limit_s) else f"has not ended after {limit_s} s"
        except EOFError:
            child.join()
            return f"ended its process with {child.exitcode}"
        finally:
            child.kill()
            child.join()
            report.close()
