"""Inputs that a pipeline of transformers prepares and encodes once for each label, though only the label changes."""

from __future__ import annotations

import numpy as np

from advisor.frames.patterns.tree import HIGHEST, Occurrences, Tree, spread
from advisor.intervals import Bools, Ints
from advisor.regex import regex
from advisor.timeline.calls import PYTHON
from advisor.timeline.context import Context

# Source: transformers/pipelines/zero_shot_object_detection.py. Its preprocess is a generator, which runs the image processor for
# each candidate label, and the pipeline calls the model with each part that it yields. Other pipelines that cut their input
# (audio, masks, documents) yield parts that differ.
_FUNCTION = regex(
    r"transformers/pipelines/zero_shot_object_detection\.py\((?P<line>\d+)\): (?P<name>preprocess|_forward)$"
)
# Source: transformers/pipelines/base.py. Pipeline.forward copies the inputs to the device before _forward, and all outputs back.
_AROUND = regex(r"transformers/pipelines/base\.py\(\d+\): forward$")


def parts_by_label(tree: Tree) -> Occurrences | None:
    """One row per part of an image behind its first: from where the generator goes on until the model's outputs are back.

    The first call of a generator bears the line where it is defined, and later ones that where it goes on.
    """
    prepared, goes_on, called = _calls(tree.context)
    if not len(prepared) or not len(called):
        return None
    host, begins = tree.host, ~goes_on
    # Behind the last label the generator goes on once more, and ends.
    last = _next(tree, prepared, called)
    goes_on &= last >= 0
    again, last, image = prepared[goes_on], last[goes_on], np.cumsum(begins)[goes_on]
    if not len(again):
        return None
    last = _with_copies(tree, last)
    begin, end = host.start[again], host.end[last]
    ledger = tree.context.ledger
    # The device idles since the model's last call: that wait ends with the part, and began a little before it.
    low = np.searchsorted(ledger.end_ns, begin, side="right")
    segments = spread(low, np.searchsorted(ledger.end_ns, end, side="right"))
    whole = tree.context.cpu_program
    own = tree.launched(again, tree.after(last))
    return Occurrences(
        kind="label-part",
        node=again,
        begin=begin,
        end=end,
        inside=own,
        own=own,
        python=segments if whole else segments.where(ledger.idle[segments.index]),
        figures={"repeats": 1 + np.bincount(image)[image]},
        details=["zero-shot object detection"] * len(again),
    )


def only_parts(context: Context, start: Ints, end: Ints) -> Bools:
    """Tell of stretches of the host's time in which of them a pipeline prepares further parts of an image, and begins with none."""
    prepared, goes_on, _ = _calls(context)
    if not len(prepared):
        return np.zeros(len(start), np.bool_)
    when = context.recording.host.start[prepared]
    begun, further = (np.sort(when[chosen]) for chosen in (~goes_on, goes_on))
    new, more = (np.searchsorted(at, end) > np.searchsorted(at, start) for at in (begun, further))
    flags: Bools = more & ~new
    return flags


def _calls(context: Context) -> tuple[Ints, Bools, Ints]:
    """Nodes of the generator that prepares, which of them go on with an image begun before, and nodes of the model's calls."""
    found = {
        code: (match["name"], int(match["line"]))
        for code, name in enumerate(context.names)
        if "zero_shot_object_detection" in name and (match := _FUNCTION.search(name)) is not None
    }
    if not found:
        nothing = np.zeros(0, np.int64)
        return nothing, np.zeros(0, np.bool_), nothing
    host = context.recording.host
    calls = np.flatnonzero((host.group == PYTHON) & np.isin(host.name, list(found)))
    named = np.array([found[code][0] for code in host.name[calls].tolist()])
    lines = np.array([found[code][1] for code in host.name[calls].tolist()], np.int64)
    prepared, lines = calls[named == "preprocess"], lines[named == "preprocess"]
    return prepared, lines > (lines.min() if len(lines) else 0), calls[named == "_forward"]


def _next(tree: Tree, prepared: Ints, called: Ints) -> Ints:
    """The model's call that follows each part, on its thread and before the next part begins; -1 without one."""
    host = tree.host
    following = np.append(called, -1)[np.searchsorted(called, prepared)]
    later = np.append(prepared[1:], np.iinfo(np.int64).max)
    fits = (following >= 0) & (following < later)
    fits &= host.thread[np.maximum(following, 0)] == host.thread[prepared]
    return np.where(fits, following, -1)


def _with_copies(tree: Tree, called: Ints) -> Ints:
    """The pipeline's call around each of the model's, with the copies of inputs and outputs; the model's own without one."""
    names = tree.context.names
    known = np.zeros(len(names), np.bool_)
    known[[code for code, name in enumerate(names) if "pipelines/base" in name and _AROUND.search(name)]] = True
    around = tree.host.above(called, known[tree.host.name] & (tree.host.group == PYTHON), HIGHEST)
    return np.where(around >= 0, around, called)
