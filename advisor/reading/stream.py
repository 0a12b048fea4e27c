"""The streamed reader: header, events chunk by chunk, trailer.

Text is cut at event boundaries and each chunk is decoded in one go by msgspec. What fails is taken apart by
:mod:`advisor.reading.salvage`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import msgspec
from msgspec import Struct, field

from advisor.errors import NotATrace, TraceError
from advisor.reading import accelerators, dialects, limits, machine, metadata, parts
from advisor.reading.columns import Array, Columns, Table
from advisor.reading.containers import Source
from advisor.reading.cut import Part
from advisor.reading.events import BROKEN, EVENTS
from advisor.reading.held import Snapshot
from advisor.reading.progress import Observer, Progress
from advisor.reading.repair import mend
from advisor.reading.salvage import BOUNDARY, Losses, Salvage, ends_list, list_end
from advisor.regex import regex

CHUNK = 2 << 20
# Pieces that a chunk is decoded in: the events of a quarter of a megabyte fit a processor's cache.
_PIECES = 8
# Text without an event for so long is no trace: no root object and no event is so large.
MOST_TEXT = 512 << 20
# After so much text without a boundary, objects may begin with keys that are not usual.
_UNUSUAL = 4 << 20
OTHER_BOUNDARY = regex(rb'\}\s*,\s*\{\s*"')
_MOST_TRAILER = 64 << 20
_MOST_CUTS = 40
# The longest real name has 5,123 characters; patterns are matched against them, so their length is bounded.
_MOST_NAME = 1 << 14
_MOST_STACK = 1 << 16
ROOT = regex(rb'"traceEvents"\s*:\s*\[')
_KEY = regex(rb'"traceEvents"\s*:\s*')
# A path of a package; one of the first some thousand texts says it, where any does.
_PYTHON = regex(r"/python3\.(\d{1,2})/(?:site|dist)-packages/")
_MOST_PATHS = 5000
_BOM = b"\xef\xbb\xbf"


class Recorded(Struct):
    """One trace file as columns."""

    tables: dict[str, Table]
    names: list[str]
    stacks: list[str]
    raws: list[bytes]
    inputs: list[bytes]
    """Strides and values of operands, as written."""
    texts: list[str]
    metadata: metadata.Metadata
    events: int
    notes: list[tuple[str, str]] = field(default_factory=list)
    repaired: int = 0
    skipped: int = 0
    counter_ranges: int = 0
    early: bool = False
    """True where categories are named as before torch 1.12."""
    python_minor: int | None = None
    """Python's minor release, by the paths of its packages; None where none shows it."""
    truncated: bool = False
    size: int = 0
    part: Part | None = None
    snapshot: Snapshot | None = None
    """The memory snapshot that was read beside it, or that it is."""


def _python_minor(*texts: Iterable[str]) -> int | None:
    """Return the minor release of Python 3 that the first of some paths say."""
    some = (text for kind in texts for text in islice(kind, _MOST_PATHS) if "/python3." in text)
    return next((int(match[1]) for text in some if (match := _PYTHON.search(text))), None)


class Reader:
    """Reads one file into :class:`Recorded`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        progress: Progress | None = None,
        observer: Observer | None = None,
        *,
        together: bool = True,
    ) -> None:
        """*together*: other processes read parts of the file, where that is worth while."""
        self.source = Source(path, progress, observer)
        self._together = together
        self.path = self.source.path
        self.chunk = min(CHUNK, machine.part_bytes() // 4)
        """Bytes of text that are decoded at once."""
        self.blocks: Iterator[bytes] = self.source.blocks()
        self.columns = Columns()
        self.losses = Losses()
        self.truncated = False
        self.notes: list[tuple[str, str]] = []
        self.separator: bytes | None = None
        """The text between two events, once two have been seen."""
        self.salvaged = False
        self._others: parts.Others | None = None
        self._offset = 0  # of the text that is looked at, in the uncompressed file

    def read(self) -> Recorded:
        """The whole file, in whichever format. Raises TraceError if it is no trace."""
        first = next(self.blocks, b"")
        if self.source.format:
            return dialects.read(self, first)
        self.blocks = chain([first], self.blocks)
        head, rest, is_list = self._header()
        try:
            trailer = self._events(rest)
        finally:
            if self._others is not None:
                self._others.end()
        return self.finished(None if is_list else self._metadata(head, trailer))

    def finished(self, meta: metadata.Metadata | None, ends: Array | None = None) -> Recorded:
        """Return what the columns came to; *ends* are those of events whose durations are numbers of them so far."""
        columns = self.columns
        tables = columns.finish(ends)
        if not tables:
            self._refuse_empty()
        limits.check_size(self.path, columns)
        limits.check_tables(self.path, tables)
        meta = meta or metadata.Metadata()
        if columns.accelerator is not None:
            named = accelerators.from_backend(meta.backend) if columns.accelerator == accelerators.ANY else None
            meta = msgspec.structs.replace(meta, accelerator=named or columns.accelerator)
        return Recorded(
            tables=tables,
            names=[name[:_MOST_NAME] for name in columns.names],
            stacks=[stack[:_MOST_STACK] for stack in columns.stacks],
            raws=[raw[:_MOST_NAME] for raw in columns.raws],
            inputs=[raw[:_MOST_NAME] for raw in columns.inputs],
            texts=[text[:_MOST_NAME] for text in columns.texts],
            metadata=meta,
            events=columns.events,
            notes=[*self.source.notes, *self.notes, *columns.notes, *self._damage_notes()],
            repaired=self.losses.repaired,
            skipped=self.losses.skipped,
            counter_ranges=columns.counter_ranges,
            early=columns.early,
            python_minor=_python_minor(columns.stacks, columns.names),
            truncated=self.truncated,
            size=self.source.size,
        )

    def _refuse_empty(self) -> None:
        columns, losses = self.columns, self.losses
        if columns.shapeless and columns.shapeless == columns.events:
            raise NotATrace(
                f"{self.path}: is JSON, but no trace: what it lists has no ph. "
                "advisor reads prof.export_chrome_trace('trace.json.gz')."
            )
        if losses.skipped > columns.events:
            raise TraceError(
                f"{self.path}: {_many(losses.skipped, 'damaged event is', 'damaged events are')} beyond repair, and no other "
                f"is left{_where(losses.skipped, losses.first_skipped)}. Copy or record it again."
            )
        if columns.unknown:
            kinds = ", ".join(f"{name!a}" for name in list(columns.unknown)[:5])
            raise NotATrace(
                f"{self.path}: a trace of something else: its events are of categories that torch.profiler does not write "
                f"({kinds}). advisor reads prof.export_chrome_trace('trace.json.gz')."
            )
        raise TraceError(
            f"{self.path}: a trace without events. Was the profiler stopped before a step was recorded? "
            "With a schedule, call prof.step() after every iteration until the active steps are over."
        )

    # ---- header

    def _header(self) -> tuple[bytes, bytes, bool]:
        """(text before the events, what is read beyond, whether the root is a list)."""
        buffer = bytearray()
        low = 0
        fresh = True
        for block in self.blocks:
            buffer += block
            if fresh and len(buffer) < 8:
                continue
            if fresh and self._is_list(buffer):
                return b"", bytes(buffer[1:]), True
            fresh = fresh and not buffer
            match = _KEY.search(buffer, low)
            while match and match.end() < len(buffer):
                if buffer[match.end() : match.end() + 1] == b"[":
                    self._offset += match.end() + 1
                    return bytes(buffer[: match.start()]), bytes(buffer[match.end() + 1 :]), False
                match = _KEY.search(buffer, match.end())
            low = match.start() if match else max(0, len(buffer) - 64)
            if len(buffer) > MOST_TEXT:
                break
        if fresh and self._is_list(buffer):
            return b"", bytes(buffer[1:]), True
        return self._no_events(bytes(buffer))

    def _is_list(self, buffer: bytearray) -> bool:
        """Take white space off the beginning, and say whether the root is a list. Raises TraceError on what is no JSON."""
        start = len(buffer)
        if buffer.startswith(_BOM):
            del buffer[:3]
            self.notes.append(("byte-order-mark", "a byte order mark at the start was passed over"))
        stripped = buffer.lstrip()
        if stripped and not stripped.startswith((b"[", b"{")):
            if _is_value(stripped):
                raise NotATrace(
                    f"{self.path}: is JSON, but no trace: a single value. "
                    "advisor reads prof.export_chrome_trace('trace.json.gz')."
                )
            raise TraceError(
                f"{self.path}: is not JSON. advisor reads what torch.profiler writes: "
                "prof.export_chrome_trace('trace.json.gz')."
            )
        buffer[:] = stripped
        is_list = stripped.startswith(b"[")
        self._offset += start - len(stripped) + is_list
        return is_list

    def _no_events(self, text: bytes) -> tuple[bytes, bytes, bool]:
        if not text.strip():
            raise TraceError(f"{self.path}: is empty. Was the profiler still writing when it was copied?")
        try:
            root = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise TraceError(
                f"{self.path}: is neither whole JSON nor a trace: no traceEvents before the text breaks off. "
                "Copy or record it again."
            ) from None
        if "traceEvents" in root:
            raise TraceError(f"{self.path}: traceEvents is not a list. Record the trace again.")
        if b"speedscope" in bytes(root.get("$schema", b"")) or {"profiles", "shared"} <= set(root):
            what = "a speedscope profile"
        elif "nodes" in root and "schema" in root:
            what = "an execution trace (ExecutionTraceObserver); pass the profiler's trace recorded beside it"
        elif "nodes" in root and ("samples" in root or "startTime" in root):
            what = "a V8 CPU profile"
        else:
            keys = ", ".join(sorted(root)[:5])[:120]
            what = "JSON, but no trace: it has no traceEvents" + (f" (its keys: {keys!a})" if keys else "")
        raise NotATrace(f"{self.path}: is {what}. advisor reads prof.export_chrome_trace('trace.json.gz').")

    # ---- events

    def _events(self, rest: bytes) -> bytes:
        """Read the list of events to its end; returns the text after it."""
        pieces, size, need = [rest], len(rest), self.chunk
        for block in self.blocks:
            pieces.append(block)
            size += len(block)
            if size < need:
                continue
            text = b"".join(pieces)
            cut = self._last_boundary(text)
            at = 0
            if cut >= 0:
                at, ended = self._chunk(text[: cut + 1], last=False)
                if ended:
                    return text[at:] + self._rest()
                at = text.index(b",", cut) + 1 if at > cut else at
            elif size > MOST_TEXT:
                raise TraceError(
                    f"{self.path}: {size >> 20} MB of text without an event. advisor reads what torch.profiler writes: "
                    "prof.export_chrome_trace('trace.json.gz')."
                )
            limits.check_size(self.path, self.columns)
            self._offset += at
            pieces = [text[at:]]
            size = len(pieces[0])
            trailer = self._elsewhere(size)
            if trailer is not None:
                return trailer
            # Text that holds no boundary is looked at again when there is as much again of it.
            need = max(self.chunk, 2 * size)
        text = b"".join(pieces)
        at, ended = self._chunk(text, last=True)
        self.truncated = not ended
        return text[at:]

    def _elsewhere(self, rest: int) -> bytes | None:
        """Take over what others have read behind this place; returns the text behind the events, None where it is not so far.

        *rest* is how many bytes behind it have been read.
        """
        if self._together:
            self._together = False
            self._others = parts.Others.of(self, rest)
        others = self._others
        if others is None or self.source.size < others.start:
            return None
        self._others = None
        self.source.show_rest()
        try:
            last = others.take(self.columns, self._offset)
        finally:
            others.end()
        if last is None:
            self.source.others_read(1)
            return None
        limits.check_size(self.path, self.columns)
        self.source.done(last.size)
        return last.trailer

    def _last_boundary(self, text: bytes) -> int:
        """Return where the last event that seems whole ends (its closing brace), or -1."""
        if self.separator is None:
            match = BOUNDARY.search(text) or (OTHER_BOUNDARY.search(text) if len(text) > _UNUSUAL else None)
            if not match:
                return -1
            self.separator = match[0]
        end = text.rfind(self.separator)
        if end < 0:
            for pattern in (BOUNDARY, OTHER_BOUNDARY):
                for match in pattern.finditer(text):
                    end = match.start()
                if end >= 0:
                    break
        return end

    def _pieces(self, text: bytes) -> Iterator[bytes]:
        """Cut *text* between events into lists of them."""
        at, least, view = 0, self.chunk // _PIECES, memoryview(text)
        while self.separator is not None and (cut := text.find(self.separator, at + least)) >= 0:
            yield b"".join((b"[", view[at : cut + 1], b"]"))  # one copy
            at = text.index(b",", cut) + 1
        yield b"".join((b"[", view[at:], b"]"))

    def _chunk(self, text: bytes, *, last: bool) -> tuple[int, bool]:
        """Take in *text*, events without enclosing brackets. Returns how far it came, and whether the list ended there."""
        if not last and self.columns.add_pieces(self._pieces(text)):
            return len(text), False
        body = b"[" + text + (b"" if last else b"]")
        try:
            events = EVENTS.decode(body)
        except msgspec.DecodeError as error:
            close = list_end(error, body)
            if close is not None and ends_list(body, close + 1, last=last):
                listing = body[: close + 1]
                try:
                    events = EVENTS.decode(listing)
                except BROKEN:
                    pass
                else:
                    self.columns.add(events, listing)
                    return close, True
        except (UnicodeDecodeError, RecursionError):
            pass
        else:
            self.columns.add(events, body)
            return len(text), last
        self.salvaged = True
        salvage = Salvage(text, self.losses, last=last, number=self.columns.events, offset=self._offset)
        salvage.run()
        self.columns.add(salvage.events, b"[" + b",".join(salvage.texts) + b"]")
        return salvage.at, salvage.ended

    def _rest(self) -> bytes:
        """Read the text behind the events; of more than any root object holds, only the beginning."""
        pieces, size = [], 0
        for block in self.blocks:
            pieces.append(block)
            size += len(block)
            if size > _MOST_TRAILER:
                self.notes.append(
                    ("metadata", f"more than {_MOST_TRAILER >> 20} MB behind the events were passed over")
                )
                break
        return b"".join(pieces)

    def _damage_notes(self) -> list[tuple[str, str]]:
        notes, losses, columns = [], self.losses, self.columns
        if self.truncated:
            notes.append(("truncated", f"the file is cut off after {columns.events:,} events; the end is lost"))
        if losses.repaired:
            what = _many(losses.repaired, "damaged event was", "damaged events were")
            notes.append(("repaired", f"{what} repaired{_where(losses.repaired, losses.first_repaired)}"))
        if losses.skipped:
            what = _many(losses.skipped, "damaged event was", "damaged events were")
            notes.append(
                ("skipped", f"{what} beyond repair and left out{_where(losses.skipped, losses.first_skipped)}")
            )
        if losses.trailing_comma:
            notes.append(("trailing-comma", "a comma behind the last event was passed over"))
        if columns.coerced:
            what = _many(columns.coerced, "value that is no number was", "values that are no numbers were")
            first = "the first in event" if columns.coerced > 1 else "in event"
            notes.append(("bad-values", f"{what} left out, {first} {columns.first_coerced:,}"))
        if columns.negative:
            what = _many(columns.negative, "negative duration counts", "negative durations count")
            notes.append(("negative-durations", f"{what} as 0, on the host"))
        if columns.absurd:
            what = _many(columns.absurd, "duration of years counts", "durations of years count")
            notes.append(("absurd-durations", f"{what} as 0, on the host"))
        if columns.unknown:
            kinds = ", ".join(f"{name!a} ({count})" for name, count in list(columns.unknown.items())[:5])
            notes.append(("unknown-categories", f"events of unknown categories were passed over: {kinds}"))
        return notes

    # ---- metadata

    def _metadata(self, head: bytes, trailer: bytes) -> metadata.Metadata:
        """The root object without its events, from what stood before and after them."""
        head = head.rstrip()
        tail = trailer.strip(b" \t\r\n\0")
        if ROOT.search(tail):
            self.notes.append(("metadata", "a second list of events was passed over"))
        joint = b"" if head.endswith((b"{", b",")) else b","
        front = head + joint + b'"traceEvents":[]'
        if not tail.endswith(b"}"):
            self.truncated = True
            # What is whole of the root object is kept: cut back to the last comma before which it can be closed.
            tail = next(
                (shorter for shorter in _closed_earlier(tail) if metadata.parse(front + shorter) is not None), b"}"
            )
        for damaged, text in enumerate((front + tail, front + b"}")):
            meta = metadata.parse(text) or metadata.parse(mend(text))
            if meta is not None:
                if damaged:
                    self.notes.append(("metadata", "the root object is damaged behind the events"))
                return meta
        self.notes.append(("metadata", "the root object is damaged; devices and settings are unknown"))
        return metadata.Metadata()


def _is_value(text: bytearray) -> bool:
    """Tell whether *text* is JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _many(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"


def _where(count: int, place: tuple[int, int] | None) -> str:
    """Put the place of the first of *count* events into words."""
    if place is None:
        return ""
    return f"{',' if count == 1 else ', the first of them'} event {place[0]:,} at byte {place[1]:,} of the text"


def _closed_earlier(tail: bytes) -> Iterator[bytes]:
    """*tail* cut back comma by comma and closed."""
    yield tail + b"}"
    for _ in range(_MOST_CUTS):
        tail = tail[: max(tail.rfind(b","), 0)]
        yield tail + b"}"


def read(path: str | os.PathLike[str], progress: Progress | None = None, observer: Observer | None = None) -> Recorded:
    """Read a trace file, or standard input (``-``). *progress* is called with how far it is, *observer* with its bytes."""
    try:
        recorded = Reader(path, progress, observer).read()
    except parts.Lost:
        recorded = Reader(path, progress, together=False).read()
    machine.give_back(recorded.events)
    return recorded
