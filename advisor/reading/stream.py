"""The streamed reader: header, events chunk by chunk, trailer; damaged places are mended or skipped, and counted.

Text is cut at event boundaries, each chunk is decoded in one go by msgspec, and what fails is located by the byte that
msgspec names: only the event around that byte is taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from advisor.errors import TraceError
from advisor.reading import metadata
from advisor.reading.columns import Columns, Table
from advisor.reading.containers import Source
from advisor.reading.events import EVENTS, Event
from advisor.reading.repair import BOUNDARY, from_mapping, mend_event, mend_text

CHUNK = 2 << 20
# Text without a single event boundary for so long is no layout that the splitter knows.
_UNSPLITTABLE = 32 << 20
_ROOT = re.compile(rb'"traceEvents"\s*:\s*')
_BYTE = re.compile(r"\(byte (\d+)\)")
_BOM = b"\xef\xbb\xbf"


@dataclass
class Recorded:
    """One trace file as columns."""

    tables: dict[str, Table]
    names: list[str]
    stacks: list[str]
    raws: list[bytes]
    texts: list[str]
    metadata: metadata.Metadata
    events: int
    notes: list[tuple[str, str]] = field(default_factory=list)
    repaired: int = 0
    skipped: int = 0
    truncated: bool = False
    size: int = 0


class Reader:
    """Reads one file into :class:`Recorded`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.source = Source(path)
        self.blocks: Iterator[bytes] = self.source.blocks()
        self.columns = Columns()
        self.repaired = 0
        self.skipped = 0
        self.truncated = False
        self.notes: list[tuple[str, str]] = []
        self.first_damage = ""
        self._separator: bytes | None = None

    def read(self) -> Recorded:
        """The whole file. Raises TraceError if it is no trace."""
        head, rest, is_list = self._header()
        trailer = self._events(rest)
        trailer += b"".join(self.blocks)
        meta = None if is_list else self._metadata(head, trailer)
        if self.columns.events == 0:
            self._refuse_empty()
        tables = self.columns.finish()
        columns = self.columns
        if not tables:
            self._refuse_empty()
        return Recorded(
            tables=tables,
            names=list(columns.names),
            stacks=list(columns.stacks),
            raws=list(columns.raws),
            texts=list(columns.texts),
            metadata=meta or metadata.Metadata(),
            events=columns.events,
            notes=[*self.source.notes, *self.notes, *self._damage_notes()],
            repaired=self.repaired,
            skipped=self.skipped,
            truncated=self.truncated,
            size=self.source.size,
        )

    def _refuse_empty(self) -> None:
        raise TraceError(
            f"{self.path}: a trace without events. Was the profiler stopped before a step was recorded? "
            "With a schedule, call prof.step() after every iteration until the active steps are over."
        )

    # ---- header

    def _header(self) -> tuple[bytes, bytes, bool]:
        """(text before the events, what is read beyond, whether the root is a list)."""
        buffer = bytearray()
        searched = 0
        for block in self.blocks:
            buffer += block
            if buffer.startswith(_BOM):
                del buffer[:3]
                self.notes.append(("byte-order-mark", "a byte order mark at the start was passed over"))
            start = len(buffer) - len(buffer.lstrip())
            if start == len(buffer):
                continue
            first = buffer[start : start + 1]
            if first == b"[":
                return b"", bytes(buffer[start + 1 :]), True
            if first != b"{":
                raise TraceError(
                    f"{self.path}: is not JSON. advisor reads what torch.profiler writes: "
                    "prof.export_chrome_trace('trace.json.gz')."
                )
            found = _ROOT.search(buffer, searched)
            while found and found.end() < len(buffer):
                if buffer[found.end() : found.end() + 1] == b"[":
                    return bytes(buffer[: found.start()]), bytes(buffer[found.end() + 1 :]), False
                found = _ROOT.search(buffer, found.end())
            searched = max(0, len(buffer) - 64)
        return self._no_events(bytes(buffer))

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
        raise TraceError(f"{self.path}: is {what}. advisor reads prof.export_chrome_trace('trace.json.gz').")

    # ---- events

    def _events(self, rest: bytes) -> bytes:
        """Read the list of events to its end; returns the text after it."""
        buffer = rest
        for block in self.blocks:
            buffer += block
            if len(buffer) < CHUNK:
                continue
            cut = self._last_boundary(buffer)
            if cut < 0:
                if len(buffer) > _UNSPLITTABLE:
                    buffer += b"".join(self.blocks)
                    break
                continue
            end = self._chunk(buffer[: cut + 1], last=False)
            if end >= 0:
                return buffer[end:]
            buffer = buffer[buffer.index(b",", cut) + 1 :]
        end = self._chunk(buffer, last=True)
        return buffer[end:] if end >= 0 else b""

    def _last_boundary(self, buffer: bytes) -> int:
        """Where the last event that is surely whole ends (its closing brace), or -1."""
        if self._separator is None:
            found = BOUNDARY.search(buffer)
            if not found:
                return -1
            self._separator = found[0]
        cut = buffer.rfind(self._separator)
        if cut < 0:
            for found in BOUNDARY.finditer(buffer):
                cut = found.start()
        return cut

    def _chunk(self, text: bytes, *, last: bool) -> int:
        """Decode *text*, events without enclosing brackets. Returns where the list ended in it, -1 if it did not."""
        at = 0
        while True:
            body = b"[" + text[at:] + (b"" if last else b"]")
            try:
                events = EVENTS.decode(body)
            except msgspec.ValidationError:
                return self._loose(body, at)
            except msgspec.DecodeError as error:
                message = str(error)
                named = _BYTE.search(message)
                if "trailing characters" in message and named:
                    end = int(named[1]) - 1  # msgspec has read the character that surprises it
                    tail = text[at + end - 1 :]
                    if not BOUNDARY.search(tail, 0, 1 << 16) or _looks_like_root(tail):
                        return at + self._ended(body, end) - 1
                    at = self._mend(text, at, at + end - 1)
                elif "truncated" in message or named is None:
                    at = self._cut_off(text, at, last=last)
                else:
                    at = self._mend(text, at, at + int(named[1]) - 1)
            except (UnicodeDecodeError, RecursionError):
                at = self._bisect(text, at)
            else:
                self.columns.add(events, body)
                return len(text) if last else -1
            if at >= len(text) or not text[at:].strip(b" \t\r\n,"):
                return -1
            if text[at:].lstrip().startswith(b"]"):
                return at + text[at:].index(b"]") + 1

    def _ended(self, body: bytes, end: int) -> int:
        """Take in the events of ``body[:end]``, which is a whole list. Returns *end*."""
        whole = body[:end]
        try:
            self.columns.add(EVENTS.decode(whole), whole)
        except msgspec.ValidationError:
            self._loose(whole, 0)
        return end

    def _loose(self, body: bytes, at: int) -> int:
        """A chunk whose JSON may be right but whose types are not: event by event, field by field."""
        end = -1
        try:
            rows = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            named = _BYTE.search(str(error))
            if "trailing characters" in str(error) and named:
                end = int(named[1]) - 1
                rows = msgspec.json.decode(body[:end])
            else:
                # Both wrong types and broken text: piece by piece.
                text = body[1:]
                at_piece = 0
                while at_piece < len(text) and text[at_piece:].strip(b" \t\r\n,]"):
                    at_piece = self._piece(text, at_piece)
                return -1
        except (UnicodeDecodeError, RecursionError):
            rows = []
            self.skipped += 1
        for row in rows:
            event = from_mapping(row)
            if event is None:
                self._skip(repr(row)[:60])
            else:
                self.columns.add([event])
                self.repaired += 1
        return at + end - 1 if end >= 0 else -1

    def _good(self, text: bytes) -> None:
        """Take in text that msgspec has already parsed past, in one go where it can."""
        if not text.strip(b" \t\r\n,"):
            return
        body = b"[" + text.strip(b" \t\r\n,") + b"]"
        try:
            self.columns.add(EVENTS.decode(body), body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            at = 0
            while at < len(text) and text[at:].strip(b" \t\r\n,]"):
                at = self._piece(text, at)

    def _mend(self, text: bytes, at: int, broken: int) -> int:
        """Take what is whole before byte *broken*, mend the event around it, return where to go on."""
        start = at
        for found in BOUNDARY.finditer(text, max(at, broken - (1 << 20)), min(len(text), broken + 1)):
            start = text.index(b",", found.start()) + 1
        if start > at:
            self._good(text[at:start])
        return self._piece(text, start)

    def _piece(self, text: bytes, start: int) -> int:
        """Mend the one event that begins at *start*; where the next cut was inside it, take in more."""
        for end in _ends(text, start):
            piece = text[start:end].strip(b" \t\r\n,")
            if not piece:
                return end
            if end >= len(text):
                # The list, and even the whole file, may end behind the last event.
                closing = re.search(rb"\}\s*\](?=\s*(?:,\s*\"|\}|$))", piece)
                if closing:
                    event = mend_event(piece[: closing.start() + 1])
                    if event is not None:
                        self._mended(event)
                        return start + text[start:].index(piece) + closing.end() - 1
            event = mend_event(piece)
            if event is not None:
                self._mended(event)
                return end
        end = next(iter(_ends(text, start)))
        self._skip(text[start:end].strip()[:120].decode("utf-8", "replace"))
        return end

    def _bisect(self, text: bytes, at: int) -> int:
        """Invalid UTF-8 or absurd nesting: msgspec does not say where, so go event by event through this stretch."""
        while at < len(text) and text[at:].strip(b" \t\r\n,"):
            if text[at:].lstrip(b" \t\r\n,").startswith(b"]"):
                return at
            stop = at
            for count, end in enumerate(_boundaries(text, at)):
                stop = end
                if count >= 256:
                    break
            stop = stop if stop > at else len(text)
            body = b"[" + text[at:stop].strip(b" \t\r\n,") + b"]"
            try:
                self.columns.add(EVENTS.decode(body), body)
                at = stop
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                before = at
                while at < stop and text[at:stop].strip(b" \t\r\n,]"):
                    at = self._piece(text, at)
                if at == before:
                    return stop
        return at

    def _cut_off(self, text: bytes, at: int, *, last: bool) -> int:
        """The text ends inside an event: keep the whole ones before it."""
        end = at
        for found in BOUNDARY.finditer(text, at):
            end = text.index(b",", found.start()) + 1
        body = text[at:end]
        if end > at:
            whole = b"[" + body.rstrip(b" \t\r\n,") + b"]"
            try:
                self.columns.add(EVENTS.decode(whole), whole)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._good(body)
        tail = text[end:].strip(b" \t\r\n,")
        if tail:
            event = mend_event(tail) or mend_event(tail + b"}") or mend_event(tail + b"}}")
            if event is not None and event.ts is not None and event.dur is not None:
                self._mended(event)
            elif last:
                self.skipped += 1
        if last:
            self.truncated = True
        elif tail:
            self._skip(tail[:120].decode("utf-8", "replace"))
        return len(text)

    def _mended(self, event: Event) -> None:
        self.repaired += 1
        self.columns.add([event])

    def _skip(self, excerpt: str) -> None:
        self.skipped += 1
        if not self.first_damage:
            self.first_damage = f"near event {self.columns.events + 1}: {' '.join(excerpt.split())[:80]!a}"

    def _damage_notes(self) -> list[tuple[str, str]]:
        notes = []
        if self.truncated:
            notes.append(("truncated", f"the file is cut off after {self.columns.events:,} events; the end is lost"))
        if self.repaired:
            notes.append(("repaired", f"{self.repaired:,} damaged events were repaired"))
        if self.skipped:
            where = f", the first {self.first_damage}" if self.first_damage else ""
            notes.append(("skipped", f"{self.skipped:,} damaged events could not be repaired and were left out{where}"))
        if self.columns.coerced:
            notes.append(("bad-values", f"{self.columns.coerced:,} values that are no numbers were left out"))
        if self.columns.unknown:
            kinds = ", ".join(f"{name!a} ({count})" for name, count in list(self.columns.unknown.items())[:5])
            notes.append(("unknown-categories", f"events of unknown categories were passed over: {kinds}"))
        return notes

    # ---- metadata

    def _metadata(self, head: bytes, trailer: bytes) -> metadata.Metadata:
        """The root object without its events, from what stood before and after them."""
        head = head.rstrip()
        tail = trailer.lstrip()
        joint = b"" if head.endswith((b"{", b",")) else b","
        candidates = [head + joint + b'"traceEvents":[]' + tail, head + joint + b'"traceEvents":[]}']
        if not tail:
            candidates.reverse()
            self.truncated = self.truncated or bool(self.columns.events)
        for at, candidate in enumerate(candidates):
            for text in (candidate, mend_text(candidate.decode("utf-8", "replace")).encode()):
                meta = metadata.parse(text)
                if meta is not None:
                    if at and tail:
                        self.notes.append(("metadata", "the root object is damaged behind the events"))
                    return meta
        self.notes.append(("metadata", "the root object is damaged; devices and settings are unknown"))
        return metadata.Metadata()


def _looks_like_root(tail: bytes) -> bool:
    """Whether text after a closing bracket is the rest of the root object: a comma and a key, or its end."""
    return re.match(rb'\s*(?:,\s*"[^"]{1,80}"\s*:|\}\s*$|$)', tail) is not None


def _boundaries(text: bytes, at: int) -> Iterator[int]:
    for found in BOUNDARY.finditer(text, at):
        yield text.index(b",", found.start()) + 1


def _ends(text: bytes, start: int) -> Iterator[int]:
    """Where the event that begins at *start* may end: the next few boundaries, at last the end of the text."""
    most = 6
    for count, end in enumerate(_boundaries(text, start)):
        if count == most:
            return
        yield end
    yield len(text)


def read(path: str) -> Recorded:
    """Read a trace file, or standard input (``-``)."""
    return Reader(path).read()
