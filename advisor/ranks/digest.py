"""Digest of one rank: its collectives, what it did before each, its steps and its headline figures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from msgspec import Struct

from advisor.frames.peers import peers
from advisor.intervals import Bools, Ints, distinct, fetch, summed
from advisor.ranks import host
from advisor.ranks.standing import standing
from advisor.regex import regex
from advisor.timeline.calls import PHASES
from advisor.timeline.ledger import CAUSES

if TYPE_CHECKING:
    from advisor.trace import Trace

# Point-to-point work joins two ranks, not a group: its order says nothing of the others.
_PAIRS = ("send", "recv")
_PLACE = ("step", "device", "stream", "thread", "op", "module", "file", "line", "function", "library")
_MESSAGE = ("kind", "bytes", "group_name", "group_ranks", "group_size", "seq", "across_stages")
COLLECTIVE = (*_PLACE, "start_ns", "dur_ns", "cost_ns", *_MESSAGE)
"""Columns of ``Digest.collectives``."""
WORK = ("name", "op", "shapes", "count", "dur_ns")
"""Columns of ``Digest.work``."""
MESSAGE = ("kernel", "dur_ns", "cost_ns", "peer", "sends", "bytes", "step", "run", "group", "staged")
"""Columns of ``Digest.messages``."""
# DeepEP's, FlashInfer's and TensorRT-LLM's exchanges of tokens: deep_ep::intranode::combine, moeA2ACombineKernel.
_TOKENS = regex(r"deep_?ep|dispatch|combine|moe", re.IGNORECASE)
MOST_WORK = 200
_MOST_TEXT = 300
_RANK = regex(r"rank[-_ ]?(\d{1,9})", re.IGNORECASE)
# A number of its own before the suffix: trace.3.json. What has more digits is a time.
_NUMBER = regex(r"\.(\d{1,6})(?:\.pt)?(?:\.trace)?\.json(?:\.gz)?$", re.IGNORECASE)


class Digest(Struct, frozen=True):
    """One rank. Times in ``collectives`` and ``window`` are ns since its first event, at ``zero_ns`` on its own clock.

    ``whole_ms`` is what shares of the counted time are taken of: the median step, the mean where steps differ, or the window.
    ``collectives`` is in order of start; ``before`` holds, for each of them, the ns of each cause since the collective
    before it on the same stream (since the window's start for the first). ``work`` holds the kernels that weigh most, by
    kernel, operator and shapes; ``work_count`` and ``work_ns`` speak of all kernels, those that are not listed included.
    ``machine`` stands for the host where the file's name tells it, ``device`` is the busiest of ``devices``. When its launching
    threads stand still or wait, ``still`` and ``waiting`` say, with ``stopped_ns`` and ``idle_ns`` as ``Standing`` has them.
    ``messages`` holds what it sends to and receives from single ranks, in the order of its calls: the kernel by a number, what that
    lasts and costs in counted steps (once, beside its first message), the other rank, the numbers of the step and of the stretch
    between computation, the group by a number, and whether stages of a pipeline pass it as far as this rank shows. ``passes_ns``
    is what it computes in counted steps outside of the optimizer. ``products`` holds for each collective the ns of ``before`` in
    which matrix products run, ``tokens`` 1 where the kernel's name is that of a library which exchanges tokens of experts.
    ``host`` is of ranks on the CPU alone.
    Raises ``ValueError`` where its parts do not fit together: it may come from another process.
    """

    path: str
    rank: int | None
    world_size: int | None
    zero_ns: int
    window: tuple[int, int]
    step_ms: float | None
    whole_ms: float
    step_count: int
    step_numbers: Ints
    counted_ns: int
    causes: dict[str, int]
    facts: dict[str, str | int | float | bool | None]
    features: frozenset[str]
    collectives: pd.DataFrame
    before: Ints
    work: pd.DataFrame
    work_count: int
    work_ns: int
    machine: str
    device: int
    devices: int
    still: Ints
    waiting: Ints
    stopped_ns: int
    idle_ns: int
    messages: pd.DataFrame
    passes_ns: int
    products: Ints
    tokens: Ints
    host: host.HostWork

    def __post_init__(self) -> None:
        if (
            list(self.collectives) != list(COLLECTIVE)
            or list(self.work) != list(WORK)
            or list(self.messages) != list(MESSAGE)
            or self.before.shape != (len(self.collectives), len(CAUSES))
            or not self.products.shape == self.tokens.shape == self.before.shape[:1]
            or not self.host.fits
            or self.step_numbers.ndim != 1
            or {self.still.shape[1:], self.waiting.shape[1:]} != {(2,)}
            or {
                array.dtype.kind
                for array in (self.before, self.step_numbers, self.still, self.waiting, self.products, self.tokens)
            }
            != {"i"}
            or set(self.causes) != set(CAUSES)
        ):
            raise ValueError("the parts of the digest do not fit together")

    @property
    def without_rows(self) -> tuple[str, ...]:
        """Names of what has no row, as of most ranks: alike in all of them."""
        of = self.host
        rows = [len(part) for part in (of.begun, of.left, of.waits, of.steps)] + [len(of.operators), len(of.operands)]
        host = () if any(rows) else ("host",)
        return host if len(self.messages) else (*host, "messages")

    @property
    def on_cpu(self) -> bool:
        """True of a rank on the CPU alone that exchanges something."""
        return len(self.host.begun) > 0


def digest(trace: Trace) -> Digest:
    """Digest one trace. Of several devices, the busiest speaks for the rank."""
    ledger = trace.ledger
    on_cpu = trace.context.cpu_program
    frame = host.collectives(trace) if on_cpu else _on_device(trace)
    order = np.argsort(frame["start_ns"].to_numpy(), kind="stable")
    collectives = frame[list(COLLECTIVE)].iloc[order].reset_index(drop=True)
    names = frame["name"].iloc[order]
    tokens = np.array([_TOKENS.search(name) is not None for name in names.cat.categories] + [False], np.int64)
    before, products = _before(trace, collectives)
    steps = trace.frame("steps")
    work, work_count, work_ns = _work(trace)
    stands = standing(trace.context, trace.window)
    return Digest(
        path=trace.path.encode("utf-8", "replace").decode("utf-8"),
        rank=rank_of(trace),
        world_size=trace.metadata.world_size,
        zero_ns=trace.zero_ns,
        window=trace.window,
        step_ms=trace.step_ms,
        whole_ms=trace.whole_ms,
        step_count=trace.step_count,
        step_numbers=steps["number"].to_numpy().astype(np.int64),
        counted_ns=ledger.counted_ns,
        causes=ledger.by_cause(),
        facts=dict(trace.facts),
        features=trace.features,
        collectives=collectives,
        before=before,
        work=work,
        work_count=work_count,
        work_ns=work_ns,
        machine=trace.machine,
        device=trace.device,
        devices=len(trace.metadata.devices),
        still=stands.still,
        waiting=stands.waiting,
        stopped_ns=stands.stopped_ns,
        idle_ns=stands.idle_ns,
        messages=_messages(trace),
        passes_ns=_passes_ns(trace),
        products=products,
        tokens=tokens[names.cat.codes.to_numpy(np.int64)],
        host=host.host_work(trace, collectives) if on_cpu else host.nothing(),
    )


def _on_device(trace: Trace) -> pd.DataFrame:
    """The collectives on the rank's device."""
    frame = trace.frame("collectives")
    chosen: pd.DataFrame = frame.loc[
        (frame["device"].to_numpy() == trace.device) & ~frame["kind"].isin(_PAIRS).to_numpy()
    ]
    return chosen


def _messages(trace: Trace) -> pd.DataFrame:
    """Messages to and from single ranks."""
    context = trace.context
    found, work, ledger = context.once(peers), context.recording.work, trace.ledger
    here = np.flatnonzero((found.work >= 0) & (found.rank >= 0))
    here = here[work.device[found.work[here]] == trace.device]
    rows = found.work[here]
    owns = ledger.counted & ledger.through("communication") & (ledger.row >= 0)
    owns &= not context.cpu_program  # rows of the ledger are operators there
    cost = summed(ledger.row[owns], ledger.dur_ns[owns], len(work))[rows]
    # A kernel of several messages costs once.
    again = np.ones(len(rows), np.bool_)
    again[np.unique(rows, return_index=True)[1]] = False
    numbers, steps = trace.frame("steps")["number"].to_numpy().astype(np.int64), found.step[here]
    inside = (steps >= 0) & (steps < len(numbers))
    columns = {
        "kernel": rows.astype(np.int64),
        "dur_ns": (work.end - work.start)[rows],
        "cost_ns": np.where(again, 0, cost),
        "peer": found.rank[here],
        "sends": found.sends[here],
        "bytes": found.sent[here],
        "step": np.where(inside, fetch(numbers, np.where(inside, steps, -1)), -1),
        "run": found.run[here],
        "group": found.group[here],
        "staged": found.staged[here],
    }
    return pd.DataFrame(columns)


def _passes_ns(trace: Trace) -> int:
    """Time that the device computes in counted steps, but for the optimizer; 0 without a device."""
    ledger, work = trace.ledger, trace.context.recording.work
    if trace.context.device < 0 or trace.context.cpu_program:
        return 0  # rows of the ledger are operators there
    owns = np.flatnonzero(ledger.counted & ledger.through("compute") & (ledger.row >= 0))
    phase = trace.context.phases(work.launch[ledger.row[owns]])
    passes = ~np.isin(phase, [PHASES.index(name) for name in ("optimizer", "zero_grad")])
    return int(ledger.dur_ns[owns[passes]].sum())


def _work(trace: Trace) -> tuple[pd.DataFrame, int, int]:
    """Sum up the kernels of the device inside the steps (in the window, without steps): a row for each kernel, operator and
    shapes, those that took longest; and how many kernels, and ns, there are in all."""
    frame = trace.frame("kernels", ("device", "class", "step", "name", "op", "shapes", "dur_ns"))
    on_device = (frame["device"].to_numpy() == trace.device) & ~(frame["class"] == "communication").to_numpy()
    inside = on_device & ((frame["step"].to_numpy() >= 0) | (trace.step_count == 0))
    chosen = frame.loc[inside, ["name", "op", "shapes", "dur_ns"]]
    parts = [chosen[name].cat.codes.to_numpy(np.int64) for name in ("name", "op", "shapes")]
    table = pd.DataFrame({"name": parts[0], "op": parts[1], "shapes": parts[2], "dur_ns": chosen["dur_ns"].to_numpy()})
    sums = table.groupby(["name", "op", "shapes"])["dur_ns"].agg(["size", "sum"]).reset_index()
    order = np.lexsort((sums["shapes"], sums["op"], sums["name"], -sums["sum"]))[:MOST_WORK]
    heaviest = sums.iloc[order]
    out: dict[str, Any] = {
        name: _texts(chosen[name], heaviest[name].to_numpy(np.int64)) for name in ("name", "op", "shapes")
    }
    out |= {"count": heaviest["size"].to_numpy(np.int64), "dur_ns": heaviest["sum"].to_numpy(np.int64)}
    return pd.DataFrame(out), len(chosen), int(chosen["dur_ns"].sum())


def _texts(column: pd.Series[str], codes: Ints) -> pd.Categorical:
    """The texts that *codes* stand for, none longer than what tells kernels apart."""
    texts = column.cat.categories.astype(object).to_numpy()
    return pd.Categorical([str(texts[code])[:_MOST_TEXT] if code >= 0 else None for code in codes.tolist()])


def rank_of(trace: Trace) -> int | None:
    """The rank: as the trace says, else as the name of the file or of its folder says; None where none does."""
    if trace.metadata.rank is not None:
        return trace.metadata.rank
    *folders, name = re.split(r"[\\/]", trace.path)
    numbers = _RANK.findall(name) or _NUMBER.findall(name) or _RANK.findall("".join(folders[-1:]))
    return int(numbers[-1]) if numbers else None


def _before(trace: Trace, collectives: pd.DataFrame) -> tuple[Ints, Ints]:
    """ns of each cause, and of matrix products, from the end of the previous collective on the stream to the start of each."""
    ledger = trace.ledger
    start = collectives["start_ns"].to_numpy()
    end = start + collectives["dur_ns"].to_numpy()
    since = np.full(len(start), trace.window[0], np.int64)
    streams = collectives["stream"].to_numpy()
    for stream in distinct(streams).tolist():
        rows = np.flatnonzero(streams == stream)
        since[rows[1:]] = end[rows[:-1]]
    since = np.minimum(since, start)
    out = np.zeros((len(start), len(CAUSES)), np.int64)
    if not len(ledger.start_ns) or not len(start):
        return out, np.zeros(len(start), np.int64)
    edges = np.append(ledger.start_ns, ledger.end_ns[-1])

    def between(chosen: Bools) -> Ints:
        """ns of the segments *chosen* in each stretch."""
        reached = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(chosen, ledger.dur_ns, 0))])
        ns: Ints = np.rint(np.interp(start, edges, reached) - np.interp(since, edges, reached)).astype(np.int64)
        return ns

    for code in range(len(CAUSES)):
        out[:, code] = between(ledger.cause == code)
    if trace.context.cpu_program:  # rows of the ledger are operators there
        return out, np.zeros(len(start), np.int64)
    product = np.zeros(len(trace.context.recording.work) + 1, np.bool_)  # the last place is for no work
    product[trace.context.kernel_rows] = (trace.frame("kernels", ("class",))["class"] == "gemm").to_numpy()
    return out, between(ledger.through("compute") & product[ledger.row])
