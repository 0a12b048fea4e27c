"""Which traces are meant: files, folders, patterns and URLs, each turned into the addresses of single files."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.errors import TraceError
from advisor.reading import remote

SUFFIXES = (".json", ".json.gz")
_NAMED = 5
_MAGIC = re.compile(r"[*?\[]")
# What torch's tensorboard_trace_handler writes: WORKER.TIME.pt.trace.json, a file for each recording of a worker.
_RECORDING = re.compile(r"^(?P<worker>.+)\.(?P<time>\d{9,})\.pt\.trace\.json(?:\.gz)?$")


@dataclass
class Inputs:
    """The files to read, in order; which of them nobody named one by one; and what is left out, in words."""

    addresses: list[str]
    found: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def several(given: Sequence[str]) -> bool:
    """Whether an argument stands for more than itself: a folder, a pattern, a URL of either."""
    return any(_is_pattern(one) or (remote.is_url(one) and one.endswith("/")) or Path(one).is_dir() for one in given)


def find(given: Sequence[str]) -> Inputs:
    """The files that *given* stand for, each once. Raises ``TraceError`` where a folder or pattern holds none."""
    made = Inputs([])
    for one in given:
        if one == "-":
            files = [one]
        elif remote.is_url(one):
            files = _remote(one, made)
        elif Path(one).is_dir():
            files = _folder(one, made)
        elif _is_pattern(one):
            files = _newest(_sorted(path for path in glob.glob(one, recursive=True) if Path(path).is_file()), made)
            if not files:
                raise TraceError(f"{one}: no file fits")
            made.found.update(files)
        else:
            files = [one]
        made.addresses += [path for path in files if path not in made.addresses]
    return made


def _is_pattern(given: str) -> bool:
    if remote.is_url(given):  # a question mark begins the query of a URL
        return "*" in given.partition("?")[0]
    return _MAGIC.search(given) is not None and not os.path.lexists(given)


def _sorted(names: Iterable[str]) -> list[str]:
    """By name, numbers by their value: rank2 before rank10."""
    return sorted(
        names, key=lambda name: [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
    )


def _folder(folder: str, made: Inputs) -> list[str]:
    """The traces of a folder; where it holds none itself, those of the folders in it."""
    try:
        entries = _sorted(entry.path for entry in os.scandir(folder))
        files = [path for path in entries if Path(path).is_file()]
        chosen = [path for path in files if path.lower().endswith(SUFFIXES)]
        if not chosen:
            inner = [Path(path) for path in entries if Path(path).is_dir()]
            chosen = _sorted(
                str(path) for one in inner for path in one.iterdir() if path.name.lower().endswith(SUFFIXES)
            )
    except OSError as error:
        raise TraceError(f"{folder}: cannot be read: {error.strerror or error}") from None
    others = [path for path in files if path not in chosen]
    return _chosen(folder, chosen, others, made)


def _remote(given: str, made: Inputs) -> list[str]:
    """The files of a URL: of a pattern those that fit, of a folder its traces."""
    if not _is_pattern(given) and not given.endswith("/"):
        return [given]
    system, path = remote.file_system(given)
    try:
        if _is_pattern(given):
            names = [name for name in system.glob(path) if name.lower().endswith(SUFFIXES)]
            others: list[str] = []
        else:
            entries: list[dict[str, Any]] = system.ls(path, detail=True)
            files = [entry["name"] for entry in entries if entry["type"] == "file" and entry["name"] != path]
            names = [name for name in files if name.lower().endswith(SUFFIXES)]
            others = [name for name in files if name not in names]
    except Exception as error:  # noqa: BLE001  (each protocol has exceptions of its own)
        raise TraceError(f"{remote.shown(given)}: cannot be listed: {remote.said(error)}") from None
    whole = [str(system.unstrip_protocol(name)) for name in _sorted(names)]
    return _chosen(remote.shown(given), whole, others, made)


def _chosen(folder: str, names: Sequence[str], others: Sequence[str], made: Inputs) -> list[str]:
    if not names:
        raise TraceError(f"{folder}: holds no traces: no file there is called .json or .json.gz")
    if others:
        shown = ", ".join(re.split(r"[\\/]", name)[-1] for name in others[:_NAMED])
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        made.notes.append(f"{folder}: left out, as they are not called .json or .json.gz: {shown}{more}")
    chosen = _newest(names, made)
    made.found.update(chosen)
    return chosen


def _newest(names: Sequence[str], made: Inputs) -> list[str]:
    """Of several recordings that one worker wrote beside each other, the newest, by the time in their names."""
    latest: dict[tuple[str, str], tuple[int, str]] = {}
    for name in names:
        folder, file = re.split(r"[\\/](?=[^\\/]*$)", name) if re.search(r"[\\/]", name) else ("", name)
        if told := _RECORDING.match(file):
            key, entry = (folder, told["worker"]), (int(told["time"]), name)
            latest[key] = max(latest.get(key, entry), entry)
    kept = {name for _, name in latest.values()}
    chosen = [name for name in names if name in kept or not _RECORDING.match(re.split(r"[\\/]", name)[-1])]
    if older := len(names) - len(chosen):
        files = "1 older recording" if older == 1 else f"{older:,} older recordings"
        workers = "1 process" if len(latest) == 1 else f"{len(latest):,} processes"
        made.notes.append(
            f"{files} of the same {workers} left out, by the time in the files' names; give a file by its name to read it"
        )
    return chosen
