"""The traces that arguments stand for: files, folders, patterns and URLs, each turned into addresses of single files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from advisor.counting import counted
from advisor.errors import TraceError
from advisor.reading import remote
from advisor.regex import regex

SUFFIXES = (".json", ".json.gz")
_NAMED = 5
_MAGIC = regex(r"[*?\[]")
# What torch's tensorboard_trace_handler writes: WORKER.TIME.pt.trace.json, a file for each recording of a worker.
RECORDING = regex(r"^(?P<worker>.+)\.(?P<time>\d{9,})\.pt\.trace\.json(?:\.gz)?$")


class Inputs(Struct):
    """The files to read, in order; ``implicit`` are those that nobody named one by one, ``notes`` say what is left out.

    ``several``: the arguments stand for several traces, though only one may be there.
    """

    addresses: list[str] = field(default_factory=list)
    implicit: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    several: bool = False


def several(arguments: Sequence[str]) -> bool:
    """True where an argument stands for more than itself: a folder, a pattern, a URL of either."""
    return any(
        _is_pattern(argument) or (remote.is_url(argument) and argument.endswith("/")) or Path(argument).is_dir()
        for argument in arguments
    )


def find(arguments: Sequence[str]) -> Inputs:
    """Find the files that *given* stand for, each once. Raises ``TraceError`` where a folder or pattern holds none."""
    inputs = Inputs()
    for argument in arguments:
        if argument == "-":
            files = [argument]
        elif remote.is_url(argument):
            files = _remote(argument, inputs)
        elif Path(argument).is_dir():
            files = _folder(argument, inputs)
        elif _is_pattern(argument):
            paths = (path for path in glob.glob(argument, recursive=True) if Path(path).is_file())
            files = _newest(_by_name(paths), inputs)
            if not files:
                raise TraceError(f"{argument}: no file fits")
            inputs.implicit.update(files)
        else:
            files = [argument]
        inputs.addresses += [path for path in files if path not in inputs.addresses]
    inputs.several = len(inputs.addresses) > 1 or several(arguments)
    return inputs


def _is_pattern(argument: str) -> bool:
    if remote.is_url(argument):  # a question mark begins the query of a URL
        return "*" in argument.partition("?")[0]
    return _MAGIC.search(argument) is not None and not os.path.lexists(argument)


def _by_name(names: Iterable[str]) -> list[str]:
    """Sort by name, numbers by their value: rank2 before rank10."""
    return sorted(
        names, key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    )


def _folder(folder: str, inputs: Inputs) -> list[str]:
    """Return the traces of a folder; where it holds none itself, those of the folders in it."""
    try:
        entries = _by_name(entry.path for entry in os.scandir(folder))
        files = [path for path in entries if Path(path).is_file()]
        chosen = [path for path in files if path.lower().endswith(SUFFIXES)]
        if not chosen:
            inner = [Path(path) for path in entries if Path(path).is_dir()]
            chosen = _by_name(
                str(path) for below in inner for path in below.iterdir() if path.name.lower().endswith(SUFFIXES)
            )
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    others = [path for path in files if path not in chosen]
    return _choose(folder, chosen, others, inputs)


def _remote(url: str, inputs: Inputs) -> list[str]:
    """Return the files of a URL: of a pattern those that fit, of a folder its traces."""
    if not _is_pattern(url) and not url.endswith("/"):
        return [url]
    system, path = remote.file_system(url)
    try:
        if _is_pattern(url):
            names = [name for name in system.glob(path) if name.lower().endswith(SUFFIXES)]
            others: list[str] = []
        else:
            entries: list[dict[str, Any]] = system.ls(path, detail=True)
            files = [entry["name"] for entry in entries if entry["type"] == "file" and entry["name"] != path]
            names = [name for name in files if name.lower().endswith(SUFFIXES)]
            others = [name for name in files if name not in names]
    except Exception as error:  # noqa: BLE001  (each protocol has exceptions of its own)
        raise TraceError(f"{remote.shown(url)}: cannot be listed: {remote.message_of(error, url)}") from None
    addresses = [str(system.unstrip_protocol(name)) for name in _by_name(names)]
    return _choose(remote.shown(url), addresses, others, inputs)


def _choose(folder: str, names: Sequence[str], others: Sequence[str], inputs: Inputs) -> list[str]:
    if not names:
        raise TraceError(f"{folder}: holds no traces: no file there is called .json or .json.gz")
    if others:
        shown = ", ".join(re.split(r"[\\/]", name)[-1] for name in others[:_NAMED])
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        inputs.notes.append(f"{folder}: left out, as they are not called .json or .json.gz: {shown}{more}")
    chosen = _newest(names, inputs)
    inputs.implicit.update(chosen)
    return chosen


def _newest(names: Sequence[str], inputs: Inputs) -> list[str]:
    """Choose, of several recordings that one worker wrote beside each other, the newest, by the time in their names."""
    latest: dict[tuple[str, str], tuple[int, str]] = {}
    for name in names:
        folder, file = re.split(r"[\\/](?=[^\\/]*$)", name) if re.search(r"[\\/]", name) else ("", name)
        if recording := RECORDING.match(file):
            key, entry = (folder, recording["worker"]), (int(recording["time"]), name)
            latest[key] = max(latest.get(key, entry), entry)
    newest = {name for _, name in latest.values()}
    chosen = [name for name in names if name in newest or not RECORDING.match(re.split(r"[\\/]", name)[-1])]
    if older := len(names) - len(chosen):
        files = counted(older, "older recording")
        workers = counted(len(latest), "process", "processes")
        inputs.notes.append(
            f"{files} of the same {workers} left out, by the time in the files' names; give a file by its name to read it"
        )
    return chosen
