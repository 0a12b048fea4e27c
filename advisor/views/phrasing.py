"""Sentences of the headline: words for causes, names and figures, and what gives way where they do not fit two lines."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from advisor.regex import regex
from advisor.timeline.communication_names import without_anonymous

COLUMNS, LINES = 100, 2
_LONGEST_NAME, _MIDDLE_NAME, _SHORT_NAME = 60, 44, 28
FIRST = " First, "
_NAMES = regex(r"^(Call \S+)(?:, \S+)+ and \S+")
"""Start of the title of a fix that names several functions."""

ON_GPU = {
    "compute": "the {device} computes",
    "communication": "the {device} is in collectives that nothing hides",
    "copy": "the {device} only copies",
    "memset": "the {device} only sets memory",
    "other_device": "the {device} waits for work of another one",
    "loader": "the {device} waits for the next batch",
    "sync": "the {device} idles because the host waited for it",
    "blocking_copy": "the {device} idles behind copies that hold the host",
    "allocator": "the {device} waits for allocations",
    "compile": "the {device} waits for the compiler",
    "gc": "the {device} waits for Python's garbage collector",
    "operator": "the {device} waits for operators on the CPU",
    "host": "the {device} waits for Python and launches",
    "profiler": "the {device} waits for the profiler itself",
    "unknown": "the {device} idles for an unknown reason",
}
"""Clause of each cause of a device's time; the device is named."""
ON_CPU = {
    "compute": "the main thread is in operators",
    "communication": "collectives are in flight that no operator hides",
    "copy": "the main thread copies",
    "loader": "the main thread waits for the next batch",
    "compile": "the main thread compiles",
    "gc": "Python collects garbage",
    "operator": "operators compute on the CPU",
    "host": "the main thread is in Python outside operators",
    "profiler": "the profiler itself works",
    "unknown": "nothing is recorded",
}
"""The same in a program on the CPU."""
UNRECORDED = ON_CPU | {
    "host": "the host works", "operator": "operators compute on the CPU", "sync": "the host waits for the {device}",
    "blocking_copy": "the host waits for copies",
}  # fmt: skip
"""The same of the host's time, where nothing of the device was recorded."""
UNSEEN, UNSEEN_BRIEFLY, SHOWS_NOTHING = "the {device} waits for the host", "the host", "the host works or shows nothing"
"""Clause of the host's time where nothing was recorded of most of it, the same in a few words; and of an unrecorded device."""
AT_ONCE, AT_ONCE_BRIEFLY = "the {device} waits for the host, mostly in one stretch", "the host, mostly in one stretch"
"""Clause of the host's time where one stretch is most of it, as where workers start again; and the same in a few words."""
STOPPED, STOPPED_BRIEFLY = "the {device} waits for a thread that stood still", "a stopped thread"
"""Clause of the host's time where a stopped thread is most of it, and the same in a few words."""
WORKS_OR_WAITS = "the host works or waits"
"""Clause of the host's time beside an unrecorded device where copies of unknown size take long."""
PIPELINE = "the {device} waits for the pipeline's preprocessing"
"""Clause of the loader's time where a pipeline of transformers makes the loader: what it prepares may be the same input again."""
_UNSEEN_REPLAYS = "or runs unrecorded replays"
LACKING, LACKING_BRIEFLY = (
    f"the {{device}} idles, {_UNSEEN_REPLAYS}",
    "unrecorded replays, or idle",
)
"""Clause of unknown time where graph replays lack work, and the same in a few words."""
THINNED, THINNED_BRIEFLY = "lie where events were taken out of the file", "missing from the file"
"""Clause of unknown time where that is so, and the same in a few words."""
UNPROVEN_BRIEFLY = "collectives, beside which events were taken out"
UNPROVEN = "collectives are in flight; what runs beside them was taken out of the file"
"""Clause of communication where that is so, and the same in a few words."""
WHOLE_FILE = "analyze the file as the profiler wrote it"
NO_FAULT = "no known fault stands out"
"""Said in place of advice where the finding that leads is a note, and may return nothing."""
AGAIN = "copy the file again whole, or record once more"
"""Advice on such a file."""
BRIEFLY = {
    "compute": "computing",
    "communication": "collectives",
    "copy": "copies",
    "memset": "memory being set",
    "other_device": "waits for another GPU",
    "loader": "waits for batches",
    "sync": "synchronizations",
    "blocking_copy": "blocking copies",
    "allocator": "allocations",
    "compile": "compilation",
    "gc": "garbage collection",
    "operator": "operators on the CPU",
    "host": "Python and launches",
    "profiler": "the profiler",
    "unknown": "idle without a known reason",
}
"""Each cause in a few words, behind another."""
WAITING, WAITING_BRIEFLY = "the {device} is in collectives", "collectives"
"""Clause of communication in a rank that mostly waits for others, and the same in a few words."""
STARTUP = {
    "loading": "GPU code is loaded",
    "selection": "an algorithm is chosen",
    "specialization": "TorchScript specializes {where}",
    "compilation": "code is compiled",
    "capture": "a graph is captured",
    "allocation": "first memory is allocated",
    "first call": "the first call of {where}",
    "initialization": "a model is built and moved to the GPU",
    "first iteration": "a first iteration",
    "context": "the GPU's context is created",
}
"""Kinds of start-up in words."""
STARTUP_OF_SEVERAL = {
    "loading": "loading GPU code",
    "selection": "choosing an algorithm",
    "specialization": "TorchScript specializing",
    "compilation": "compiling",
    "capture": "capturing a graph",
    "allocation": "allocating",
    "first call": "in the first call of",
    "initialization": "building the model",
    "first iteration": "in a first iteration",
    "context": "creating the GPU's context",
}
"""The same behind its time, before where it is; beside another."""
FIRST_CALLS = "in first calls"
"""First calls of which most, and not all, is one operator's."""


class Clause(NamedTuple):
    """Part of a sentence, and the name with its time that it ends in, where it names an owner."""

    text: str
    name: str = ""
    time: str = ""
    alone: bool = True
    """True where no finding owns any of the time."""
    most: bool = True
    """True where most of the time is the name's."""

    def within(self, longest: int, *, brief: bool = False, tight: bool = False) -> str:
        """The clause with its name cut to a length, and in the fewest words where *brief*; in brackets where *tight*."""
        if not self.name:
            return self.text
        if tight and self.alone:
            return f"{self.text} ({short_name(self.name, longest)}, {self.time})"
        name = short_name(self.name, longest)
        if not self.alone:
            return f"{self.text}, {self.time} in {name}" + ("" if brief else ", which no finding covers")
        # What the CPU is in while the device may be at work is where the time lies, not what takes it.
        where = "beside" if self.text.endswith(_UNSEEN_REPLAYS) else "in"
        return (
            f"{self.text}, most {where} {name} ({self.time})"
            if self.most
            else f"{self.text}, {self.time} of it {where} {name}"
        )


class Parts(NamedTuple):
    """Sentences of a headline; where they do not fit, what is said of the program is cut first."""

    lead: str
    program: str
    details: list[str]
    bound: Clause
    others: list[Clause]


class _Form(NamedTuple):
    """One way to say a headline: how much of what leads, of the program, of names and of the advice it holds."""

    reason: bool
    details: int
    longest: int
    title: int
    brief: bool = False
    tight: bool = False
    bare: bool = False
    """True: what else takes time is said without the name of what takes it."""
    whole: bool = False
    """True: of use only where a shorter form would leave out words of a name, as the call in "call under place"."""


_FORMS = (
    _Form(True, 9, _LONGEST_NAME, 0),
    _Form(True, 2, _LONGEST_NAME, 0),
    _Form(True, 0, _MIDDLE_NAME, 1, whole=True),
    _Form(True, 2, _SHORT_NAME, 0),
    _Form(True, 0, _SHORT_NAME, 0),
    _Form(True, 2, _SHORT_NAME, 1),
    _Form(True, 0, _SHORT_NAME, 1),
    _Form(False, 0, _SHORT_NAME, 0),
    _Form(False, 0, _SHORT_NAME, 1),
    _Form(False, 0, _SHORT_NAME, 1, brief=True),
    _Form(False, 0, _SHORT_NAME, 1, brief=True, tight=True),
    _Form(False, 0, _SHORT_NAME, 1, brief=True, bare=True),
    _Form(False, 0, _SHORT_NAME, 1, brief=True, tight=True, bare=True),
    _Form(False, 0, _SHORT_NAME, 2, brief=True),
)
"""From the fullest: the program's details go first, then what start-up is; what time goes to is said to the last."""


def texts(parts: Parts, fix: str) -> Iterator[str]:
    """Yield the headline in ever shorter forms."""
    titles = [*clauses(fix), ""]
    loses = any(" " in clause.name and len(clause.name) > _SHORT_NAME for clause in (parts.bound, *parts.others))
    for form in _FORMS:
        if form.whole and not loses:
            continue
        others = [clause._replace(name="") for clause in parts.others] if form.bare else parts.others
        bounds = "; ".join(
            clause.within(form.longest, brief=form.brief, tight=form.tight) for clause in (parts.bound, *others)
        )
        details = parts.details[-form.details :] if form.details else []
        lead = parts.lead if form.reason or not parts.lead else f"{parts.lead.split(': ')[0].rstrip('.')}."
        text = f"{', '.join([parts.program, *details])}: {bounds}.{first_clause(titles[form.title])}"
        yield f"{lead} {text}" if lead else text
    yield f"{parts.program}: {parts.bound.text}."


def clauses(title: str) -> tuple[str, str]:
    """Return a title, and its first clause; of several functions that are to be called otherwise, that names the first."""
    shorter = _NAMES.sub(r"\1 and others", title, count=1)
    return title, re.split(r"[,;] (?:and |or |with )?", shorter, maxsplit=1)[0]


def first_clause(title: str) -> str:
    """Return the sentence on what to do first; nothing without a title."""
    if not title:
        return ""
    if title == NO_FAULT:
        return f" {NO_FAULT[:1].upper()}{NO_FAULT[1:]}."
    title = title if title[1:2].isupper() else title[:1].lower() + title[1:]
    return f"{FIRST}{title.rstrip('.')}."


def fitted(candidates: Iterable[str]) -> str:
    """Return the first text that fits two lines; the last one cut where none does."""
    text = ""
    for text in candidates:
        if len(textwrap.wrap(text, COLUMNS)) <= LINES:
            return text
    return textwrap.shorten(text, LINES * COLUMNS - 20, placeholder=" …")


def short_name(name: str, longest: int = _LONGEST_NAME) -> str:
    """Return a name of the trace; where it is long, its ends ("call under place") or last whole words, or one word cut."""
    text = without_anonymous(" ".join(name.split()))
    if len(text) <= longest:
        return text
    within, under, place = text.rpartition(" under ")
    if under and len(ends := f"{within.split(' in ')[0]}{under}{place}") <= longest:
        return ends
    words = text.split(" ")
    tails = (" ".join(words[at:]) for at in range(1, len(words)) if not words[at].isalpha())
    if tail := next((tail for tail in tails if longest // 2 <= len(tail) <= longest), ""):
        return tail
    # Of a C++ name first its namespaces go, then the template around what it is of.
    bare = re.sub(r"\b(?:\w+::)+", "", text)  # from the begin of a word: else a name of one long word takes its square
    parts: list[str] = [bare, *re.findall(r"<([\w ]+)>", bare)[-1:]]
    if fits := [part for part in parts if longest // 2 <= len(part) <= longest]:
        return fits[0]
    if len(parts) > 1 and (head := parts[-1][: longest - 1].rpartition("_")[0]):
        return f"{head}…"
    half = longest // 2 - 1
    return f"{text[:half]}…{text[-half:]}"
