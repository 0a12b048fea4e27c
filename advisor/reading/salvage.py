"""Damaged text, taken apart: what is whole is read in one go, what is not is mended or left out, and counted.

Nothing here assumes that a boundary is one: an event's args may hold lists of objects that look like events. A cut is
good if what it cuts decodes; else it is tried elsewhere, until only one event is left and that one is looked at alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import msgspec
from msgspec import Struct

from advisor.reading.events import ANY, BROKEN, EVENTS, ONE, RAWS, Event
from advisor.reading.repair import MOST_MENDED, loosen, mend_event
from advisor.regex import regex

_KEYS = rb'\{\s*"(?:ph|name|cat|pid|tid|ts|args|id|s|dur)"\s*:'
BOUNDARY = regex(rb"\}\s*,\s*" + _KEYS)
_START = regex(_KEYS)
_BLANK = regex(rb"[\s,\x00]*")
_STRIP = b" \t\r\n,\0"
_BYTE = regex(r"\(byte (\d+)\)")
_ROOT_GOES_ON = regex(rb'\s*(?:,\s*"[^"]{1,80}"\s*:|\}\s*$|$)')
_LIST_ENDS = regex(rb"\}\s*(?=\])")
_BRACKET = regex(rb'\](?=\s*(?:,\s*"|\}\s*$|$))')
_NEXT_EVENT = regex(rb"[\s,\[]*" + _KEYS)
_LOOK_AHEAD = _LOOK_BEHIND = 1 << 16
# Behind a damaged event windows begin small and double: damage comes alone, or in every event.
_WINDOW = 1 << 11
# An event that seems to go on beyond its chunk is kept for the next one; longer than this, it is damaged.
_MOST_HELD = 64 << 20
_MOST_ATTEMPTS = 6
_MOST_CANDIDATES = 1 << 8
# Text mended in vain, after which only short pieces are still tried: a file of noise is not to take forever.
_MOST_WASTED = 2 << 20
_SHORT = 1 << 12
# Stretches passed over, after which a chunk is given up where no more than half of the file is sound.
_MOST_PASSED_OVER = 100_000


class Losses(Struct):
    """Damage met: how much, and where first, as (number of the event, byte of the uncompressed text)."""

    repaired: int = 0
    skipped: int = 0
    passed_over: int = 0  # stretches of text, of which one event can make several
    wasted: int = 0  # bytes mended in vain
    trailing_comma: bool = False
    first_repaired: tuple[int, int] | None = None
    first_skipped: tuple[int, int] | None = None


def list_end(error: msgspec.DecodeError, body: bytes) -> int | None:
    """Return where in *body* the list ended for the decoder, which met more behind it; None for any other error."""
    named = _BYTE.search(str(error))
    if named is None or "trailing characters" not in str(error):
        return None
    return body.rfind(b"]", 0, int(named[1]) - 1)


def ends_list(text: bytes, at: int, *, last: bool) -> bool:
    """Tell whether the bracket before *at* ends the events: the root object goes on or ends, or no event follows.

    Text that is not the *last* of the file ends with an event's brace, and another event follows: there a list that ended
    has more behind it than a brace.
    """
    if _ROOT_GOES_ON.match(text, at):
        return last or text[at:].strip() not in (b"", b"]", b"}")
    return last and not _NEXT_EVENT.match(text, at) and not BOUNDARY.search(text, at, at + _LOOK_AHEAD)


class Salvage:
    """Takes in one chunk. ``events`` and ``texts`` go together; ``at`` is how far it came, ``ended`` if the list did."""

    def __init__(self, text: bytes, losses: Losses, *, last: bool, number: int, offset: int) -> None:
        self.text = text
        self.losses = losses
        self.last = last
        self.events: list[Event] = []
        self.texts: list[bytes] = []
        self.at = 0
        self.ended = False
        self._number = number
        self._offset = offset
        self._fragment = False
        # The last answer of _next: the closing brace and comma that follow the place asked about.
        self._query_at, self._brace, self._comma = 0, -1, -1

    def run(self) -> None:
        """Take in what the chunk holds, up to the end of the list or an event that goes on in the next chunk."""
        width = len(self.text)
        stop = -1
        while self._more():
            if self.losses.passed_over > max(_MOST_PASSED_OVER, self._number + len(self.events)):
                self.losses.skipped += sum(1 for _ in BOUNDARY.finditer(self.text, self.at)) + 1
                self.at = len(self.text)
                return
            if self._fragment:
                if not self._take_next():
                    return
                continue
            end = stop if stop > self.at else self._next(self.at + width)
            if end - self.at > 4 * width + _LOOK_AHEAD:
                # A boundary so far off says nothing about this event.
                if not self._take_next():
                    return
                continue
            try:
                self._decode(self.text[self.at : end].rstrip(_STRIP))
            except BROKEN as error:
                stop = self._stop(error, end)
                if stop <= self.at:
                    width = _WINDOW
                    if not self._take_next():
                        return
                continue
            width = width if stop == end else min(width * 2, len(self.text))
            stop = -1
            self._fragment = False
            self.at = end

    def _more(self) -> bool:
        """Go on to the next event; False at the end of the text or of the list."""
        while True:
            blank = _BLANK.match(self.text, self.at)
            start = blank.end() if blank else self.at
            comma = b"," in self.text[self.at : start]
            self.at = start
            if start >= len(self.text):
                return False
            if self.text[start] != 0x5D:
                return True
            self.at += 1
            # Behind a damaged event a bracket may be a leftover of its args.
            if self._ends_list(self.at) and (not self._fragment or _ROOT_GOES_ON.match(self.text, self.at)):
                self.ended = True
                self.losses.trailing_comma = comma
                return False
            if not self._fragment:
                self._count_repair(start)

    def _ends_list(self, at: int) -> bool:
        return ends_list(self.text, at, last=self.last)

    # ---- windows

    def _decode(self, body: bytes) -> None:
        """Take in a window of whole events. Raises what decoding raises where it is broken or holds the list's end."""
        try:
            events = EVENTS.decode(b"[" + body + b"]")
        except msgspec.ValidationError:
            start = self.at
            for raw in map(bytes, RAWS.decode(b"[" + body + b"]")):
                start = self.text.index(raw, start)
                self._take(raw, start)
                start += len(raw)
            return
        self.events += events
        self.texts.append(body)

    def _stop(self, error: Exception, end: int) -> int:
        """Return where to cut a window that failed, to try again; at or below ``self.at`` where only one event is left."""
        text, at = self.text, self.at
        if isinstance(error, msgspec.DecodeError):
            close = list_end(error, b"[" + text[at:end].rstrip(_STRIP) + b"]")
            if close is not None:
                return at + close - 1
            named = _BYTE.search(str(error))
            broken = at + int(named[1]) if named else -1
        else:
            broken = at + _invalid_utf8(text[at:end])
        if broken >= at:
            return max((text.index(b",", start) for start in self._boundaries(at, broken)), default=at)
        middle = at + (end - at) // 2
        boundary = BOUNDARY.search(text, middle, end)
        if boundary:
            return text.index(b",", boundary.start())
        return max((text.index(b",", start) for start in self._boundaries(at, middle)), default=at)

    def _boundaries(self, low: int, high: int) -> Iterator[int]:
        return (match.start() for match in BOUNDARY.finditer(self.text, max(low, high - _LOOK_BEHIND), high))

    # ---- one event

    def _take_next(self) -> bool:
        """Take in, mend or pass over the event at ``self.at``; False if it goes on in the next chunk."""
        start = self.at
        raw, truncated = self._object_at(start)
        if raw is not None:
            self.at = start + len(raw)
            self._take(raw, start)
            return True
        if truncated and not self.last and len(self.text) - start < _MOST_HELD:
            return False
        if truncated and self.last and self._inner(start + 1, len(self.text)) < 0:
            # The file is cut off in its last event, which is whole if nothing but its closing brace is lost.
            if not self._take_mended(self.text[start:].strip(_STRIP), start, len(self.text)):
                self._count_skip(start)
            self.at = len(self.text)
            return True
        self._mend()
        return True

    def _object_at(self, start: int) -> tuple[bytes | None, bool]:
        """The JSON object at *start*, if it is right; and whether the text ended before it did."""
        size = _LOOK_AHEAD
        if self.text[start : start + 1] != b"{":
            return None, False
        while True:
            piece = self.text[start : start + size]
            try:
                ANY.decode(piece)
            except msgspec.DecodeError as error:
                named = _BYTE.search(str(error))
                if named and "trailing characters" in str(error):
                    return piece[: int(named[1]) - 1].rstrip(), False
                if start + size < len(self.text) and (named is None or int(named[1]) > size - 64):
                    size *= 4
                    continue
                return None, named is None
            except RecursionError:
                return None, False
            return piece, False

    def _take(self, raw: bytes, start: int) -> None:
        """Take in an object whose JSON is right, whatever its types; what is left of a damaged event's args is none."""
        if self._fragment and not _is_complete(raw):
            return
        try:
            event = ONE.decode(raw)
        except BROKEN:
            result = mend_event(raw)
            if result is None:
                self._count_skip(start)
                return
            event, raw = result
            self._count_repair(start)
        self.events.append(event)
        self.texts.append(raw)
        self._fragment = False

    def _mend(self) -> None:
        """Mend the event at ``self.at``, or pass over it."""
        start, text = self.at, self.text
        resume = self._next(start)
        inner = self._inner(start + 1, resume)
        end = resume = self._bracket(start, resume) if inner < 0 else inner
        exhausted = self.losses.wasted > _MOST_WASTED
        for attempt in range(_MOST_ATTEMPTS + 1):
            pieces = [(text[start:end].strip(_STRIP), end)]
            if end == len(text):
                ends = [match.start() + 1 for match in islice(_LIST_ENDS.finditer(text, start), _MOST_ATTEMPTS)]
                pieces = [(text[start:at], at) for at in ends if self._ends_list(text.index(b"]", at) + 1)] + pieces
            if any(
                self._take_mended(piece, start, at) for piece, at in pieces if not exhausted or len(piece) <= _SHORT
            ):
                return
            if inner >= 0 or text[end : end + 1] != b"," or exhausted or attempt == _MOST_ATTEMPTS:
                break
            following = _BLANK.match(text, end)
            after = following.end() if following else end
            further = self._bracket(after, self._next(after))
            if self._is_event(after) or _has_event_keys(text[after:further]):
                break
            # The boundary may have been one inside the event's args.
            end = further
        self.losses.passed_over += 1
        if not self._fragment or _has_event_keys(text[start:resume]):
            self._count_skip(start)
        self._fragment = True
        self.at = resume

    def _bracket(self, low: int, high: int) -> int:
        """Return where in a damaged stretch the list of events ends, if this is the file's last text; else *high*."""
        if not self.last:
            return high
        for match in islice(_BRACKET.finditer(self.text, low, high), _MOST_CANDIDATES):
            # The rest of the file must be the rest of a root object. A glance tells that of most brackets.
            tail = self.text[match.end() : match.end() + _SHORT]
            if _closes_root(tail) is None and len(tail) == _SHORT:
                tail = self.text[match.end() :]
            if _closes_root(tail):
                return match.start()
        return high

    def _take_mended(self, piece: bytes, start: int, end: int) -> bool:
        """Take in the event that *piece* is, mended; also where it lacks but its closing brace."""
        result = mend_event(piece)
        if result is None and piece.endswith(b"}"):
            result = mend_event(piece + b"}")
            if result is not None and result[0].ph == "X" and result[0].dur is None:
                result = None
        if result is None or not result[0].ph or (result[0].ph == "X" and result[0].ts is None):
            self.losses.wasted += min(len(piece), MOST_MENDED)
            return False
        self._count_repair(start)
        self.events.append(result[0])
        self.texts.append(result[1])
        self._fragment = False
        self.at = end
        return True

    def _next(self, start: int) -> int:
        """The comma behind the event at *start*, as far as boundaries tell, or the end of the text."""
        if not self._query_at <= start <= self._brace:
            boundary = BOUNDARY.search(self.text, start)
            self._query_at = start
            self._brace = boundary.start() if boundary else len(self.text)
            self._comma = self.text.index(b",", self._brace) if boundary else self._brace
        return self._comma

    def _inner(self, low: int, high: int) -> int:
        """Return where inside a damaged stretch a whole event begins, its boundary lost; -1 if nowhere."""
        for count, match in enumerate(_START.finditer(self.text, low, high)):
            if count == _MOST_CANDIDATES:
                break
            if self._is_event(match.start()):
                return match.start()
        return -1

    def _is_event(self, start: int) -> bool:
        raw, _ = self._object_at(start)
        return raw is not None and _is_complete(raw)

    # ---- the count

    def _place(self, start: int) -> tuple[int, int]:
        return self._number + self.losses.skipped + len(self.events) + 1, self._offset + start

    def _count_repair(self, start: int) -> None:
        self.losses.first_repaired = self.losses.first_repaired or self._place(start)
        self.losses.repaired += 1

    def _count_skip(self, start: int) -> None:
        self.losses.first_skipped = self.losses.first_skipped or self._place(start)
        self.losses.skipped += 1


def _is_complete(raw: bytes) -> bool:
    """Tell whether an object is surely an event, and not one of some event's args."""
    try:
        event: Event | None = ONE.decode(raw)
    except BROKEN:
        event = loosen(raw)
    return event is not None and bool(event.ph) and (event.ph != "X" or event.ts is not None)


def _has_event_keys(piece: bytes) -> bool:
    """Tell whether a damaged stretch looks like an event, and not like the rest of the one before it."""
    return b'"ph"' in piece and b'"ts"' in piece


def _closes_root(tail: bytes) -> bool | None:
    """Tell whether *tail*, behind a closing bracket, is the rest of the root object or of a list; None if it is too short."""
    if not tail.strip():
        return True
    try:
        ANY.decode(b'{"":[]' + tail)
    except msgspec.DecodeError as error:
        return None if "truncated" in str(error) else False
    except RecursionError:
        return False
    return True


def _invalid_utf8(text: bytes) -> int:
    """Return where the text stops to be UTF-8, or a number far below 0."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return -(1 << 60)
