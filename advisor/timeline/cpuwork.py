"""When a thread that feeds a GPU computes on the CPU instead: operators on tensors that never left the host."""

from __future__ import annotations

import re

import numpy as np

from advisor.intervals import Ints, covered, union
from advisor.timeline.calls import OP, RUNTIME
from advisor.timeline.context import Context

# Operators that move no data: a thread that seems to be in one for long was held up, and computes nothing.
_NO_DATA = re.compile(
    r"::_?(?:empty|new_empty|view|unsafe_view|reshape|as_strided|expand|transpose|permute|movedim|t$|select|slice|narrow|unsqueeze|squeeze"
    r"|detach|alias|resize|set_|to$|contiguous|item|local_scalar_dense|is_nonzero|result_type|lift|size|stride|unsafe_split|split|chunk"
    r"|unbind|unfold|record_stream|is_pinned|pin_memory|numpy_T|data_ptr|conj|real|imag|requires_grad|flatten|broadcast_to|swap)"
)
_COMPUTES = re.compile(r"^(?:aten|torchvision|torchaudio|mkldnn|quantized)::")
_LEAST_NS = 100_000


def computing_on_cpu(context: Context, thread: int, start: Ints, end: Ints) -> Ints:
    """For each span, the ns in which *thread* was in an operator that computes on the CPU.

    Such an operator takes 100 us at least, and neither it nor anything inside it calls the GPU's runtime: a GPU operator
    costs the host 5 to 50 us, and launches.
    """
    host = context.recording.host
    here = host.thread == thread
    named = np.array([_COMPUTES.match(n) is not None and _NO_DATA.search(n) is None for n in context.names], np.bool_)
    ops = np.flatnonzero(here & (host.group == OP) & named[host.name] & (host.end - host.start >= _LEAST_NS))
    calls = np.sort(host.start[here & (host.group == RUNTIME)])
    launches = np.searchsorted(calls, host.end[ops]) > np.searchsorted(calls, host.start[ops])
    ops = ops[~launches]
    return covered(union(host.start[ops], host.end[ops]), start, end)
