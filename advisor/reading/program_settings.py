"""Settings of the recorded program, which advice needs and no profiler writes.

``advisor record`` writes them under the key :data:`KEY` of the trace's root, and :mod:`advisor.reading.recorded_settings` reads
them. Places are ``file`` and ``line`` of the user's own call, with home directories cut off.
"""

from __future__ import annotations

from msgspec import Struct

KEY = "advisor"
VERSION = 1
OPTIMIZER_STEPS = "optimizer"
"""``steps_by`` of steps that end with an optimizer's."""
PLAIN_STEPS = "loops"
"""``steps_by`` of turns of a loop in which no module is called, no optimizer steps and no loader is asked."""
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


class Chain(Struct, frozen=True, omit_defaults=True):
    """A line that a step calls *turns* times, with *calls* operators in all.

    ``deeper`` is the part of the turns that more operators lead to, one behind the other, than to any turn before: along a
    recurrence nearly all, in a loop whose turns do not need each other nearly none.
    """

    turns: int
    deeper: float
    calls: int
    file: str = ""
    line: int = 0


class Carried(Struct, frozen=True, omit_defaults=True):
    """A tensor of so many elements, of so many *bytes* each, that was there before a step, was read by it and is gone behind it."""

    elements: int
    bytes: int


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
    ``zeros``, ``chains`` and ``again`` are of one step, ``constants`` of two, ``unchanged`` of three, ``carried`` of each, None
    where none was watched; ``rows_compared`` tells whether rows within calls were looked at, on a GPU too. Lists are empty where
    there was nothing of the kind.
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
    chains: tuple[Chain, ...] | None = None
    carried: tuple[Carried, ...] | None = None
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


def reach_between(steps: int, burst: int | None) -> bool:
    """Tell whether so many recorded *steps* of an optimizer reach from one of its bursts to the next.

    *burst* is how many steps one has, None where that differs.
    """
    return steps >= (_MANY_STEPS if burst is None else burst)
