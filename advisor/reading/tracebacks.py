"""Lines of the model's source that compilers keep of an operator, as torch writes them into args: ``stack_trace``."""

from __future__ import annotations

import re
from functools import lru_cache

from advisor.regex import regex

_FRAME = regex(
    r'^\s*File "(?P<file>[^"\n;]{1,1000})", line (?P<line>\d{1,9}), in (?P<function>[^\n;]{1,300})', re.MULTILINE
)
# A stack of Python is not deeper, and text of a trace must not cost its whole length.
_MOST = 100_000


@lru_cache(maxsize=4096)
def frames(text: str) -> str:
    """Return the frames of a traceback as call stacks have them, ``path(line): function``, innermost first; else nothing.

    Source: torch.fx nodes' ``stack_trace``, which torch.profiler._utils puts on the operators of a graph.
    """
    found = [f"{m['file']}({m['line']}): {m['function'].strip()}" for m in _FRAME.finditer(text[-_MOST:])]
    return ";".join(reversed(found))
