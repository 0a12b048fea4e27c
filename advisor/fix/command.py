"""The work of ``advisor fix``: record or read, propose, verify, and write what is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.counting import counted
from advisor.errors import UsageError
from advisor.fix import measurements, require
from advisor.fix.edit import Files
from advisor.fix.project import Project
from advisor.fix.propose import Among, Proposal, propose
from advisor.fix.runs import OutOfTime, Program, RunFailed
from advisor.fix.source import NotEditable
from advisor.fix.tree import Tree, workplace
from advisor.fix.verify import LEAST_BLOCKS, SECONDS, Verifier, result
from advisor.reading.program_settings import Recorded
from advisor.record.measured import Followed
from advisor.results.analysis import Analysis
from advisor.results.fixes import Advice, Fixes, FixResult

_MINUTES = 120.0
_SPARE = 1.2
Say = Callable[[str], None]
Analyze = Callable[[Path], tuple[Analysis, Recorded | None, Among]]


@dataclass(frozen=True)
class Choices:
    """Choices of the command line. *trace* is read in place of a recording, *budget_s* bounds all runs together."""

    trace: Path | None = None
    root: Path | None = None
    module: bool = False
    ranks: int = 1
    verify: bool = False
    apply: bool = False
    force: bool = False
    training_changes: bool = False
    budget_s: float = 600.0
    patch: Path | None = None
    branch: str | None = None
    learn: bool = True


def fix(script: str | None, arguments: Sequence[str], choices: Choices, analyze: Analyze, say: Say) -> Fixes:
    """Do all of it. *analyze* makes an analysis of a trace, with the settings that it holds and what analyzes it by some rules
    alone; *say* is told of progress."""
    require()
    begun = time.monotonic()
    if script is None and choices.trace is None:
        raise UsageError("name the SCRIPT to record, or a trace with --from")
    if script is None and (choices.verify or choices.apply):
        raise UsageError("--apply and --verify run the program: name the SCRIPT after the options")
    path = _script_file(script, choices.module) if script is not None else None
    project = Project(path, root=choices.root, force=choices.force)
    with workplace() as folder:
        program = Program(project, script or "", arguments, choices.module, choices.ranks)
        if choices.trace is not None:
            analysis, recorded, among = analyze(choices.trace)
        else:
            say("recording the program, in a copy of its tree")
            analysis, recorded, among = analyze(_record(program, folder))
        if not choices.verify:
            return _with_time(proposed(script or analysis.trace.path, analysis, recorded, project, among), begun)
        cores = recorded.cores if recorded is not None else None
        program.followed = Followed.of(recorded)
        writes = choices.apply or choices.branch is not None
        proposals, advice = propose(analysis, project, among, cores=cores, writes=writes)
        del among  # it holds the trace, and the program needs the memory
        program.deadline = begun + choices.budget_s
        verified, verifier = _verify(program, proposals, folder, choices, say)
        return _finish(project, script or "", verified, advice, verifier, choices, begun, recorded)


def _script_file(script: str, module: bool) -> Path:
    from advisor.record import script as scripts

    scripts.check(script, module=module)
    if not module:
        return Path(script)
    import sys
    from importlib.util import find_spec

    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(script)
    finally:
        del sys.path[0]
    if spec is None or spec.origin is None:
        raise UsageError(f"{script}: no module with a file")
    if spec.submodule_search_locations is not None:  # a package is run by its __main__
        return Path(spec.origin).parent / "__main__.py"
    return Path(spec.origin)


def _record(program: Program, folder: Path) -> Path:
    from advisor.record import require_torch

    require_torch()
    try:
        return program.record(Tree(program.project.root, folder / "recorded"), folder / "program.trace.json.gz")
    except RunFailed as error:
        if error.unrecorded:
            raise UsageError(f"{program.script} runs, but {error.unrecorded}") from None
        raise UsageError(f"{program.script} fails, so that nothing can be said of it: {error.told}") from None


def _verify(
    program: Program, proposals: Sequence[Proposal], folder: Path, choices: Choices, say: Say
) -> tuple[list[FixResult], Verifier]:
    from advisor.record import require_torch

    require_torch()
    files = proposals[0].request.files if proposals else Files(program.project.root, program.project.find)
    verifier = Verifier(program, files, folder, say, training_changes=choices.training_changes)
    out: list[FixResult] = []
    if not proposals:
        return out, verifier
    try:
        took = verifier.begin()
    except RunFailed as error:
        raise UsageError(f"{program.script} does not run to its first steps: {error.told}") from None
    except OutOfTime:
        raise UsageError("--budget: ended before the program's first steps were over; give it more") from None
    trial = least_trial(took)
    left = program.deadline - time.monotonic()
    if left < trial:
        needed = choices.budget_s - left + trial
        raise UsageError(
            f"--budget: a run takes {took:.0f} s, and an edit needs {1 + 4 * LEAST_BLOCKS} runs: {_spoken(trial)} at the least, "
            f"of which {_spoken(max(0.0, left))} are left; give --budget {_rounded_up(needed)}s for one edit, "
            f"{_rounded_up(needed + (len(proposals) - 1) * trial)}s for {counted(len(proposals), 'edit')}"
        )
    say(
        f"{counted(len(proposals), 'edit')} to try, a run takes {took:.0f} s: {_spoken(trial * len(proposals))} and more, "
        f"of the budget {_spoken(left)} are left"
    )
    for at, proposal in enumerate(proposals):
        left = program.deadline - time.monotonic()
        until = time.monotonic() + left / (len(proposals) - at)
        if proposal.alone is not None and not any(one.verdict == "kept" for one in out):
            proposal.price = proposal.alone
        out.append(verifier.try_edit(proposal, until))
        say(f"{proposal.edit.name}: {out[-1].verdict}, {out[-1].because}")
        if out[-1].verdict == "kept" and choices.apply:
            out[-1] = _apply(program.project, proposal, out[-1], files)
    return out, verifier


def least_trial(run_s: float) -> float:
    """Return the seconds that one edit takes at the least, where a run of few steps takes *run_s*: the other runs last longer."""
    return run_s * (1 + 4 * LEAST_BLOCKS) + 4 * LEAST_BLOCKS * SECONDS


def _spoken(seconds: float) -> str:
    """Return a time as people say it: ``80 seconds``, ``5 minutes``."""
    if seconds < _MINUTES:
        return counted(round(seconds), "second")
    return counted(round(seconds / 60), "minute")


def _rounded_up(seconds: float) -> int:
    """Return seconds for ``--budget``, in whole tens, with some to spare."""
    return 10 * math.ceil(_SPARE * seconds / 10)


def _apply(project: Project, proposal: Proposal, kept: FixResult, files: Files) -> FixResult:
    """Write a kept edit to the user's file, which holds the edits kept before it."""
    import msgspec

    path = next(change.path for change in proposal.changes if str(change.path) == kept.file)
    before = files.written.get(path, files.original_texts[path])
    try:
        project.write(path, before, files.kept[path])
    except (NotEditable, OSError) as error:
        return msgspec.structs.replace(kept, because=f"{kept.because}; not written: {error}")
    files.written[path] = files.kept[path]
    return kept


def proposed(name: str, analysis: Analysis, recorded: Recorded | None, project: Project, among: Among) -> Fixes:
    """Return the edits that the findings of an analysis ask for, as diffs; runs and writes nothing."""
    cores = recorded.cores if recorded is not None else None
    proposals, advice = propose(analysis, project, among, cores=cores, writes=False)
    fixes = [result(each, each.changes[0], "proposed") for each in proposals]
    if fixes:
        text = f"{counted(len(fixes), 'edit')} can be made; nothing is written"
    else:
        text = "No edit can be made for certain" if advice else "Nothing to fix"
    return Fixes(script=name, headline=text, verified=False, applied=False, fixes=fixes, advice=advice)


def _with_time(done: Fixes, begun: float) -> Fixes:
    import msgspec

    return msgspec.structs.replace(done, seconds=round(time.monotonic() - begun, 1))


def _finish(
    project: Project,
    script: str,
    fixes: list[FixResult],
    advice: list[Advice],
    verifier: Verifier,
    choices: Choices,
    begun: float,
    recorded: Recorded | None,
) -> Fixes:
    kept = [one for one in fixes if one.verdict == "kept"]
    if choices.patch is not None and kept:
        from advisor import files

        files.write(choices.patch, verifier.patch().encode("utf-8"))
    if choices.branch is not None and kept:
        project.commit(choices.branch, verifier.commits)
    if choices.learn:
        measurements.keep(fixes, recorded, verifier.device)
    return Fixes(
        script=script,
        headline=_outcome(fixes, kept),
        verified=True,
        applied=choices.apply and bool(kept),
        fixes=fixes,
        advice=advice,
        patch=str(choices.patch) if choices.patch is not None and kept else None,
        branch=choices.branch if kept else None,
        before_ms=verifier.before_ms,
        after_ms=verifier.after_ms,
        outside=list(verifier.outside),
        seconds=round(time.monotonic() - begun, 1),
    )


def _outcome(fixes: list[FixResult], kept: list[FixResult]) -> str:
    if not fixes:
        return "No edit could be made for certain, and nothing was changed"
    if not kept:
        return f"None of {counted(len(fixes), 'edit')} was kept"
    saved = 1.0
    for one in kept:
        if one.timing is not None:
            saved *= 1 - one.timing.saved
    return f"{len(kept)} of {counted(len(fixes), 'edit')} kept: a step takes {1 - saved:.0%} less"
