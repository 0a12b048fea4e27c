"""Releases of torch from which on fixes can be written as they are, and what a fix says to who recorded with an older one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from advisor.rulebook.rule import Fix

Release = tuple[int, int]


class _Since(NamedTuple):
    """A name in the code of fixes, the release that brought it, and the name that did the same before; empty without one.

    ``pattern`` is text: few recordings are so old that it is looked for, and to compile it takes its time.
    """

    name: str
    pattern: str
    release: Release
    before: str = ""


def _since(name: str, release: Release, before: str = "", *, pattern: str = "") -> _Since:
    return _Since(name, pattern or rf"(?<![\w.]){re.escape(name)}(?!\w)", release, before)


# By the release notes of torch.
_NAMES = (
    _since("torch.compile", (2, 0)),
    _since("scaled_dot_product_attention", (2, 0), pattern="scaled_dot_product_attention"),
    _since("torch.nn.attention", (2, 3), "torch.backends.cuda.sdp_kernel"),
    _since("torch.amp.GradScaler", (2, 3), "torch.cuda.amp.GradScaler"),
    _since("torch.autocast", (1, 10), "torch.cuda.amp.autocast"),
    _since("torch.inference_mode", (1, 9), "torch.no_grad"),
    _since("torch.set_float32_matmul_precision", (1, 12), "torch.backends.cuda.matmul.allow_tf32"),
    _since("torch.cuda.make_graphed_callables", (1, 10)),
    _since("SGD with fused=True", (2, 3), pattern=r"SGD\([^)\n]*\)?[^\n]*fused=True"),
    _since("fused=True of an optimizer", (2, 0), pattern=r"Adam\w*\([^)\n]*\)?[^\n]*fused=True"),
    _since("foreach=True of an optimizer", (1, 12), pattern=r"foreach=True"),
    _since("expandable_segments", (2, 1), pattern="expandable_segments"),
    _since("torch._dynamo.mark_dynamic", (2, 1)),
    _since("async_save of torch.distributed.checkpoint", (2, 3), pattern="async_save"),
    _since("use_reentrant", (1, 11), pattern="use_reentrant"),
    _since("forward_sync_buffers", (2, 13), "broadcast_buffers", pattern="forward_sync_buffers"),
    _since("torchvision.transforms.v2", (2, 0), pattern=r"\bv2\.|transforms import v2"),
)
# The least Python of releases from the first on.
_PYTHON = (((2, 9), 10), ((2, 5), 9), ((2, 0), 8), ((1, 11), 7))


def spelled(release: Release) -> str:
    """Return a release as users write it."""
    return f"{release[0]}.{release[1]}"


def needed(fix: Fix) -> list[tuple[str, Release, str]]:
    """List the names in the code of a fix that the program need not have had before, with release and former name."""
    names = [
        since for since in _NAMES if re.search(since.pattern, fix.after) and not re.search(since.pattern, fix.before)
    ]
    return [(since.name, since.release, since.before) for since in names]


def noted(fix: Fix, figures: Mapping[str, Any]) -> Fix:
    """Say from which torch on a fix is possible, where the recording (a row of `trace`) is of an older one.

    In the caveat; and in the title, where what the fix writes had no other name before.
    """
    newest, python = figures.get("torch_at_most"), figures.get("python_minor")
    if newest is None:
        return fix
    most = (int(newest) // 100, int(newest) % 100)
    late = [entry for entry in needed(fix.filled(figures)) if entry[1] > most]
    if not late:
        return fix
    parts = [
        f"{name} needs torch {spelled(release)}" + (f" (before that {before})" if before else "")
        for name, release, before in late
    ]
    known = figures.get("torch")
    recorded = f"with torch {known}" if known else f"with torch {spelled(most)} or older"
    text = f"{', '.join(parts)}; this was recorded {recorded}."
    highest = max(release for _, release, before in late if not before) if any(not e[2] for e in late) else None
    least = next((minor for release, minor in _PYTHON if highest is not None and highest >= release), None)
    if highest is not None and python is not None and least is not None and python < least:
        text += f" torch {spelled(highest)} needs Python 3.{least}; this ran under 3.{python}."
    title = f"{fix.title} (torch {spelled(highest)} or later)" if highest is not None else fix.title
    return msgspec.structs.replace(fix, title=title, caveat=f"{text} {fix.caveat}".strip())
