"""The gate in a test: ``def test_training(advisor_gate): advisor_gate("trace.json.gz")``.

Nothing of the advisor is imported before a test uses the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_BASELINE = "advisor-baseline.json"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the fixture."""
    group = parser.getgroup("advisor", "performance gate of advisor")
    group.addoption(
        "--advisor-baseline",
        metavar="PATH",
        help=f"baseline of advisor_gate: a file for one test, or a folder that holds one a test [{_BASELINE}]",
    )
    group.addoption(
        "--advisor-update",
        metavar="REASON",
        help="write the baselines anew instead of comparing; the reason goes into their history",
    )
    group.addoption(
        "--advisor-inconclusive",
        choices=["skip", "pass", "fail"],
        default="skip",
        help="what becomes of a test to which the gate has no answer [skip]",
    )


@pytest.fixture
def advisor_gate(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Fail the test where a trace regressed against its baseline; returns the judgement.

    ``advisor_gate(trace, baseline=None, config=None)``: *trace* is a path, a Trace, or a list of them (repeated runs).
    """

    def gate(trace: Any, *, baseline: str | Path | None = None, config: str | Path | None = None) -> Any:
        __tracebackhide__ = True
        option = request.config.getoption
        path = _path(request, baseline)
        if option("--advisor-update"):
            _claim(request, path)
            return _write(trace, path, config, option("--advisor-update"))
        import advisor
        from advisor.errors import AdvisorError

        if not path.is_file():
            pytest.fail(f"no baseline {path}. Make it: pytest --advisor-update 'first baseline'", pytrace=False)
        try:
            judgement = advisor.gate(trace, baseline=path, config=config)
        except AdvisorError as error:
            pytest.fail(str(error), pytrace=False)
        return _settle(judgement, option("--advisor-inconclusive"))

    return gate


def _path(request: pytest.FixtureRequest, baseline: str | Path | None) -> Path:
    """Locate the baseline of this test, below pytest's root folder."""
    name = Path(baseline or request.config.getoption("--advisor-baseline") or _BASELINE)
    path = request.config.rootpath / name
    if path.is_dir() or name.suffix != ".json":
        path /= re.sub(r"[^\w.-]+", "-", request.node.name).strip("-") + ".json"
    return path


def _claim(request: pytest.FixtureRequest, path: Path) -> None:
    """Fail the test where another one of this run, in whatever process, writes the same baseline: the last would own it."""
    __tracebackhide__ = True
    import hashlib

    from advisor.files import alone

    own: Path = request.getfixturevalue("tmp_path_factory").getbasetemp()
    shared = (
        own.parent if hasattr(request.config, "workerinput") else own
    )  # pytest-xdist gives each process a folder there
    claim = shared / f"advisor-{hashlib.sha256(bytes(path.resolve())).hexdigest()[:32]}"
    with alone(claim):  # another process may be in the middle of writing its own
        try:
            other = claim.read_text(encoding="utf-8")
        except FileNotFoundError:
            claim.write_text(request.node.nodeid, encoding="utf-8")
            return
    if other != request.node.nodeid:
        pytest.fail(
            f"{path}: {other} writes it too, and each test needs a baseline of its own: "
            "--advisor-baseline FOLDER keeps one a test",
            pytrace=False,
        )


def _write(trace: Any, path: Path, config: str | Path | None, reason: str) -> Any:
    from advisor.gating.run import rules, runs, settings_of
    from advisor.gating.update import update

    settings = settings_of(config)
    analyses = runs(trace, settings, rules(settings))
    path.parent.mkdir(parents=True, exist_ok=True)
    return update(path, analyses, reason, settings.gate.workload or None)


def _settle(judgement: Any, inconclusive: str) -> Any:
    """Return the judgement where the test goes on; else end the test here, with what the command would print."""
    __tracebackhide__ = True
    if judgement.verdict == "passed" or (judgement.verdict == "inconclusive" and inconclusive == "pass"):
        return judgement
    from advisor.report import Options, render
    from advisor.report.gate import FORMATS

    text = render("text", judgement, Options(), FORMATS).decode("utf-8", "replace")
    if judgement.verdict == "inconclusive" and inconclusive == "skip":
        pytest.skip(text.splitlines()[0])
    pytest.fail(text, pytrace=False)
