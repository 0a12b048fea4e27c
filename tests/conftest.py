"""Settings of every test run: no cache, tests spread over the cores, those of one real trace one after the other."""

from __future__ import annotations

import gc
import os
import sys
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.register_assert_rewrite("support")
os.environ.pop("COLUMNS", None)  # reports are as wide as where nothing says how wide the terminal is
os.environ["ADVISOR_CACHE"] = "off"  # a test that wants a cache names its own
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles all modules anew
sys.dont_write_bytecode = False

from support import real as listed  # noqa: E402
from support import traces  # noqa: E402

# Files that take longest, each in one process, or wait for servers: begun first, so that none is waited for at the end.
FIRST = (
    "tests/execution/test_cluster.py",
    "tests/report/test_browser.py",
    # with torch
    "tests/timeline/test_compiled_order.py",
    "tests/record/test_record_scripts.py",
    "tests/record/test_record_batches.py",
    # studies
    "tests/studies/test_gate_study.py",
    "tests/studies/test_fuzz.py",
    "tests/studies/test_endurance.py",
)
# Files whose tests are independent and take minutes: one group for each folder of rules, not one for the file.
DIVIDED = ("tests/rules/test_fixes.py", "tests/rules/test_odd_shapes.py", "tests/rules/test_proofs.py")
# Tests make millions of objects that live as long as they: looking for cycles at each 700th is a tenth of the run.
RARELY = (50_000, 20, 50)


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder by which the processes of this run share analyses of real traces, and collect garbage rarely."""
    gc.set_threshold(*RARELY)
    if not hasattr(config, "workerinput"):
        folder = TemporaryDirectory(prefix="advisor-tests-")
        os.environ[traces.SHARED] = folder.name
        config.add_cleanup(folder.cleanup)


@pytest.fixture
def real() -> Any:
    """``real("h100_bert_small.json.gz")`` is the path of that trace."""
    return traces.real_trace


def pytest_report_header() -> str:
    """Say how many of the real traces are here, since what needs them is skipped without them."""
    names = [*listed.NAMES, *listed.AUDITED]
    here = sum(listed.path_of(name).exists() for name in names)
    absent = "" if here == len(names) else f"; {traces.ABSENT}" + ("" if traces.required() else ", or they are skipped")
    return f"real traces: {here} of {len(names)}{absent}"


def group_of(nodeid: str) -> str:
    """The real trace that a test is named after, else its file: what one process should run in one go."""
    file, _, test = nodeid.partition("::")
    if file in DIVIDED:
        return f"{file} {test.partition('[')[2].partition('/')[0]}"
    for parameter in test.partition("[")[2].removesuffix("]").split("-"):
        name = parameter if parameter.endswith(".json.gz") else f"{parameter}.json.gz"
        if name in listed.NAMES or name in listed.AUDITED:
            return name
    return file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of one real trace together, and long waits first."""
    groups = list(dict.fromkeys(group_of(item.nodeid) for item in items))
    groups.sort(key=lambda group: FIRST.index(group) if group in FIRST else len(FIRST))
    rank = {group: at for at, group in enumerate(groups)}
    items.sort(key=lambda item: rank[group_of(item.nodeid)])


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Spread a run of folders over the cores, where pytest-xdist is installed and nothing else is asked for."""
    options = config.option
    if not hasattr(options, "numprocesses") or hasattr(config, "workerinput") or options.collectonly or options.usepdb:
        return
    if options.numprocesses is None and options.dist == "no" and all(os.path.isdir(path) for path in config.args):
        options.numprocesses = "auto"
    if options.numprocesses and options.dist == "no":
        options.dist, options.loadscopereorder = "loadgroup", False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each group to one process, in the order of the tests."""
    if config.option.dist != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Groups(config, log)
