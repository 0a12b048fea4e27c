"""Settings of the recorded program, which advice needs and no profiler writes: their structs and their lenient reader.

``advisor record`` writes them under the key :data:`KEY` of the trace's root. Places are ``file`` and ``line`` of the user's
own call, with home directories cut off. The file may come from anywhere: a value of another kind or of a size that no
program has is left out, a list is read as far as a real program's would go, and text is short and printable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct

from advisor.reading.coerce import between, flag, real, word

KEY = "advisor"
VERSION = 1
OPTIMIZER_STEPS = "optimizer"
"""``steps_by`` of steps that end with an optimizer's."""
STACKS_APART = "second pass"
"""``Recorded.stacks`` where the stacks come from a pass of their own, and slowed none of the steps in the trace."""


class Loader(Struct, frozen=True, omit_defaults=True):
    """A ``DataLoader`` that was iterated while steps were recorded; ``iterable``: its dataset cannot be indexed.

    ``remade``: the program makes a loader for each pass, at this place. ``samples`` are those of its dataset, ``passes`` how often
    it was iterated until the recording's end.
    """

    workers: int
    pin_memory: bool = False
    prefetch: int | None = None
    persistent: bool = False
    batch_size: int | None = None
    iterable: bool = False
    remade: bool = False
    samples: int | None = None
    passes: int | None = None
    file: str = ""
    line: int = 0


class Optimizer(Struct, frozen=True, omit_defaults=True):
    """An optimizer that took a step. ``tensors`` is how many parameter tensors it updates; None: left to torch."""

    kind: str
    foreach: bool | None = None
    fused: bool | None = None
    tensors: int = 0
    file: str = ""
    line: int = 0


class Autocast(Struct, frozen=True, omit_defaults=True):
    """An autocast region that was entered: device type and dtype, such as ``cuda`` and ``bfloat16``."""

    device: str
    dtype: str
    file: str = ""
    line: int = 0


class Compiled(Struct, frozen=True, omit_defaults=True):
    """A call of ``torch.compile``."""

    mode: str = "default"
    dynamic: bool | None = None
    fullgraph: bool = False
    backend: str = "inductor"
    file: str = ""
    line: int = 0


class Repeat(Struct, frozen=True, omit_defaults=True):
    """A place that calls modules of the class *module*, in a step: how often, and how many of these compute again what is there.

    ``share`` is the part of the time of all calls of the place that those take. With ``rows``, the calls have rows in their
    batch that are the same as other rows of it; ``share`` is the part that these take.
    """

    module: str
    calls: int
    repeats: int
    share: float
    rows: bool = False
    file: str = ""
    line: int = 0


class WorkerLine(Struct, frozen=True, omit_defaults=True):
    """A line of the program at which a loader's workers spend the *share* of their processor time, in the function *function*,
    with its class.

    Of all their time, ``decodes`` is what reads and decodes there, ``resizes`` what makes pictures smaller, ``large`` other work on
    pictures of at least twice the pixels that are delivered; None where a recorder did not tell them apart.
    """

    share: float
    function: str = ""
    file: str = ""
    line: int = 0
    decodes: float | None = None
    resizes: float | None = None
    large: float | None = None


class Samples(Struct, frozen=True, omit_defaults=True):
    """Samples that loaders without workers fetch, *count* in a batch, by the pass with stacks.

    ``fixed_share`` is the part of the waits that makes what is the same whenever a sample comes again: what comes before
    anything random, and the reading of files. ``kind`` is "files" where each sample reads or decodes one, "table" where it picks
    a row of a pandas table, "rows" where it converts Python lists or arrays, else empty; ``through`` the call that takes most for
    it. The line takes ``line_share`` of the waits, itself or in the library that it calls.
    """

    count: int
    fixed_share: float
    kind: str = ""
    through: str = ""
    line_share: float = 0.0
    function: str = ""
    file: str = ""
    line: int = 0


class Single(Struct, frozen=True, omit_defaults=True):
    """A place that calls modules of the class *module* with one sample after another, though all are there before.

    In a step *calls* of them, which *loops* calls could do. ``share`` is the part of the time of all calls of the place that
    those take.
    """

    module: str
    calls: int
    loops: int
    share: float
    file: str = ""
    line: int = 0


class Constant(Struct, frozen=True, omit_defaults=True):
    """A line whose operators, those named *operator* or all, make in *calls* calls of a step what an earlier one made as well.

    They are given nothing but numbers of the code, and buffers of modules. ``share`` is the part of the time of these operators
    that such calls take.
    """

    calls: int
    share: float
    operator: str = ""
    file: str = ""
    line: int = 0


class Unchanged(Struct, frozen=True, omit_defaults=True):
    """A line below which a step does in *calls* operators what steps before it did: of *work* ``same`` tensors, of the same
    ``samples``, or ``evaluated`` data through parameters that change, without gradients.

    ``share`` is the part of the time of all operators below that line.
    """

    work: str
    calls: int
    share: float
    file: str = ""
    line: int = 0


class Line(Struct, frozen=True):
    """A line of the program."""

    file: str
    line: int


class Again(Struct, frozen=True, omit_defaults=True):
    """A line below which *calls* operators of a step compute what the step has computed before.

    ``under`` are the lines that lead to it from the call in which both run, the outermost first: reached from others, it
    computes something else. ``earlier`` is the line of that call's function that had computed it, 0 where the two are no calls of
    one function. ``share`` is the part of the time of all operators there, ``backward`` that of those that a gradient flows
    through: their backward passes go with it.
    """

    calls: int
    share: float
    backward: float = 0.0
    under: tuple[Line, ...] = ()
    earlier: int = 0
    file: str = ""
    line: int = 0

    @property
    def path(self) -> tuple[tuple[str, int], ...]:
        """All lines that lead to it, and itself."""
        return (*((each.file, each.line) for each in self.under), (self.file, self.line))


class Factor(Struct, frozen=True, omit_defaults=True):
    """A line that decomposes matrices, or inverts them, by *operator* in *calls* calls of a step; of *size* rows and more.

    ``again`` is how often the step decomposes the same matrix, at this line and others. ``columns`` is how many columns an inverse
    multiplies, 0 where something else is done with it. ``gradient``: a gradient flows through it.
    """

    operator: str
    calls: int
    size: int
    again: int = 1
    columns: int = 0
    gradient: bool = False
    file: str = ""
    line: int = 0


class Mask(Struct, frozen=True, omit_defaults=True):
    """A line that rules scores of attention out, of *rows* queries times *columns* keys, in front of a softmax.

    ``share`` is the part of them that is ruled out, whole rows and columns (padding) left aside, and ``tiles`` the part of tiles of
    64 times 64 scores in which any is kept.
    """

    rows: int
    columns: int
    share: float
    tiles: float = 1.0
    file: str = ""
    line: int = 0


class Zeros(Struct, frozen=True, omit_defaults=True):
    """A line whose *calls* products by *operator* in a step have a factor of *size* numbers of which *share* is zero.

    The other factor has *columns* for each of its rows. Of several calls it is the largest size, and the least share.
    """

    operator: str
    calls: int
    size: int
    columns: int
    share: float
    file: str = ""
    line: int = 0


class Uneven(Struct, frozen=True, omit_defaults=True):
    """Rows of differing length in the first batches, padded at one end: *widths* are the batches', *rows* how many are in one.

    ``padding`` is the share of all places of the batches that is padding, ``squares`` the same of places times places, which
    attention works on. ``time`` is the dimension of the batch that is padded, and ``size`` how many numbers each place holds, 0
    for words.
    """

    rows: int
    widths: tuple[int, ...]
    padding: float
    squares: float
    time: int = 1
    size: int = 0


class Prompts(Struct, frozen=True, omit_defaults=True):
    """Rows that an embedding of *entries* tokens was given in *calls* calls of differing text: all begin with the same *tokens*.

    *rows* is how many the largest of these calls had. Padding in front of the rows is left out.
    """

    entries: int
    tokens: int
    rows: int = 1
    calls: int = 2


class Recorded(Struct, frozen=True, omit_defaults=True):
    """The settings of one recording. ``None`` where the recorder could not tell.

    ``cores`` are those that the process may use (by affinity and quota, not the machine's), ``threads`` what
    ``torch.get_num_threads()`` says in the training process. ``instruction_sets`` are those of :data:`INSTRUCTION_SETS` that
    the processor has, and ``event_ns`` is what the profiler took there for each operator that it recorded.
    ``peak_resident_bytes`` is the most memory that the process held until the recording's end, of ``memory_bytes``, the
    machine's or what its control group allows; ``unprofiled_growth_bytes`` is by how much what it held grew in a step before the
    profiler began, None where it uses a GPU. ``unprofiled_wait_ms`` is what of each of ``unprofiled_step_ms`` the main thread
    waited for batches. Of the first batches ``batch_width`` is what rows of whole numbers are padded to,
    ``batch_longest`` a batch's longest without padding (their mean), ``feature_width`` and ``feature_longest`` the
    same of frames of features. ``ignored_share`` is the part of labels that a loss leaves out, as it was given them in a
    watched step, else of labels of -100 in these batches; ``uneven`` are rows that are padded, at whatever width, of words and of
    features. ``prompts`` is what rows of tokens begin with, None where no two texts were seen.
    ``waited_share`` is the part of the recorded steps in which the thread that waited most was ready to
    run and had no core, ``others_cores`` how many cores other programs took meanwhile. ``own_cores`` is how many
    the process took itself in these steps, ``workers_cores`` those that it started, and ``worker_lines`` is where a loader's
    workers spent their processor time, None where none told; ``worker_repeat`` is the function that took most of it with arguments
    that came in an earlier batch as well, at its line of the program, and ``worker_fetch_ms`` what a worker takes to put a batch
    together, in the median, with its waits for storage or for a core; ``fetch_repeat`` is such a function of samples that are
    fetched in this process, its share of all time in which batches are put together, and ``step_repeat`` one of
    the steps otherwise, of all time, at the line that calls it; ``step_draws`` is a line that draws with weights, or without
    replacement, by a function that goes over all candidates each time; ``step_looks`` is how often that was looked at, None where
    too rarely. ``samples`` is what a loader's samples take in
    this process, ``batch_bytes`` the tensors of one of the first batches. ``repeats``, ``singles``, ``factors``, ``masks``,
    ``zeros`` and ``again`` are of one step, ``constants`` of two, ``unchanged`` of three, None where none was watched;
    ``rows_compared`` tells whether rows within calls were looked at, on a GPU too. Lists are empty where there was nothing of the
    kind.
    Of ``steps_by`` *turns* ``steps_loop`` names the loop by its function and variables, ``steps_skipped`` is how many steps were
    watched to find them, and ``steps_behind`` tells that optimizers stepped before the recorded steps, and in none of them. An
    optimizer's steps may come in bursts, which *iterations* hold: ``steps_burst`` is how many steps one has, None where that
    differs, and ``between_share`` the part of the time without the profiler that lies between them, None where none are seen.
    """

    version: int = VERSION
    recorder: str = ""
    torch: str | None = None
    cuda: str | None = None
    driver: str | None = None
    cores: int | None = None
    threads: int | None = None
    processor: str | None = None
    instruction_sets: tuple[str, ...] | None = None
    memory_bytes: int | None = None
    peak_resident_bytes: int | None = None
    unprofiled_growth_bytes: int | None = None
    quantized_engine: str | None = None
    event_ns: float | None = None
    loaders: tuple[Loader, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    autocast: tuple[Autocast, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    repeats: tuple[Repeat, ...] | None = None
    singles: tuple[Single, ...] | None = None
    rows_compared: bool | None = None
    constants: tuple[Constant, ...] | None = None
    factors: tuple[Factor, ...] | None = None
    masks: tuple[Mask, ...] | None = None
    zeros: tuple[Zeros, ...] | None = None
    unchanged: tuple[Unchanged, ...] | None = None
    again: tuple[Again, ...] | None = None
    tf32_matmul: bool | None = None
    tf32_cudnn: bool | None = None
    cudnn_benchmark: bool | None = None
    deterministic: bool | None = None
    steps_by: str | None = None
    steps_loop: str | None = None
    steps_skipped: int | None = None
    steps_behind: bool | None = None
    steps_burst: int | None = None
    between_share: float | None = None
    backwards_per_step: float | None = None
    batch_width: int | None = None
    batch_longest: int | None = None
    padding_share: float | None = None
    feature_width: int | None = None
    feature_longest: int | None = None
    feature_padding: float | None = None
    ignored_share: float | None = None
    uneven: tuple[Uneven, ...] = ()
    prompts: Prompts | None = None
    unprofiled_step_ms: tuple[float, ...] = ()
    unprofiled_wait_ms: tuple[float, ...] = ()
    waited_share: float | None = None
    others_cores: float | None = None
    own_cores: float | None = None
    workers_cores: float | None = None
    worker_lines: tuple[WorkerLine, ...] | None = None
    worker_repeat: WorkerLine | None = None
    worker_fetch_ms: float | None = None
    fetch_repeat: WorkerLine | None = None
    step_looks: int | None = None
    step_repeat: WorkerLine | None = None
    step_draws: WorkerLine | None = None
    samples: Samples | None = None
    batch_bytes: int | None = None
    stacks: str | None = None


SAME, SAMPLES, EVALUATED = "same", "samples", "evaluated"
SAMPLE_KINDS = ("files", "table", "rows")
NAMES = (
    "num_workers",
    "pin_memory",
    "prefetch_factor",
    "persistent_workers",
    "batch_size",
    "foreach",
    "fused",
    "mode",
    "dynamic",
    "fullgraph",
    "torch.autocast",
    "CPU cores",
    "torch.get_num_threads()",
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cudnn.allow_tf32",
    "torch.backends.cudnn.benchmark",
    "deterministic algorithms",
    "backward passes per optimizer step",
)
"""Names of settings: their argument or attribute, as a program writes it, where there is one."""

INSTRUCTION_SETS = (
    "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_int8", "sve", "sve2", "bf16", "i8mm",
)  # fmt: skip
"""Instruction sets that decide what a number format is worth, as Linux names them; ``bf16`` and what follows are ARM's."""
BF16 = frozenset({"amx_bf16", "avx512_bf16", "bf16"})
"""Those that multiply bfloat16."""
MOST_ENTRIES = 64
MOST_STEPS = 1000
_MANY_STEPS = 10
"""Recorded steps of an optimizer from which on what lies between bursts of differing length is among them: such bursts are short,
as of updates that end early."""
_MOST_PATH = 4096
_MOST_NAME = 400
_MOST_CORES = 1 << 16
_MOST_WORKERS = 4096
_MOST_MEMORY = 1 << 60
_MOST_EVENT_NS = 1e6
_MOST_COUNT = 1 << 40
_MOST_LINE = 1 << 30
_DAY_MS = 86_400_000.0

Entry = TypeVar("Entry")
Table = dict[str, Any]


def reach_between(steps: int, burst: int | None) -> bool:
    """Tell whether so many recorded *steps* of an optimizer reach from one of its bursts to the next.

    *burst* is how many steps one has, None where that differs.
    """
    return steps >= (_MANY_STEPS if burst is None else burst)


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
        repeats=_entries(repeats, _repeat) if isinstance(repeats := value.get("repeats"), list) else None,
        singles=_entries(singles, _single) if isinstance(singles := value.get("singles"), list) else None,
        rows_compared=flag(value.get("rows_compared")),
        constants=_entries(constants, _constant) if isinstance(constants := value.get("constants"), list) else None,
        factors=_entries(factors, _factor) if isinstance(factors := value.get("factors"), list) else None,
        masks=_entries(masks, _mask) if isinstance(masks := value.get("masks"), list) else None,
        zeros=_entries(zeros, _zeros) if isinstance(zeros := value.get("zeros"), list) else None,
        unchanged=_entries(again, _unchanged) if isinstance(again := value.get("unchanged"), list) else None,
        again=_entries(again, _again) if isinstance(again := value.get("again"), list) else None,
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
        worker_lines=_entries(lines, _worker_line) if isinstance(lines := value.get("worker_lines"), list) else None,
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
