"""``advisor rules check | test | new``: for people who write rules."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import complain, completion, options
from advisor.cli.terminal import put
from advisor.errors import UsageError, nearest
from advisor.files import write

if TYPE_CHECKING:
    from advisor.rulebook import Rule, Rulebook


@click.command("check", short_help="Check rules of your own, or all that ship.")
@click.argument("folders", metavar="[DIR]...", nargs=-1, shell_complete=completion.folders)
def check(folders: tuple[str, ...]) -> None:
    """Check the rules in DIR together with those that ship with the advisor, or these alone.

    A DIR that holds a whole catalogue, every file that ships and perhaps more, is checked by itself. Every problem is
    named on stderr with its file, and the exit code is 2 then. A warning, as of a `why` that is too long, changes nothing
    of the exit code.
    """
    rules, _ = _rules_in(folders)
    warned = [f"{rule.path}: {text}" for rule in rules for text in _warnings(rule)]
    for text in warned:
        complain(text, "warning")
    also = f", {len(warned)} warning{'s' * (len(warned) != 1)}" if warned else ""
    put(f"{len(rules)} rule{'s' * (len(rules) != 1)}, no problem{also}\n".encode())


def _warnings(rule: Rule) -> Iterator[str]:
    """Yield what a rule may do and still should not."""
    from advisor.rulebook.rule import MOST_WHY

    words = len(rule.why.split())
    if words > MOST_WHY:
        yield f"why: has {words} words, more than {MOST_WHY}; leave what costs and why, and move the rest to `more`"


def _rules_in(folders: Sequence[str]) -> tuple[list[Rule], Rulebook]:
    """Return the rules in *folders* (all that ship where there are none), and the rulebook that they were checked in."""
    from advisor.config import Config
    from advisor.rulebook import builtin_rules_dir, files_in, load

    for folder in folders:
        if not Path(folder).is_dir():
            raise UsageError(f"{folder}: {'is no folder' if Path(folder).exists() else 'no such folder'}")
    shipped = {path.relative_to(root) for root in [builtin_rules_dir()] for path in root.rglob("*.toml")}
    if not folders:
        load([builtin_rules_dir()], thorough=True)  # else they are taken to be sound
    if len(folders) == 1 and all((Path(folders[0]) / path).is_file() for path in shipped):
        rulebook = load([Path(folders[0])], thorough=True)
    else:
        rulebook = options.Catalogue(tuple(folders), None).rules(Config())
    rules = list(rulebook.rules)
    if folders:
        paths = {os.path.realpath(path) for folder in folders for path in files_in(Path(folder))}
        rules = [rule for rule in rules if os.path.realpath(rule.path) in paths]
        if not rules:
            raise UsageError(
                f"{', '.join(folders)}: no rules there; a rule is a .toml file in a folder of its category"
            )
    return rules, rulebook


@click.command("test", short_help="Run the proofs of rules.")
@click.argument("folders", metavar="[DIR]...", nargs=-1, shell_complete=completion.folders)
@click.option(
    "--only", multiple=True, metavar="GLOB", shell_complete=completion.globs, help="Only rules whose id matches GLOB."
)
@click.option("-v", "--verbose", is_flag=True, help="Name every case, not only those that fail.")
def test(folders: tuple[str, ...], only: tuple[str, ...], verbose: bool) -> int:
    """Run the proofs of the rules in DIR, or of those that ship with the advisor.

    The proof of a rule lies beside it, as NAME.proof.py: Python that builds small traces on which the rule fires, is
    quiet, stands at its threshold, and lacks what it needs. It is run, so trust it as you would any test. The exit code
    is 1 where a case does not hold or a proof is not whole.
    """
    from advisor.report.plain import clean
    from advisor.testing.runner import prove

    rules, rulebook = _rules_in(folders)
    chosen = [rule for rule in rules if not only or any(fnmatchcase(rule.id, glob) for glob in only)]
    if not chosen:
        raise UsageError(f"no rule fits {', '.join(only)}{nearest(only[0], [rule.id for rule in rules])}")
    cases = failures = 0
    for rule in chosen:
        results = prove(rule, rulebook)
        wrong = [result for result in results if result.problem]
        cases += sum(result.kind != "proof" for result in results)
        failures += len(wrong)
        counts = ", ".join(f"{kind} {count}" for kind, count in Counter(result.kind for result in results).items())
        put(f"{'FAIL' if wrong else 'ok':<5}{clean(rule.id)}  {counts}\n".encode())
        for result in results if verbose else wrong:
            text = f": {clean(result.problem)}" if result.problem else ""
            put(f"       {result.kind}: {clean(result.name)}{text}\n".encode())
    text = f"{len(chosen)} rule{'s' * (len(chosen) != 1)}, {cases} case{'s' * (cases != 1)}, {failures} failed\n"
    put(text.encode())
    return 1 if failures else 0


# What of the example is another frame's: its name, the condition, a column shown, the symptom's call and its harmless twin.
_EXAMPLES = {
    "kernels": (
        "kernels",
        "contains(name, 'my_kernel') AND dur_ns",
        '    "name",\n',
        'b.kernel("my_kernel", us=us)',
        'b.kernel("another_kernel", us=us)',
    ),
    "copies": (
        "copies",
        "direction = 'DtoD' AND dur_ns",
        '    "op",\n',
        'b.copy("DtoD", 1 << 20, us=us)',
        'b.copy("HtoD", 1 << 20, us=us, pinned=True)',
    ),
    "memsets": ("memsets", "dur_ns", '    "op",\n', "b.memset(1 << 20, us=us)", 'b.kernel("another_kernel", us=us)'),
}


@click.command("new", short_help="Begin a rule and its proof from a template.")
@click.argument("rule_id", metavar="ID")
@click.option(
    "--dir",
    "folder",
    default="rules",
    metavar="DIR",
    shell_complete=completion.folders,
    help="Where to write it [rules].",
)
@click.option("--frame", default="kernels", metavar="FRAME", help="Begin with kernels, copies or memsets [kernels].")
def new(rule_id: str, folder: str, frame: str) -> None:
    """Begin a rule: DIR/CATEGORY/NAME.toml and its proof beside it, for the id CATEGORY/NAME.

    Both are whole and hold as they stand; change them until they say what you mean. A template begins with the rows of
    one of three frames; `frame` in the rule may then name any (advisor query --schema lists them).
    """
    import re

    from advisor.frames import SCHEMAS

    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*/[a-z0-9]+(?:-[a-z0-9]+)*", rule_id):
        raise UsageError(f"{rule_id!r} is no id: CATEGORY/NAME in lower case, such as checks/nan-guard")
    if frame not in _EXAMPLES:
        known = f"no template begins with {frame!r}" if frame in SCHEMAS else f"no frame {frame!r}"
        *others, last = _EXAMPLES
        raise UsageError(
            f"{known}{nearest(frame, SCHEMAS) if frame not in SCHEMAS else ''}. Templates begin with {', '.join(others)} "
            f"or {last}; take one, and change match.frame and the conditions in the rule."
        )
    path = Path(folder) / f"{rule_id}.toml"
    proof = path.with_suffix(".proof.py")
    for file in (path, proof):
        if file.exists():
            raise UsageError(f"{file} exists; nothing was written")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file, example in ((path, "example.toml"), (proof, "example_proof.py")):
            text = files("advisor.cli").joinpath(example).read_text("utf-8").replace("team/example", rule_id)
            for shown, wanted in zip(_EXAMPLES["kernels"], _EXAMPLES[frame], strict=True):
                text = text.replace(shown, wanted)
            write(file, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    put(f"{path}\n{proof}\nadvisor rules check {folder} && advisor rules test {folder}\n".encode())
