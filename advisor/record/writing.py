"""The output file: torch's trace with call stacks and settings put in, and names of persons, hosts and homes taken out."""

from __future__ import annotations

import gzip
import os
import socket
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
from isal import igzip
from msgspec import Raw, Struct
from msgspec.structs import replace

from advisor import files
from advisor.errors import UsageError
from advisor.reading import stream
from advisor.reading.events import CALL_STACK, PYTHON_BEFORE, WRITTEN_BEFORE
from advisor.reading.program_settings import KEY, Recorded
from advisor.record.collections import MARK as COLLECTION
from advisor.record.collections import NAME as COLLECTED
from advisor.record.samples import samples
from advisor.record.stacks import STEP, Texts, carry_over, frame_text
from advisor.regex import regex

# What of torch's root object is kept. The rest may name the host, paths of this machine, or whatever a library adds.
_ROOT = frozenset(
    [
        "schemaVersion",
        "deviceProperties",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "record_shapes",
        "profile_memory",
        "with_stack",
        "with_modules",
        "with_flops",
        "distributedInfo",
        "cupti_version",
        "cuda_runtime_version",
        "cuda_driver_version",
        "hip_runtime_version",
        "hip_driver_version",
        "roctracer_version",
        "trace_id",
    ]
)
_ARGS = b'"args"'
_EVENTS = b',\n"traceEvents": [\n'
_LEVEL = 2
_NONE = ("", "", "")


class _Kind(Struct):
    cat: str = ""
    name: str = ""


def name_for(script: str, output: str | None, rank: int | None) -> Path:
    """Name the file to write: *output*, else one named for the script; with the rank before its suffix where there are several."""
    path = Path(output or f"{Path(script).stem or 'run'}.trace.json.gz")
    if rank is None:
        return path
    stem, dot, suffix = path.name.partition(".")
    if stem and path.name.endswith((".trace.json.gz", ".trace.json")):
        stem, dot, suffix = f"{stem}.trace", ".", suffix.removeprefix("trace.")
    return path.with_name(f"{stem}.rank{rank}{dot}{suffix}")


def check_output(path: Path, *, force: bool) -> None:
    """Raise UsageError, before anything runs, where *path* could not be written."""
    if path.is_dir():
        raise UsageError(f"{path}: is a folder. Give the trace a file name: -o {path / 'trace.json.gz'}")
    if path.exists() and not force:
        raise UsageError(f"{path}: exists already. Overwrite it with --force (force=True), or write elsewhere.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder. Make it, or write elsewhere with -o.")
    try:
        # Rights alone do not tell: of a read-only or a virtual file system (/proc) root has all of them.
        with tempfile.TemporaryFile(dir=folder, prefix=".advisor-"):
            pass
    except OSError as error:
        raise UsageError(
            f"{folder}: cannot be written to ({error.strerror or error}). Write elsewhere with -o."
        ) from error


def write(
    path: Path,
    timing: Path,
    stacked: Path | None,
    lines: Sequence[str],
    settings: Recorded,
    *,
    whole_steps: int,
    collected: Sequence[str] = (),
    draws: Collection[int] = (),
) -> int:
    """Write the trace at *timing* to *path*, whole or not at all; returns its bytes.

    Operators get their stacks from the trace at *stacked*, where spans stand for *lines*; collections of garbage are spans with
    the number of their place in *collected*. *draws* are the numbers of lines that draw something random.
    A step after the first *whole_steps* was cut off, and is left out.
    """
    text = timing.read_bytes()
    root = msgspec.json.decode(text, type=dict[str, Raw])
    events = msgspec.json.decode(root["traceEvents"], type=list[Raw])
    kinds = msgspec.json.decode(root["traceEvents"], type=list[_Kind])
    del text
    texts: Texts = {}
    before: Texts = {}
    written: Texts = {}
    if stacked is not None:
        timed, with_stacks = stream.read(timing), stream.read(stacked)
        texts, before, written = carry_over(timed, with_stacks, lines)
        settings = replace(settings, samples=samples(timed, with_stacks, lines, draws))
    rows = {
        "cpu_op": zip(*(found.get("op", ()) for found in (texts, before, written)), strict=True),
        "user_annotation": zip(*(found.get("annotation", ()) for found in (texts, before, written)), strict=True),
    }
    numbers = sorted(number for kind in kinds if (number := _step_number(kind)) is not None)
    cut_off = set(numbers[whole_steps:])
    output: list[bytes] = []
    for event, kind in zip(events, kinds, strict=True):
        stack, python, wrote = next(rows[kind.cat], _NONE) if kind.cat in rows else _NONE
        if kind.cat == "cpu_op" and kind.name.startswith(COLLECTION):
            output.append(_collection(bytes(event), kind, collected))
        elif kind.cat == "python_function":
            frame = _python_call(bytes(event), kind)
            if frame is not None:
                output.append(frame)
        elif _step_number(kind) not in cut_off or not cut_off:
            whole = _with_stack(_with_stack(bytes(event), wrote, WRITTEN_BEFORE), python, PYTHON_BEFORE)
            output.append(_with_stack(whole, stack))
    head = {key: value for key, value in root.items() if key in _ROOT}
    body = b",\n".join(output)
    out = b"".join(
        [
            msgspec.json.encode(head)[:-1],
            b', "',
            KEY.encode(),
            b'": ',
            msgspec.json.encode(settings),
            _EVENTS,
            _anonymous(body),
            b"\n]}\n",
        ]
    )
    data = igzip.compress(out, _LEVEL) if path.suffix == ".gz" else out
    files.write(path, data)
    return len(data)


def amend(path: Path, **settings: float | int | None) -> None:
    """Put *settings* into a trace that :func:`write` wrote, in place of those of their names."""
    data = path.read_bytes()
    text: bytes = gzip.decompress(data) if path.suffix == ".gz" else data
    end = text.index(_EVENTS)
    root = msgspec.json.decode(text[:end] + b"}")
    root[KEY] |= {name: value for name, value in settings.items() if value is not None}
    text = msgspec.json.encode(root)[:-1] + text[end:]
    files.write(path, igzip.compress(text, _LEVEL) if path.suffix == ".gz" else text)


def _with_stack(event: bytes, stack: str, name: str = CALL_STACK) -> bytes:
    """Put a call stack among the args of *event*, if there is one."""
    if not stack:
        return event
    field = msgspec.json.encode(name) + b": " + msgspec.json.encode(stack)
    # In JSON a quote inside a string is escaped, so this can only be the key.
    start = event.find(_ARGS)
    if start < 0:
        return event.rstrip()[:-1] + b', "args": {' + field + b"}}"
    brace = event.index(b"{", start) + 1
    comma = b"" if event[brace:].lstrip().startswith(b"}") else b", "
    return event[:brace] + field + comma + event[brace:]


def _collection(event: bytes, kind: _Kind, places: Sequence[str]) -> bytes:
    """Rewrite *event*, a collection of garbage, as torch would: no operator, with its place as its stack."""
    number = kind.name.removeprefix(COLLECTION)
    place = places[int(number)] if number.isdigit() and int(number) < len(places) else ""
    event = event.replace(msgspec.json.encode(kind.name), msgspec.json.encode(COLLECTED), 1)
    return _with_stack(event.replace(b'"cpu_op"', b'"user_annotation"', 1), place)


def _step_number(kind: _Kind) -> int | None:
    """Return N of the step ProfilerStep#N on the host; None for anything else."""
    number = kind.name.removeprefix(STEP)
    return int(number) if kind.cat == "user_annotation" and number != kind.name and number.isdigit() else None


def _python_call(event: bytes, kind: _Kind) -> bytes | None:
    """Rewrite the path of *event*, a Python call, as other frames have it; None for a call of the recorder's own.

    So is what stands around the script: the command's, and Python's way to run a script.
    """
    frame = frame_text(kind.name)
    if frame is None:
        return event
    if _AROUND.match(frame[0]) or "site-packages/click/" in kind.name:
        return None
    return event.replace(msgspec.json.encode(kind.name), msgspec.json.encode(frame[0]), 1)


_AROUND = regex(r"advisor/|<frozen runpy>|(?:.*/)?runpy\.py\(")


def _anonymous(text: bytes) -> bytes:
    """Strip *text* of the home directory, the user's name in compiled kernels' paths, and the host's name in quotes."""
    import getpass

    pairs: list[tuple[str, str]] = []
    home = os.path.expanduser("~")
    if len(home) > 1:
        pairs += [(home + "/", ""), (home, "~")]
    name = _or_empty(getpass.getuser)
    if name:
        pairs.append((f"torchinductor_{name}", "torchinductor"))
    host = _or_empty(socket.gethostname)
    if host:
        pairs.append((f'"{host}"', '"host"'))
    for old, new in pairs:
        text = text.replace(old.encode(), new.encode())
    return text


def _or_empty(read: Callable[[], str]) -> str:
    try:
        return read()
    except (OSError, KeyError, ImportError):
        return ""
