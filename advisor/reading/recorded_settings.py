"""Lenient reader of the settings that the recorder wrote into a trace.

The file may come from anywhere: a value of another kind or of a size that no program has is left out, a list is read as far as
a real program's would go, and text is short and printable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from advisor.reading.coerce import between, flag, real, word
from advisor.reading.program_settings import (
    EVALUATED,
    INSTRUCTION_SETS,
    MOST_ENTRIES,
    MOST_STEPS,
    SAME,
    SAMPLE_KINDS,
    SAMPLES,
    VERSION,
    Again,
    Autocast,
    Carried,
    Chain,
    Compiled,
    Constant,
    Factor,
    Line,
    Loader,
    Mask,
    Optimizer,
    Prompts,
    Recorded,
    Repeat,
    Samples,
    Single,
    Unchanged,
    Uneven,
    WorkerLine,
    Zeros,
)

_MOST_PATH = 4096
_MOST_NAME = 400
_MOST_CORES = 1 << 16
_MOST_WORKERS = 4096
_MOST_MEMORY = 1 << 60
_MOST_EVENT_NS = 1e6
_MOST_COUNT = 1 << 40
_MOST_LINE = 1 << 30
_MOST_WIDTH = 16
"""Bytes of a number: two of double precision."""
_DAY_MS = 86_400_000.0

Entry = TypeVar("Entry")
Table = dict[str, Any]


def read(value: Any) -> Recorded | None:
    """Read the settings in the object that the recorder wrote; None where there is none."""
    if not isinstance(value, dict):
        return None
    return Recorded(
        version=between(value.get("version"), 1, 1 << 20) or VERSION,
        recorder=word(value.get("recorder")) or "",
        torch=word(value.get("torch")),
        cuda=word(value.get("cuda")),
        driver=word(value.get("driver")),
        cores=between(value.get("cores"), 1, _MOST_CORES),
        threads=between(value.get("threads"), 1, _MOST_CORES),
        processor=word(value.get("processor")),
        instruction_sets=_sets(value.get("instruction_sets")),
        memory_bytes=between(value.get("memory_bytes"), 1, _MOST_MEMORY),
        peak_resident_bytes=between(value.get("peak_resident_bytes"), 1, _MOST_MEMORY),
        unprofiled_growth_bytes=between(value.get("unprofiled_growth_bytes"), 0, _MOST_MEMORY),
        quantized_engine=word(value.get("quantized_engine")),
        event_ns=real(value.get("event_ns"), _MOST_EVENT_NS),
        loaders=_entries(value.get("loaders"), _loader),
        optimizers=_entries(value.get("optimizers"), _optimizer),
        autocast=_entries(value.get("autocast"), _autocast),
        compiled=_entries(value.get("compiled"), _compiled),
        repeats=_listed(value.get("repeats"), _repeat),
        singles=_listed(value.get("singles"), _single),
        rows_compared=flag(value.get("rows_compared")),
        constants=_listed(value.get("constants"), _constant),
        factors=_listed(value.get("factors"), _factor),
        masks=_listed(value.get("masks"), _mask),
        zeros=_listed(value.get("zeros"), _zeros),
        chains=_listed(value.get("chains"), _chain),
        carried=_listed(value.get("carried"), _carried),
        unchanged=_listed(value.get("unchanged"), _unchanged),
        again=_listed(value.get("again"), _again),
        tf32_matmul=flag(value.get("tf32_matmul")),
        tf32_cudnn=flag(value.get("tf32_cudnn")),
        cudnn_benchmark=flag(value.get("cudnn_benchmark")),
        deterministic=flag(value.get("deterministic")),
        steps_by=word(value.get("steps_by")),
        steps_loop=word(value.get("steps_loop"), _MOST_NAME),
        steps_skipped=between(value.get("steps_skipped"), 1, MOST_STEPS),
        steps_behind=flag(value.get("steps_behind")),
        steps_burst=between(value.get("steps_burst"), 1, MOST_STEPS),
        between_share=real(value.get("between_share"), 1.0),
        backwards_per_step=real(value.get("backwards_per_step"), 1e6),
        batch_width=between(value.get("batch_width"), 1, _MOST_COUNT),
        batch_longest=between(value.get("batch_longest"), 0, _MOST_COUNT),
        padding_share=real(value.get("padding_share"), 1.0),
        feature_width=between(value.get("feature_width"), 1, _MOST_COUNT),
        feature_longest=between(value.get("feature_longest"), 0, _MOST_COUNT),
        feature_padding=real(value.get("feature_padding"), 1.0),
        ignored_share=real(value.get("ignored_share"), 1.0),
        uneven=_entries(value.get("uneven"), _uneven),
        prompts=_prompts(entry) if isinstance(entry := value.get("prompts"), dict) else None,
        unprofiled_step_ms=_times(value.get("unprofiled_step_ms")),
        unprofiled_wait_ms=_waits(value.get("unprofiled_wait_ms")),
        waited_share=real(value.get("waited_share"), 1.0),
        others_cores=real(value.get("others_cores"), _MOST_CORES),
        own_cores=real(value.get("own_cores"), _MOST_CORES),
        workers_cores=real(value.get("workers_cores"), _MOST_CORES),
        worker_lines=_listed(value.get("worker_lines"), _worker_line),
        worker_fetch_ms=real(value.get("worker_fetch_ms"), _DAY_MS),
        worker_repeat=_worker_line(entry) if isinstance(entry := value.get("worker_repeat"), dict) else None,
        fetch_repeat=_worker_line(entry) if isinstance(entry := value.get("fetch_repeat"), dict) else None,
        step_looks=between(value.get("step_looks"), 1, _MOST_COUNT),
        step_repeat=_worker_line(entry) if isinstance(entry := value.get("step_repeat"), dict) else None,
        step_draws=_worker_line(entry) if isinstance(entry := value.get("step_draws"), dict) else None,
        samples=_samples(entry) if isinstance(entry := value.get("samples"), dict) else None,
        batch_bytes=between(value.get("batch_bytes"), 1, _MOST_MEMORY),
        stacks=word(value.get("stacks")),
    )


def _entries(value: Any, read: Callable[[Table], Entry | None]) -> tuple[Entry, ...]:
    if not isinstance(value, list):
        return ()
    entries = [read(entry) for entry in value[:MOST_ENTRIES] if isinstance(entry, dict)]
    return tuple(entry for entry in entries if entry is not None)


def _listed(value: Any, read: Callable[[Table], Entry | None]) -> tuple[Entry, ...] | None:
    """Return the entries of a list; None where there is none: what it is of was not looked at."""
    return _entries(value, read) if isinstance(value, list) else None


def _sets(value: Any) -> tuple[str, ...] | None:
    return tuple(name for name in INSTRUCTION_SETS if name in value) if isinstance(value, list) else None


def _times(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(ms for entry in value[:MOST_STEPS] if (ms := real(entry, _DAY_MS)))


def _waits(value: Any) -> tuple[float, ...]:
    """Return times of which each counts, 0 too; none where one is no time."""
    times = [real(entry, _DAY_MS) for entry in value[:MOST_STEPS]] if isinstance(value, list) else []
    known = tuple(ms for ms in times if ms is not None)
    return known if len(known) == len(times) else ()


def _loader(entry: Table) -> Loader | None:
    workers = between(entry.get("workers"), 0, _MOST_WORKERS)
    # What is left out when it is False is False; what is there and no flag says nothing of the loader.
    pinned, persistent = flag(entry.get("pin_memory", False)), flag(entry.get("persistent", False))
    if workers is None or pinned is None or persistent is None:
        return None
    return Loader(
        workers=workers,
        pin_memory=pinned,
        prefetch=between(entry.get("prefetch"), 1, _MOST_COUNT),
        persistent=persistent,
        batch_size=between(entry.get("batch_size"), 1, _MOST_COUNT),
        iterable=entry.get("iterable") is True,
        remade=entry.get("remade") is True,
        samples=between(entry.get("samples"), 0, _MOST_COUNT),
        passes=between(entry.get("passes"), 1, _MOST_COUNT),
        **_place(entry),
    )


def _optimizer(entry: Table) -> Optimizer | None:
    kind = word(entry.get("kind"), 100)
    if kind is None:
        return None
    return Optimizer(
        kind=kind,
        foreach=flag(entry.get("foreach")),
        fused=flag(entry.get("fused")),
        tensors=between(entry.get("tensors"), 0, _MOST_COUNT) or 0,
        **_place(entry),
    )


def _autocast(entry: Table) -> Autocast | None:
    device, dtype = word(entry.get("device")), word(entry.get("dtype"))
    return None if device is None or dtype is None else Autocast(device=device, dtype=dtype, **_place(entry))


def _compiled(entry: Table) -> Compiled | None:
    fullgraph = flag(entry.get("fullgraph", False))
    if fullgraph is None:
        return None
    return Compiled(
        mode=word(entry.get("mode")) or "default",
        dynamic=flag(entry.get("dynamic")),
        fullgraph=fullgraph,
        backend=word(entry.get("backend")) or "inductor",
        **_place(entry),
    )


def _repeat(entry: Table) -> Repeat | None:
    module, calls = word(entry.get("module"), 100), between(entry.get("calls"), 1, _MOST_COUNT)
    repeats, share = between(entry.get("repeats"), 1, _MOST_COUNT), real(entry.get("share"), 1.0)
    place = _place(entry)
    if module is None or calls is None or repeats is None or not share or not place:
        return None
    rows = flag(entry.get("rows")) or False
    return Repeat(module=module, calls=calls, repeats=min(repeats, calls), share=share, rows=rows, **place)


def _worker_line(entry: Table) -> WorkerLine | None:
    share, place = real(entry.get("share"), 1.0), _place(entry)
    if not share or not place:
        return None
    return WorkerLine(
        share=share,
        function=word(entry.get("function"), 100) or "",
        decodes=real(entry.get("decodes"), 1.0),
        resizes=real(entry.get("resizes"), 1.0),
        large=real(entry.get("large"), 1.0),
        **place,
    )


def _samples(entry: Table) -> Samples | None:
    count, fixed = between(entry.get("count"), 0, _MOST_COUNT), real(entry.get("fixed_share"), 1.0)
    if count is None or fixed is None:
        return None
    kind = word(entry.get("kind", "")) or ""
    return Samples(
        count=count,
        fixed_share=fixed,
        kind=kind if kind in SAMPLE_KINDS else "",
        through=word(entry.get("through", ""), 100) or "",
        line_share=real(entry.get("line_share", 0.0), 1.0) or 0.0,
        function=word(entry.get("function", ""), 100) or "",
        **_place(entry),
    )


def _single(entry: Table) -> Single | None:
    module, calls = word(entry.get("module"), 100), between(entry.get("calls"), 1, _MOST_COUNT)
    loops, share = between(entry.get("loops"), 1, _MOST_COUNT), real(entry.get("share"), 1.0)
    place = _place(entry)
    if module is None or calls is None or loops is None or not share or not place:
        return None
    return Single(module=module, calls=calls, loops=min(loops, calls), share=share, **place)


def _constant(entry: Table) -> Constant | None:
    calls, share = between(entry.get("calls"), 1, _MOST_COUNT), real(entry.get("share"), 1.0)
    place = _place(entry)
    if calls is None or not share or not place:
        return None
    return Constant(calls=calls, share=share, operator=word(entry.get("operator", ""), 100) or "", **place)


def _unchanged(entry: Table) -> Unchanged | None:
    work, calls = word(entry.get("work")), between(entry.get("calls"), 1, _MOST_COUNT)
    share, place = real(entry.get("share"), 1.0), _place(entry)
    if work not in (SAME, SAMPLES, EVALUATED) or calls is None or not share or not place:
        return None
    return Unchanged(work=work, calls=calls, share=share, **place)


def _again(entry: Table) -> Again | None:
    calls, backward = between(entry.get("calls"), 1, _MOST_COUNT), real(entry.get("backward", 0.0), 1.0)
    share, place, above = real(entry.get("share"), 1.0), _place(entry), entry.get("under", [])
    under = _entries(above, lambda each: Line(**own) if (own := _place(each)) else None)
    if not isinstance(above, list) or len(under) < len(above):
        return None  # without a line it would stand for calls that compute something else
    if calls is None or not share or backward is None or not place:
        return None
    earlier = between(entry.get("earlier", 0), 0, _MOST_LINE) or 0
    return Again(calls=calls, share=share, backward=backward, under=under, earlier=earlier, **place)


def _factor(entry: Table) -> Factor | None:
    operator, calls = word(entry.get("operator"), 100), between(entry.get("calls"), 1, _MOST_COUNT)
    size, again = between(entry.get("size"), 1, _MOST_COUNT), between(entry.get("again", 1), 1, _MOST_COUNT)
    columns, place = between(entry.get("columns", 0), 0, _MOST_COUNT), _place(entry)
    if operator is None or calls is None or size is None or again is None or columns is None or not place:
        return None
    gradient = flag(entry.get("gradient")) or False
    return Factor(operator=operator, calls=calls, size=size, again=again, columns=columns, gradient=gradient, **place)


def _mask(entry: Table) -> Mask | None:
    rows, columns = between(entry.get("rows"), 1, _MOST_COUNT), between(entry.get("columns"), 1, _MOST_COUNT)
    share, tiles, place = real(entry.get("share"), 1.0), real(entry.get("tiles", 1.0), 1.0), _place(entry)
    if rows is None or columns is None or share is None or tiles is None or not place:
        return None
    return Mask(rows=rows, columns=columns, share=share, tiles=tiles, **place)


def _zeros(entry: Table) -> Zeros | None:
    operator, calls = word(entry.get("operator"), 100), between(entry.get("calls"), 1, _MOST_COUNT)
    size, columns = between(entry.get("size"), 1, _MOST_COUNT), between(entry.get("columns"), 1, _MOST_COUNT)
    share, place = real(entry.get("share"), 1.0), _place(entry)
    if operator is None or calls is None or size is None or columns is None or share is None or not place:
        return None
    return Zeros(operator=operator, calls=calls, size=size, columns=columns, share=share, **place)


def _chain(entry: Table) -> Chain | None:
    turns, calls = between(entry.get("turns"), 1, _MOST_COUNT), between(entry.get("calls"), 1, _MOST_COUNT)
    deeper, place = real(entry.get("deeper"), 1.0), _place(entry)
    if turns is None or calls is None or deeper is None or not place:
        return None
    return Chain(turns=turns, deeper=deeper, calls=calls, **place)


def _carried(entry: Table) -> Carried | None:
    elements, size = between(entry.get("elements"), 1, _MOST_COUNT), between(entry.get("bytes"), 1, _MOST_WIDTH)
    return None if elements is None or size is None else Carried(elements, size)


def _uneven(entry: Table) -> Uneven | None:
    rows, padding, squares = (
        between(entry.get("rows"), 1, _MOST_COUNT),
        real(entry.get("padding"), 1.0),
        real(entry.get("squares"), 1.0),
    )
    told = entry.get("widths")
    widths = [between(width, 1, _MOST_COUNT) for width in told[:MOST_ENTRIES]] if isinstance(told, list) else []
    # What is left out when it is the default is that.
    time, size = between(entry.get("time", 1), 0, 2), between(entry.get("size", 0), 0, _MOST_COUNT)
    if rows is None or padding is None or squares is None or time is None or size is None:
        return None
    known = tuple(width for width in widths if width is not None)
    return Uneven(rows=rows, widths=known, padding=padding, squares=squares, time=time, size=size) if known else None


def _prompts(entry: Table) -> Prompts | None:
    entries, tokens = between(entry.get("entries"), 1, _MOST_COUNT), between(entry.get("tokens"), 0, _MOST_COUNT)
    # What is left out when it is the default is that.
    rows, calls = between(entry.get("rows", 1), 1, _MOST_COUNT), between(entry.get("calls", 2), 2, _MOST_COUNT)
    if entries is None or tokens is None or rows is None or calls is None:
        return None
    return Prompts(entries=entries, tokens=tokens, rows=rows, calls=calls)


def _place(entry: Table) -> Table:
    # Never cut: what is left of a longer path could name a home directory without looking like one.
    file, line = entry.get("file"), between(entry.get("line"), 1, _MOST_LINE)
    file = word(file, _MOST_PATH) if isinstance(file, str) and len(file) <= _MOST_PATH else None
    return {"file": file, "line": line or 0} if file else {}
