"""Trace text made safe for a terminal, and numbers in the units a person reads.

Names in a trace are data of strangers: an escape sequence in a kernel's name must not reach the terminal, and a
right-to-left override must not reorder the line it stands in.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from unicodedata import category, east_asian_width

from advisor.regex import regex

KIB = 1024
MISSING = "not recorded"
NAME_WIDTH = 70

# CSI, OSC (to BEL or ST) and the two-character escapes: dropped whole, for what is inside is not text.
_ANSI = regex(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*[ -/]*[@-~]")
_BREAK = regex(r"[\t\n\v\f\r\x85\u2028\u2029]+")
# Controls, bidirectional and invisible format characters, tags, and lone surrogates, which no encoding can write.
_HIDDEN = regex(
    "[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)

# GitHub's runner looks for these where a line begins, and lines are broken at blanks; ##[ and ##vso[ it finds anywhere.
_COMMAND = regex(
    r"(?:(?<=\s)|^):(?=:(?:error|warning|notice|debug|group|endgroup|echo|add-\w+|remove-\w+|set-\w+|save-\w+|stop-\w+"
    r"|internal-[\w-]+)[ :])|##(?=\[|vso\[)"
)


def clean(text: str) -> str:
    """Return *text* on one line without anything that moves the cursor; what is invisible is spelled out as ``\\u202e``.

    What a CI's runner would take for one of its commands is parted by a blank.
    """
    if not (text.isascii() and text.isprintable()):
        text = _BREAK.sub(" ", _ANSI.sub("", text))
        text = _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
    return _COMMAND.sub(r"\g<0> ", text) if "::" in text or "##" in text else text


def clean_lines(text: str) -> list[str]:
    """Return the lines of a code block, each safe, tabs as four spaces, without blank lines around."""
    return [clean(line.expandtabs(4)).rstrip() for line in text.strip("\n").rstrip().split("\n")]


def columns(text: str) -> int:
    """Count the terminal columns that *text* takes; a CJK character takes two."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(sign: str) -> int:
    kind = category(sign)
    if kind in ("Mn", "Me"):
        return 0
    return 2 if kind != "Cn" and east_asian_width(sign) in "WF" else 1


def shorten(text: str, width: int = NAME_WIDTH) -> str:
    """Return *text* with its middle left out where it is wider than *width*: both ends of a kernel's name tell it apart."""
    if columns(text) <= width:
        return text
    if width <= 1:
        return "…"[:width]
    head = (width - 1 + 1) // 2
    tail = width - 1 - head
    first, last = text[:head], text[len(text) - tail :] if tail else ""
    while columns(first) + columns(last) + 1 > width:  # wide characters
        first, last = (first[:-1], last) if columns(first) >= columns(last) else (first, last[1:])
    return f"{first}…{last}"


_LINK = regex(r"https?://[^\s<>\"'`\\\x00-\x20\x7f]+", re.ASCII)


def link(url: str) -> str | None:
    """Return *url* where it is one that a page may link to: http or https, with nothing in it that could be anything else."""
    return url if len(url) < 2000 and _LINK.fullmatch(url) else None


# 23 %, 10.5 ms, 300 GB/s
_BEFORE_UNIT = regex(r"(?<=\d) (?=(?:%|[µmn]?s|[KMGT]?i?B(?:/s)?|[GT]?FLOPS?)(?!\w))")

# void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1>(Params): what tells it apart is inside.
_CUTLASS = regex(r"^(?:void )?cutlass::\w+<(\w+)>(?:\(.*)?$", re.DOTALL)


def kernel(name: str) -> str:
    """Return a kernel's name; of CUTLASS's without what all of them have around theirs."""
    match = _CUTLASS.match(name)
    return match[1] if match else name


def wrap(text: str, width: int) -> list[str]:
    """Return *text* in lines of *width*; a word that is longer has a line of its own, and a figure stays with its unit."""
    bound = _BEFORE_UNIT.sub("\u00a0", " ".join(text.split()))
    lines = textwrap.wrap(bound, width, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\u00a0", " ") for line in lines]


def pad(text: str, width: int, right: bool = False) -> str:
    """Return *text* filled up with blanks to *width* columns."""
    blanks = " " * max(0, width - columns(text))
    return blanks + text if right else text + blanks


def number(value: float) -> str:
    """Return three significant digits, thousands set apart: 0.0123, 1.23, 123, 12,345; what is less than 0.001 is only that."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    if abs(rounded) < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    if abs(rounded) >= 100:
        return f"{value:,.0f}"
    return f"{rounded:.{2 - math.floor(math.log10(abs(rounded)))}f}"


_UNITS = ((1000.0, 10_000.0, "s"), (1.0, 0.9995, "ms"), (0.001, 0.0, "µs"))
"""Units of time by the ms in one of them, and by the ms from which on they are used: 0.9996 ms read as 1.00 ms."""


def milliseconds(value: float | None, missing: str = MISSING) -> str:
    """Return ``12.3 ms``, ``87.0 µs`` or ``24.1 s``, or that it was not recorded."""
    if value is None or math.isnan(value):
        return missing
    (figure,), unit = in_one_unit(value)
    return f"{figure} {unit}"


def in_one_unit(*values: float) -> tuple[list[str], str]:
    """Return figures of ms in the unit that the largest reads best in, and that unit."""
    most = max(map(abs, values))
    fitting = [(size, unit) for size, least, unit in _UNITS if most >= least and 0 < most < math.inf]
    size, unit = fitting[0] if fitting else (1.0, "ms")
    return [number(value / size) for value in values], unit


def percent(share: float | None, missing: str = MISSING) -> str:
    """Return ``12.3 %`` of a share from 0 to 1, or that it was not recorded."""
    return missing if share is None else f"{100 * share:.1f} %"


def size(count: float | None) -> str:
    """Return bytes in KiB, MiB or GiB (powers of 1024), or that they were not recorded."""
    if count is None:
        return MISSING
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < KIB:
            break
        value, unit = value / KIB, larger
    return f"{value:,.0f} B" if unit == "B" else f"{value:.1f} {unit}"


def percents(shares: Sequence[float]) -> list[float]:
    """Return shares as percentages of one decimal that add up to what the shares add up to, by largest remainder.

    Each is within 0.1 of its own value; without this, five causes of a step can print as 99.8 %.
    """
    tenths = [max(0.0, share) * 1000 for share in shares]
    floors = [int(value + 1e-9) for value in tenths]
    missing = round(sum(tenths)) - sum(floors)
    order = sorted(range(len(tenths)), key=lambda index: floors[index] - tenths[index])
    for index in order[: max(0, missing)]:
        floors[index] += 1
    return [value / 10 for value in floors]
