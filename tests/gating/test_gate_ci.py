"""The gate where CI meets it: the page's commands, the composite action, GitLab's job, the pytest plugin."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.command import command
from support.paths import ROOT

# pytester takes out again what is imported while it runs; numpy cannot be imported twice, and a class would be two.
import advisor.gating.baseline
import advisor.pipeline  # noqa: F401

PAGE = ROOT / "docs" / "gate.md"
GATE = ROOT / "sample_traces" / "gate"
pytest_plugins = ["pytester"]


def block(mark: str) -> str:
    """The code block after a mark of the page."""
    found = re.search(
        rf"<!-- {re.escape(mark)} -->\n```(?:sh|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None, mark
    return found[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the sample traces and a command `advisor`."""
    (tmp_path / "sample_traces").symlink_to(ROOT / "sample_traces")
    command = tmp_path / "bin" / "advisor"
    command.parent.mkdir()
    command.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m advisor "$@"\n'
    )
    command.chmod(0o755)
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)
    return tmp_path


def shell(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script as GitHub runs one: bash -eo pipefail, in the checkout."""
    environment = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        **more,
    }
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def said(mark: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands after a mark of the page, until one fails; what the last one said."""
    for line in block(mark).splitlines():
        name, *words = shlex.split(line)
        assert name == "advisor"
        done = command(*words, cwd=folder)
        if done.returncode:
            break
    return done


def test_the_pages_commands_do_what_it_says(checkout: Path) -> None:
    passed = said("ci:gate", checkout)
    assert passed.returncode == 0, passed.stderr
    assert "PASSED: no regression in" in passed.stdout
    failed = said("ci:gate-fails", checkout)
    assert failed.returncode == 1, failed.stderr
    text = PAGE.read_text(encoding="utf-8")
    # The counts of checks go with the catalogue: left out, so that a new rule does not change this page.
    first, _, rest = failed.stdout.partition("\n")
    shown = f"{first}\n...\n{rest[rest.index('Regressions') : rest.index('Not judged, for lack of data (ignored)')]}..."
    renewed = re.sub(
        r"<!-- gate-output -->\n```text\n.*?```",
        lambda _: f"<!-- gate-output -->\n```text\n{shown}\n```",
        text,
        flags=re.DOTALL,
    )
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(renewed, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == renewed
    renewing = said("ci:gate-update", checkout)
    assert renewing.returncode == 0, renewing.stderr


def test_the_pages_table_of_figures_is_current() -> None:
    from advisor.views.metrics import METRICS

    text = PAGE.read_text(encoding="utf-8")
    for metric in METRICS.values():
        assert (
            f"| `{metric.name}` | {metric.unit or 'count'} | {metric.meaning} | {100 * metric.margin.tolerance:g} % |"
            in text
        )


def test_the_pages_settings_are_settings(tmp_path: Path) -> None:
    from advisor import rulebook
    from advisor.config import load

    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    path = tmp_path / "pyproject.toml"
    path.write_text(found[1])
    config = load(path)
    config.require_fit((rule.id for rule in rulebook.load([ROOT / "rules"]).rules), gate=True)
    settings = config.gate
    assert (settings.workload, len(settings.assertions), len(settings.waivers)) == ("resnet50-bs64", 4, 1)


# ---- GitHub and GitLab


def steps_of_the_action() -> dict[str, tuple[dict[str, str], str]]:
    """Name to environment and script of the action's steps. It is read by hand: the project needs no YAML reader."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^    - name: ", text, flags=re.MULTILINE)[1:]:
        name = part.splitlines()[0]
        environment = dict(re.findall(r"^        (\w+): (\$\{\{ .* \}\})$", part, re.MULTILINE))
        script = re.search(r"^      run: (?:\|\n)?((?:.|\n)*)", part, re.MULTILINE)
        assert script is not None
        found[name] = (environment, re.sub(r"^        ", "", script[1], flags=re.MULTILINE))
    return found


def test_no_input_is_part_of_a_script() -> None:
    assert list(steps_of_the_action()) == ["begin", "install", "gate", "comment"]
    for environment, script in steps_of_the_action().values():
        assert "${{" not in script
        assert environment


def test_yaml_files_are_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    scripts = {step["name"]: step["run"] for step in action["runs"]["steps"]}
    assert {name: script for name, (_, script) in steps_of_the_action().items()} == scripts
    assert all(step["shell"] == "bash" for step in action["runs"]["steps"])
    named = set(re.findall(r"inputs\.(\w+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert named == set(action["inputs"])
    job = yaml.safe_load((ROOT / "docs" / "gitlab-ci.yml").read_text(encoding="utf-8"))["advisor-gate"]
    assert "allow_failure" not in job  # no answer is no pass: exit code 4 fails the job


def test_the_pages_workflow_is_whole() -> None:
    yaml = pytest.importorskip("yaml")
    found = re.search(r"<!-- ci:workflow -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    workflow = yaml.safe_load(found[1])
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write", "security-events": "write"}
    steps = workflow["jobs"]["gate"]["steps"]
    used = [step.get("uses", "run").partition("@")[0] for step in steps]
    assert used == ["actions/checkout", "actions/setup-python", "run", "./", "github/codeql-action/upload-sarif"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["requires-python"] == f">={steps[1]['with']['python-version']}"
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert set(steps[3]["with"]) <= set(action["inputs"])


@pytest.mark.parametrize(("trace", "code", "verdict"), [("workers", 0, "passed"), ("no_workers", 1, "failed")])
def test_the_action(checkout: Path, trace: str, code: int, verdict: str) -> None:
    assert command("baseline", "sample_traces/gate/workers.json.gz", "-q", cwd=checkout).returncode == 0
    output, summary = checkout / "output.txt", checkout / "summary.md"
    name = "a trace; touch forged.json.gz"  # a name that would be code, were it pasted into the script
    (checkout / name).write_bytes((GATE / f"{trace}.json.gz").read_bytes())
    _, script = steps_of_the_action()["gate"]
    found = shell(
        script, checkout, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary), TRACES=f"\n{name}\n",
        BASELINE="advisor-baseline.json", INCONCLUSIVE="exit", CONFIG="", OUTPUT="advisor-gate",
    )  # fmt: skip
    assert found.returncode == code, found.stderr
    assert not list(checkout.glob("forged*"))
    assert found.stdout.splitlines()[-1].startswith(f"::notice title=advisor gate::{verdict.upper()}")
    written = dict(line.split("=", 1) for line in output.read_text().splitlines())
    assert (written["verdict"], written["sarif"]) == (verdict, "advisor-gate/gate.sarif")
    assert summary.read_text().startswith("<!-- advisor-gate -->")
    assert {path.name for path in (checkout / "advisor-gate").iterdir()} == {
        "gate.json",
        "gate.md",
        "gate.sarif",
        "gate.xml",
    }
    if code:
        assert "::error file=train.py,line=31,title=data-loading/single-process-loader::" in found.stdout


def run_action(folder: Path, name: str, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the action's gate as a step; its exit code, outputs and summary."""
    output, summary = folder / f"{name}.txt", folder / f"{name}.md"
    output.touch()
    summary.touch()
    given = {
        "TRACES": "",
        "BASELINE": "advisor-baseline.json",
        "INCONCLUSIVE": "exit",
        "CONFIG": "",
        "OUTPUT": "advisor-gate",
    }
    scripts = steps_of_the_action()
    given |= inputs
    assert shell(scripts["begin"][1], folder, **given).returncode == 0
    found = shell(scripts["gate"][1], folder, GITHUB_OUTPUT=str(output), GITHUB_STEP_SUMMARY=str(summary), **given)
    return found.returncode, dict(line.split("=", 1) for line in output.read_text().splitlines()), summary.read_text()


def test_the_action_publishes_nothing_of_an_earlier_run(checkout: Path) -> None:
    assert command("baseline", "sample_traces/gate/workers.json.gz", "-q", cwd=checkout).returncode == 0
    trace = "sample_traces/gate/workers.json.gz"
    code, outputs, summary = run_action(checkout, "first", TRACES=trace)
    assert (code, outputs["verdict"], "PASSED" in summary.upper()) == (0, "passed", True)
    for number, (missing, expected) in enumerate(
        (({"TRACES": "nope.json"}, 3), ({"TRACES": trace, "BASELINE": "nope.json"}, 2))
    ):
        code, outputs, summary = run_action(checkout, f"missing{number}", **missing)
        why = f"the gate could not run, exit code {expected}: nope.json: no such file"
        assert code == expected
        assert (outputs["verdict"], outputs["sarif"]) == ("error", "")
        assert outputs["headline"].lower().startswith(why)
        # A comment on the pull request is renewed by this: that of the run before would say that all is well.
        assert [path.name for path in (checkout / "advisor-gate").iterdir()] == ["gate.md"]
        assert summary.startswith(f"<!-- advisor-gate -->\n\n## advisor gate: no answer\n\n{outputs['headline']}\n")


def test_the_action_clears_up_before_anything_can_fail(checkout: Path) -> None:
    """The upload of the folder, which users set to always, would else carry the answer of a run before."""
    scripts = steps_of_the_action()
    assert next(iter(scripts)) == "begin"
    folder = checkout / "-out put"
    (folder / "gate.md").mkdir(parents=True)
    for name in ("gate.json", "gate.sarif", "gate.xml", "notes.txt"):
        (folder / name).write_text("of an earlier run")
    assert shell(scripts["begin"][1], checkout, OUTPUT=folder.name).returncode == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    (checkout / "bin" / "rm").write_text("#!/bin/sh\nexit 1\n")  # as where another user's files lie there
    (checkout / "bin" / "rm").chmod(0o755)
    assert shell(scripts["begin"][1], checkout, OUTPUT=folder.name).returncode != 0
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    assert "value: ${{ steps.gate.outputs.verdict || 'error' }}" in text  # what is skipped has no outputs
    assert "value: ${{ steps.gate.outputs.sarif }}" in text


@pytest.mark.parametrize(("verdict", "posted"), [("", "## advisor gate: no answer"), ("failed", "of this run")])
def test_the_comment_of_an_action_that_failed_before_its_gate_is_no_answer(
    verdict: str, posted: str, checkout: Path
) -> None:
    _, script = steps_of_the_action()["comment"]
    (checkout / "advisor-gate").mkdir()
    (checkout / "advisor-gate" / "gate.md").write_text("<!-- advisor-gate -->\nof this run, or of an earlier one\n")
    (checkout / "an action" / ".ci").mkdir(parents=True)
    (checkout / "an action" / ".ci" / "comment.py").write_text(
        "import sys; print(open(sys.argv[1]).read(), sys.argv[2])"
    )
    done = shell(
        script, checkout, ACTION="an action", OUTPUT="advisor-gate", BASELINE="b.json", TOKEN="none", VERDICT=verdict,
        RUNNER_TEMP=str(checkout),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("<!-- advisor-gate -->\n")  # the mark by which the comment is renewed
    assert posted in done.stdout
    assert ("earlier" in done.stdout) == bool(verdict)
    assert done.stdout.endswith("b.json\n")


def test_the_actions_headline_can_be_pasted_into_a_script(checkout: Path) -> None:
    """A function's name in a trace is anybody's text."""
    hostile = {
        "verdict": "failed",
        "headline": "x `touch forged` $(touch forged); \"'& touch forged | ${{ a }} ::error::y <b>\n0 → 2 ms",
    }
    stub = checkout / "bin" / "advisor"
    # In place of the gate: writes what a gate may say.
    (checkout / "said.json").write_text(json.dumps(hostile))
    lines = ("#!/bin/sh", "cp said.json advisor-gate/gate.json", ": > advisor-gate/gate.md", "exit 1", "")
    stub.write_text("\n".join(lines))
    code, outputs, _ = run_action(checkout, "hostile", TRACES="any.json")
    assert (code, outputs["verdict"]) == (1, "failed")
    assert outputs["headline"] == "x touch forged touch forged , touch forged a :error:y b 0 → 2 ms"
    for quote in ("", '"', "'"):
        shell(f"echo {quote}{outputs['headline']}{quote}", checkout)
    assert not list(checkout.glob("forged*"))


def test_the_action_installs_itself_in_known_versions_and_actions_are_named_by_hash() -> None:
    environment, script = steps_of_the_action()["install"]
    assert environment["ACTION"] == "${{ github.action_path }}"
    assert '--constraint "$ACTION/.ci/constraints.txt" "$INSTALL"' in script
    assert (ROOT / ".ci" / "constraints.txt").is_file()
    text = (ROOT / "action.yml").read_text(encoding="utf-8") + PAGE.read_text(encoding="utf-8")
    text += (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    used = re.findall(r"uses: ([\w/.-]+)(?:@(\S+))?", text)
    assert len(used) >= 5
    assert [
        name for name, version in used if not name.startswith("./") and not re.fullmatch("[0-9a-f]{40}", version)
    ] == []
    assert "inconclusive: pass\n" not in PAGE.read_text(encoding="utf-8")


def pinned() -> dict[str, tuple[str, list[str]]]:
    """Name to version and SHA-256 of each package that the action installs."""
    text = (ROOT / ".ci" / "runtime.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    found: dict[str, tuple[str, list[str]]] = {}
    for line in text.splitlines():
        whole = re.fullmatch(r"([\w.-]+)==([\w.]+)( ; [^#]*?)?((?: +--hash=sha256:[0-9a-f]{64})+) *", line)
        assert whole is not None, line[:80]
        found[canonical(whole[1])] = (whole[2], re.findall("[0-9a-f]{64}", whole[4]))
    return found


def canonical(requirement: str) -> str:
    """Take the name of a requirement, as a package index spells it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub("[-_.]+", "-", name[0]).lower()


def test_all_that_the_action_installs_stands_there_with_hashes() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    asked = [canonical(name) for name in (*project["project"]["dependencies"], *project["build-system"]["requires"])]
    found, left = pinned(), list(asked)
    assert len(asked) == 9
    seen: set[str] = set()
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        assert name in found, f"{name} has no hash in .ci/runtime.txt: just lock"
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):  # what is needed to build may not be here
            needs = importlib.metadata.requires(name) or []
            left += [canonical(need) for need in needs if "extra ==" not in need and "sys_platform" not in need]
    assert all(len(hashes) > 1 for _, hashes in found.values())  # a wheel and more: not of one machine alone


def test_the_action_installs_the_versions_that_ci_tests() -> None:
    tested = dict[str, set[str]]()
    for line in (ROOT / ".ci" / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if at := re.match(r"([\w.-]+)==([\w.]+)", line):
            tested.setdefault(canonical(at[1]), set()).add(at[2])
    found = pinned()
    assert [name for name in found if name in tested and found[name][0] not in tested[name]] == []
    assert len(set(found) & set(tested)) >= 12


@pytest.mark.parametrize(("install", "last"), [("{action}", "--no-index --no-deps"), ("x==1", "--constraint")])
def test_the_action_installs_by_hash_before_all_else(install: str, last: str, checkout: Path) -> None:
    python = checkout / "bin" / "python"
    python.unlink()
    python.write_text('#!/bin/sh\necho "$@" >> said.txt\n')
    python.chmod(0o755)
    _, script = steps_of_the_action()["install"]
    action = str(checkout / "an action")
    assert shell(script, checkout, ACTION=action, INSTALL=install.format(action=action)).returncode == 0
    first, second = (checkout / "said.txt").read_text().splitlines()
    hashed = "-m pip install --quiet --require-hashes --only-binary :all: --requirement"
    assert first == f"{hashed} {action}/.ci/runtime.txt"
    assert second.startswith(f"-m pip install --quiet {last}")
    assert second.endswith(install.format(action=action))


def test_no_example_installs_what_is_not_pinned_or_lets_no_answer_pass() -> None:
    examples = [ROOT / "docs" / "gitlab-ci.yml", PAGE, ROOT / "action.yml", ROOT / "README.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in examples)
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    installs = [line for line in lines if re.search(r"pip install.*--quiet", line)]
    pins = ("--require-hashes", "--no-index --no-deps", "--constraint")
    assert len(installs) == 5
    assert [line for line in installs if not any(pin in line for pin in pins)] == []
    passing = r"allow_failure|continue-on-error|inconclusive: *(pass|['\"])|--(advisor-)?inconclusive[ =]pass"
    assert [line for line in lines if re.search(passing, line) and "`" not in line] == []
    assert re.findall(r"default: exit\b", text) == ["default: exit"]


def test_the_action_without_a_trace_says_so(checkout: Path) -> None:
    _, script = steps_of_the_action()["gate"]
    found = shell(
        script, checkout, GITHUB_OUTPUT=str(checkout / "o"), GITHUB_STEP_SUMMARY=str(checkout / "s"), TRACES="none.json",
        BASELINE="", INCONCLUSIVE="exit", CONFIG="", OUTPUT="advisor-gate",
    )  # fmt: skip
    assert (found.returncode, "advisor: error" in found.stderr) == (2, True)
    (annotation,) = [line for line in found.stdout.splitlines() if line.startswith("::")]
    assert annotation.startswith("::error title=advisor gate::the gate could not run, exit code 2: nothing to ")


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The comment script of the action, and a pull request with its comments in place of GitHub's."""
    script = runpy.run_path(str(ROOT / ".ci" / "comment.py"))
    state: dict[str, Any] = {"comments": [], "script": script}
    event, page = tmp_path / "event.json", tmp_path / "gate.md"
    event.write_text('{"pull_request": {"number": 7}}')
    page.write_text("<!-- advisor-gate -->\n\nfirst\n")

    def call(method: str, path: str, body: str | None = None) -> Any:
        if method == "GET":
            assert path.startswith("repos/o/r/issues/7/comments?per_page=100&page=")
            first = 100 * (int(path.rpartition("=")[2]) - 1)
            return state["comments"][first : first + 100]
        if method == "POST":
            assert path == "repos/o/r/issues/7/comments"
            return state["comments"].append(by("Bot", body or "", len(state["comments"])))
        (at,) = [one for one in state["comments"] if path == f"repos/o/r/issues/comments/{one['id']}"]
        at["body"] = body
        return at

    script["main"].__globals__["call"] = call
    for name, value in (("EVENT_PATH", str(event)), ("REPOSITORY", "o/r")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    return state | {"event": event, "page": page}


def by(kind: str, body: str, number: int) -> dict[str, Any]:
    return {"id": number, "user": {"type": kind}, "body": body}


def test_the_action_keeps_one_comment_a_gate(github: dict[str, Any]) -> None:
    comments, page, main = github["comments"], github["page"], github["script"]["main"]
    comments += [by("User", "well done", number) for number in range(100)]  # the rest is on the next page
    # Anybody may paste the marks, which makes the comment none of the action's.
    comments.append(by("User", "<!-- advisor-gate -->\n<!-- a-baseline.json -->", 100))
    assert main(str(page), "a/baseline.json") == "comment posted"
    page.write_text("<!-- advisor-gate -->\n\nsecond\n")
    assert main(str(page), "a/baseline.json") == "comment renewed"
    assert main(str(page), "b/baseline.json") == "comment posted"
    assert [one["body"] for one in comments[101:]] == [
        f"<!-- advisor-gate -->\n\nsecond\n\n<!-- {name}-baseline.json -->\n" for name in "ab"
    ]
    assert "second" not in comments[100]["body"]


def test_the_action_comments_on_pull_requests_only(github: dict[str, Any]) -> None:
    github["event"].write_text('{"ref": "refs/heads/main"}')
    assert github["script"]["main"](str(github["page"]), "") == "no pull request, no comment"
    assert github["comments"] == []


def test_a_refused_comment_is_a_warning(github: dict[str, Any], checkout: Path) -> None:
    _, script = steps_of_the_action()["comment"]
    (checkout / "advisor-gate").mkdir()
    (checkout / "advisor-gate" / "gate.md").write_text("<!-- advisor-gate -->\n")
    done = shell(
        script, checkout, ACTION=str(ROOT), OUTPUT="advisor-gate", BASELINE="", TOKEN="none", VERDICT="passed",
        GITHUB_EVENT_PATH=str(github["event"]), GITHUB_API_URL="http://127.0.0.1:9", GITHUB_REPOSITORY="o/r",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::warning title=advisor gate::no comment on the pull request: ")


def test_gitlabs_script(checkout: Path) -> None:
    (checkout / "gate.xml").write_text("of an earlier run")
    assert command("baseline", "sample_traces/gate/workers.json.gz", "-q", cwd=checkout).returncode == 0
    lines = re.findall(
        r"^    - ((?:rm|advisor) .*)$", (ROOT / "docs" / "gitlab-ci.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert [line.split()[0] for line in lines] == ["rm", "advisor"]
    missing = shell("\n".join(lines), checkout, ADVISOR_TRACE="none.json", ADVISOR_BASELINE="advisor-baseline.json")
    assert (missing.returncode, (checkout / "gate.xml").exists()) == (3, False)
    trace = "sample_traces/gate/no_workers.json.gz"
    found = shell("\n".join(lines), checkout, ADVISOR_TRACE=trace, ADVISOR_BASELINE="advisor-baseline.json")
    assert (found.returncode, (checkout / "gate.xml").is_file()) == (1, True)
    issues = json.loads((checkout / "gl-code-quality-report.json").read_text())
    assert "data-loading/single-process-loader" in {issue["check_name"] for issue in issues}


# ---- pytest


TEST = f"""
    def test_training(advisor_gate):
        assert advisor_gate({str(GATE)!r} + "/workers.json.gz") is not None

    def test_slower(advisor_gate):
        advisor_gate({str(GATE)!r} + "/no_workers.json.gz")

    def test_short(advisor_gate):
        advisor_gate({str(ROOT)!r} + "/sample_traces/article/rung1_workers.json.gz", baseline="short.json")
"""
PLUGIN = ("-p", "advisor.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture
def plugin(pytester: pytest.Pytester) -> tuple[str, ...]:
    """What loads the plugin: nothing where the package is installed, for then pytest finds it."""
    from importlib.metadata import entry_points

    return PLUGIN[2:] if any(point.name == "advisor" for point in entry_points(group="pytest11")) else PLUGIN


def test_the_plugin_passes_fails_and_skips(pytester: pytest.Pytester, plugin: tuple[str, ...]) -> None:
    pytester.makepyfile(TEST)
    missing = pytester.runpytest_inprocess(*plugin, "-k", "training")
    missing.assert_outcomes(failed=1)
    missing.stdout.fnmatch_lines(["*Make it: pytest --advisor-update*"])
    pytester.runpytest_inprocess(*plugin, "-k", "training or short", "--advisor-update", "first").assert_outcomes(
        passed=2
    )
    found = pytester.runpytest_inprocess(*plugin)
    found.assert_outcomes(passed=1, failed=1, skipped=1)
    found.stdout.fnmatch_lines(["*FAILED: DataLoader runs in the main process (num_workers=0), and did not before: *"])
    for choice, outcome in (("pass", {"passed": 1}), ("fail", {"failed": 1})):
        pytester.runpytest_inprocess(*plugin, "-k", "short", "--advisor-inconclusive", choice).assert_outcomes(
            **outcome
        )


def test_a_folder_keeps_one_baseline_a_test(pytester: pytest.Pytester, plugin: tuple[str, ...]) -> None:
    pytester.makepyfile(TEST)
    words = (*plugin, "--advisor-baseline", "baselines")
    pytester.runpytest_inprocess(*words, "-k", "not short", "--advisor-update", "first").assert_outcomes(passed=2)
    assert {path.name for path in (pytester.path / "baselines").iterdir()} == {"test_training.json", "test_slower.json"}
    pytester.runpytest_inprocess(*words, "-k", "not short").assert_outcomes(passed=2)


@pytest.mark.parametrize("processes", ["0", pytest.param("2", marks=pytest.mark.study)])
def test_two_tests_do_not_write_one_baseline(
    processes: str, pytester: pytest.Pytester, plugin: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that wrote last would own it, and the other would be judged by what is not its own."""
    pytester.makepyfile(TEST)
    if processes != "0":
        pytest.importorskip("xdist")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
    words = (*plugin, "-n", processes, "-k", "not short", "--advisor-update", "first")
    found = pytester.runpytest_inprocess(*words)
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(["*advisor-baseline.json: *::test_* writes it too*--advisor-baseline FOLDER*"])
    again = pytester.runpytest_inprocess(*words, "-k", "training")
    again.assert_outcomes(passed=1)


def test_the_plugin_costs_nothing_unused() -> None:
    code = "import sys, advisor.pytest_plugin; print([name for name in sys.modules if name.startswith('advisor')])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    )
    assert found.stdout.strip() == "['advisor', 'advisor.pytest_plugin']"


def test_a_glob_that_fits_no_rule_is_a_mistake(tmp_path: Path) -> None:
    """A misspelt ``only`` would leave a gate that asks nothing of the rules."""
    import advisor

    (tmp_path / "advisor.toml").write_text('only = ["transfr/*"]\n')
    sample = ROOT / "sample_traces" / "gate" / "workers.json.gz"
    with pytest.raises(advisor.AdvisorError, match=r'only: "transfr/\*" fits no rule'):
        advisor.gate(sample, baseline=_baseline(sample), config=tmp_path / "advisor.toml")


def _baseline(sample: Path) -> object:
    from advisor.gating import baseline
    from advisor.pipeline import analyze
    from advisor.trace import read

    return baseline.make([analyze(read(str(sample)), samples=True)])
