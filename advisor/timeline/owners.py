"""Owners of idle time that is the host's: a descheduled thread, DDP's buffers, an optimizer, a processor, a Python function;
Python code between two operators, where no functions were recorded.

The ledger says that the host kept the device waiting; here it is said what held the host. Everything is told by spans on the
thread that launches: a stretch belongs to the first owner, in the order of ``OWNERS``, that takes most of it.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from advisor.intervals import EMPTY, Bools, Ints, Spans, covered, distinct, intersect, subtract, union
from advisor.regex import regex
from advisor.timeline import closures, stalls
from advisor.timeline.calls import ANNOTATION, BACKWARD, OP, PYTHON, RUNTIME
from advisor.timeline.context import Context
from advisor.timeline.marked import marks
from advisor.timeline.source import parse_frame

OWNERS = ("stall", "selection", "buffers", "optimizer", "processor", "collective", "function", "first call", "python")
STALL, SELECTION, BUFFERS, OPTIMIZER, PROCESSOR, COLLECTIVE, FUNCTION, FIRST_CALL, PYTHON_CODE = range(len(OWNERS))

# A function is looked for in what is no launch's price any more.
_LONG_NS = 1_000_000
_FIRST_TIMES = 10
_DRIVES = 10
"""Pieces of work launched in a call from which on it drives the device, and is not what keeps it waiting."""
_MOST_OF_IT = 0.9
# Optimizers whose steps torch itself groups or loops over: they take fused=True, foreach=True or capturable=True.
_OPTIMIZERS = regex(
    r"^Optimizer\.(?:step#(?:SGD|Adam|AdamW|NAdam|RAdam|Adagrad|Adadelta|Adamax|ASGD|RMSprop|Rprop)\.step|zero_grad#\w+\.zero_grad)$"
)
_OPTIMIZER_FILE = regex(r"^torch/(?:optim/|utils/_foreach_utils\.py|nn/utils/clip_grad\.py)")
# Packages whose frames are worth a closer look: most frames are of none.
_PACKAGES = frozenset(
    {
        "transformers", "diffusers", "torchvision", "torchaudio", "PIL", "numpy", "scipy", "cv2", "librosa", "skimage",
        "albumentations", "imgaug", "kornia_rs", "decord", "av", "imageio", "soundfile", "resampy", "tokenizers",
        "sentencepiece", "tiktoken", "datasets", "spacy", "nltk",
    }
)  # fmt: skip
_FORWARD = "DistributedDataParallel.forward"
_BUFFER_FRAMES = regex(
    r"torch/nn/parallel/distributed\.py\(\d+\): (?:_sync_(?:module_)?buffers|_distributed_broadcast_coalesced"
    r"|_default_broadcast_coalesced|_pre_forward_sync\w*)$"
)
_BROADCAST = regex(r"^(?:c10d::|nccl:|rccl:|gloo:|ucc:|mpi:|hccl:|xccl:)_?broadcast")
# Operators of the model itself: what is broadcast behind the first of them is the model's own.
_MODEL = regex(r"^aten::(?:conv|linear|addmm|matmul|mm$|bmm|embedding|_convolution|batch_norm|layer_norm)")
_COLLECTIVE = regex(r"^(?:gloo|mpi|ucc):")
# Files of libraries that prepare data on the CPU, by the parts that do.
_PROCESSORS = regex(
    r"^(?:"
    r"transformers/(?:[\w/]*/)?(?:image_processing|image_transforms|image_utils|video_processing|video_utils|feature_extraction"
    r"|audio_utils|processing_|tokenization)\w*\.py"
    r"|diffusers/(?:image_processor|video_processor)\.py"
    r"|torchvision/(?:transforms|io|datasets)/|torchaudio/(?:transforms|functional|compliance|sox_effects)/"
    r"|(?:PIL|numpy|scipy|cv2|librosa|skimage|albumentations|imgaug|kornia_rs|decord|av|imageio|soundfile|resampy|tokenizers"
    r"|sentencepiece|tiktoken|datasets|spacy|nltk)/"
    r")"
)
_PIPELINE_STAGE = regex(r"^transformers/pipelines/\w+\.py$")
_STAGES = ("preprocess", "_preprocess", "_parse_and_tokenize", "read_video_pyav", "read_video_decord", "ffmpeg_read")
_BUILTINS = regex(r"^<built-in .*(?:\btokenizers\.|\bcv2\b|\bnumpy\.|\bImagingCore\b|\bdecord\b|\blibrosa\b)")


class Stretches(Struct):
    """Owner of some stretches of idle: its index in ``OWNERS`` (-1: none), and the call that holds most of the stretch.

    ``holder`` is a forest node of a Python function (of an operator or call where a thread was stopped), -1 where none is known.
    """

    owner: Ints
    holder: Ints


def find(context: Context, thread: int, start: Ints, end: Ints, chosen: Bools) -> Stretches:
    """Find the owners of the *chosen* of some disjoint stretches of idle, in which *thread* was to launch work."""
    owner, holder = np.full(len(start), -1, np.int64), np.full(len(start), -1, np.int64)
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return Stretches(owner, holder)
    low, high = start[rows], end[rows]
    kind = np.full(len(rows), -1, np.int64)
    for code, spans in enumerate(_spans(context, thread)):
        kind[(kind < 0) & (2 * covered(spans, low, high) >= high - low)] = code
    node, actor = np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
    long = high - low >= _LONG_NS
    node[long], actor[long] = _holders(context, thread, low[long], high[long])
    held = node >= 0
    function = (kind < 0) & held & (actor < 0)
    # Of a loop, or of a step, that launches work before and behind the stretch, a stretch is code between two operators.
    kind[function] = np.where(_launches(context, thread, node[function]) < _DRIVES, FUNCTION, PYTHON_CODE)
    for found, nodes in ((((kind == FUNCTION) | (kind == PROCESSOR)) & held, node), ((kind < 0) & (actor >= 0), actor)):
        named = np.flatnonzero(found)
        kind[named[_first_calls(context, nodes[named])]] = FIRST_CALL
    if not (context.recording.host.group[context.recording.host.thread == thread] == PYTHON).any():
        around = neighbours(context, thread, low, high)
        kind[(kind < 0) & long & (actor < 0) & around.holds] = PYTHON_CODE
    prepared = np.flatnonzero((kind == PROCESSOR) & held)
    node[prepared] = _whole_preparation(context, node[prepared], low[prepared], high[prepared])
    owner[rows] = kind
    holder[rows] = np.where(held & (kind >= 0) & (kind != STALL), node, -1)
    return Stretches(owner, holder)


def _whole_preparation(context: Context, node: Ints, start: Ints, end: Ints) -> Ints:
    """The outermost function of a processor around each, where the function itself leaves a tenth of its stretch to others.

    A pipeline's stage reads a file in one function and resizes in the next: the stage is what holds the host.
    """
    host = context.recording.host
    flags = np.zeros(host.size, np.bool_)
    flags[context.once(telling_nodes).processor] = True
    taken = np.minimum(host.end[node], end) - np.maximum(host.start[node], start)
    climbing = taken < _MOST_OF_IT * (end - start)
    while climbing.any():
        above = np.where(climbing, host.above(node, flags), -1)
        node = np.where(above >= 0, above, node)
        climbing = above >= 0
    return node


def stopped(context: Context) -> Spans:
    """Stretches in which a thread was stopped, whether the device waited meanwhile or not."""
    found = context.once(telling_nodes).stalls
    return union(found.start, found.end)


def stopped_anywhere(context: Context) -> Spans:
    """Stretches in which a thread was stopped, and of such threads those between operators that are as far above their like."""
    host, found = context.recording.host, context.once(telling_nodes).stalls
    if not len(found.node):
        return union(found.start, found.end)
    outer = context.once(_outermost)
    threads = distinct(host.thread[found.node]).tolist()
    apart = [stalls.between(context.recording, outer[host.thread[outer] == thread]) for thread in threads]
    start, end = ([one.start for one in apart], [one.end for one in apart])
    return subtract(
        union(np.concatenate([found.start, *start]), np.concatenate([found.end, *end])), context.waits.startup.spans()
    )


def found_stalls(context: Context) -> stalls.Stalls:
    """Return those stretches, with the call of each."""
    return context.once(telling_nodes).stalls


class Neighbours(Struct):
    """Operators of Python's between which a stretch's middle lies, on one thread: forest nodes, -1 where it is inside of one.

    ``ns`` is the time of the stretch between the two, ``holds`` flags those of which it is half or more.
    """

    before: Ints
    after: Ints
    ns: Ints
    holds: Bools


def neighbours(context: Context, thread: int, start: Ints, end: Ints) -> Neighbours:
    """Find the operators that *thread* ran last before and first behind the middle of some stretches."""
    host = context.recording.host
    nobody = np.full(len(start), -1, np.int64)
    outer = context.once(_outermost)
    outer = outer[host.thread[outer] == thread]
    middle = (start + end) // 2
    at = np.searchsorted(host.start[outer], middle, side="right")
    ok = (at > 0) & (at < len(outer))
    if not ok.any():
        return Neighbours(nobody, nobody.copy(), nobody.copy(), np.zeros(len(start), np.bool_))
    before, after = outer[np.maximum(at - 1, 0)], outer[np.minimum(at, len(outer) - 1)]
    ok &= host.end[before] <= middle
    within = np.minimum(host.start[after], end) - np.maximum(host.end[before], start)
    holds = ok & (2 * within >= end - start)
    return Neighbours(np.where(ok, before, -1), np.where(ok, after, -1), np.where(ok, within, -1), holds)


def _outermost(context: Context) -> Ints:
    """Operators with no operator around them, by thread and start; what torch calls ranges are none."""
    host = context.recording.host
    real = (host.group == OP) & ~context.once(marks)[host.name]
    nodes = np.flatnonzero(real)
    return nodes[host.above(nodes, real) < 0]


def _spans(context: Context, thread: int) -> list[Spans]:
    """Time of each owner but functions, on one thread."""
    host = context.recording.host
    known = context.once(telling_nodes)

    def time(nodes: Ints) -> Spans:
        nodes = nodes[host.thread[nodes] == thread]
        return union(host.start[nodes], host.end[nodes])

    optimizer = subtract(time(known.optimizer), known.closures)
    stopped = known.stalls
    here = host.thread[stopped.node] == thread
    selection = context.waits.selection
    return [
        union(stopped.start[here], stopped.end[here]),
        union(selection.start, selection.end),
        union(*_of_thread(host.thread, known.buffer_node, known.buffer_start, known.buffer_end, thread)),
        optimizer,
        time(known.processor),
        _waits_for_collectives(context, thread, known.collective),
    ]


def _of_thread(threads: Ints, node: Ints, start: Ints, end: Ints, thread: int) -> tuple[Ints, Ints]:
    here = threads[node] == thread
    return start[here], end[here]


def _waits_for_collectives(context: Context, thread: int, nodes: Ints) -> Spans:
    """Time of collectives on the CPU in which *thread* does nothing else: no operator, no call, but the collective's own."""
    host = context.recording.host
    if not len(nodes):
        return EMPTY
    busy = np.flatnonzero((host.thread == thread) & ((host.group == OP) | (host.group == RUNTIME)))
    own = np.array(
        [name.startswith(("c10d::", "record_param_comms", "gloo:", "mpi:", "ucc:")) for name in context.names], np.bool_
    )
    busy = busy[~own[host.name[busy]]]
    collective = union(host.start[nodes], host.end[nodes])
    return subtract(collective, intersect(collective, union(host.start[busy], host.end[busy])))


class _Known(Struct):
    stalls: stalls.Stalls
    buffer_node: Ints
    buffer_start: Ints
    buffer_end: Ints
    optimizer: Ints
    closures: Spans
    processor: Ints
    collective: Ints


def telling_nodes(context: Context) -> _Known:
    """Nodes that say who owns the time in them, from one pass over the distinct names."""
    host, names = context.recording.host, context.names
    python = _codes(host.name[host.group == PYTHON], len(names))
    noted = (host.group == ANNOTATION) | (host.group == OP)
    others = _codes(host.name[noted], len(names))
    frames = [name if flag else "" for name, flag in zip(names, python, strict=True)]
    marks = [name if flag else "" for name, flag in zip(names, others, strict=True)]
    is_python = host.group == PYTHON

    def nodes(flags: list[bool], group: Bools) -> Ints:
        hit = np.array(flags, np.bool_)
        return np.flatnonzero(hit[host.name] & group) if hit.any() else np.zeros(0, np.int64)

    optimizer = np.concatenate(
        [
            nodes([_OPTIMIZERS.match(name) is not None for name in marks], noted),
            nodes([_is_optimizer(name) for name in frames], is_python),
        ]
    )
    processor = nodes([is_processor(name) for name in frames], is_python)
    buffers = nodes(["parallel" in name and _BUFFER_FRAMES.search(name) is not None for name in frames], is_python)
    start, end = host.start[buffers], host.end[buffers]
    forward, first, last = _broadcasts(context, marks, noted)
    return _Known(
        stalls=stalls.find(context.recording, context.waits),
        buffer_node=np.concatenate([buffers, forward]),
        buffer_start=np.concatenate([start, first]),
        buffer_end=np.concatenate([end, last]),
        optimizer=optimizer,
        closures=_closures(context),
        processor=processor,
        collective=nodes([_COLLECTIVE.match(name) is not None for name in marks], noted),
    )


def _closures(context: Context) -> Spans:
    """Time of forward and backward passes inside of optimizers' steps."""
    host = context.recording.host
    step = np.array([name.startswith("Optimizer.step") for name in context.names], np.bool_)
    steps = np.flatnonzero(step[host.name] & np.isin(host.group, (ANNOTATION, OP)))
    return union(host.start[steps], closures.begun(host, steps, host.attributes.phase == BACKWARD, context.names))


def _codes(used: Ints, size: int) -> Bools:
    flags = np.zeros(size, np.bool_)
    flags[used] = True
    return flags


def _is_optimizer(name: str) -> bool:
    if "torch/" not in name or not ("optim" in name or "_foreach_utils" in name or "clip_grad" in name):
        return False
    place = parse_frame(name)
    return place is not None and _OPTIMIZER_FILE.match(place.file) is not None


def is_processor(name: str) -> bool:
    """Tell whether a Python frame or built-in prepares data on the CPU, by the library that it is of."""
    if name.startswith("<built-in"):
        return _BUILTINS.match(name) is not None
    if name.rpartition("-packages/")[2].partition("/")[0] not in _PACKAGES:
        return False
    place = parse_frame(name)
    if place is None or place.user:
        return False
    if _PIPELINE_STAGE.match(place.file):
        return place.function in _STAGES
    return _PROCESSORS.match(place.file) is not None


def _broadcasts(context: Context, marks: list[str], noted: Bools) -> tuple[Ints, Ints, Ints]:
    """DDP's forwards that broadcast before the model's first operator: each one's node, and from when until when."""
    host = context.recording.host
    none = np.zeros(0, np.int64)
    forward = np.array([name == _FORWARD for name in marks], np.bool_)
    broadcast = np.array([_BROADCAST.match(name) is not None for name in marks], np.bool_)
    if not forward.any() or not broadcast.any():
        return none, none, none
    outer = np.flatnonzero(forward[host.name] & noted)
    sent = np.flatnonzero(broadcast[host.name] & noted)
    model = np.array([_MODEL.match(name) is not None for name in marks], np.bool_)
    work = np.flatnonzero(model[host.name] & (host.group == OP))
    node, end = [], []
    for at in outer.tolist():
        here = (host.start[sent] >= host.start[at]) & (host.end[sent] <= host.end[at])
        inside = sent[here & (host.thread[sent] == host.thread[at])]
        later = work[(host.thread[work] == host.thread[at]) & (host.start[work] >= host.start[at])]
        until = int(host.start[later].min()) if len(later) else int(host.end[at])
        inside = inside[host.start[inside] < until]
        if len(inside):
            node.append(at)
            end.append(int(host.end[inside].max()))
    nodes = np.array(node, np.int64)
    return nodes, host.start[nodes], np.array(end, np.int64)


# ---- functions


def _holders(context: Context, thread: int, start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The deepest Python function of which one call holds half of each stretch; and an operator or call in it that does.

    Nodes of the forest, -1 for none.

    A call that holds half of a stretch is open in its middle: so it is the innermost node there, or lies around it.
    """
    host = context.recording.host
    is_place: dict[int, bool] = {}
    node = host.innermost(thread, (start + end) // 2)
    actor = np.full(len(start), -1, np.int64)
    for _ in range(len(host.levels) + 1):
        open_ = node >= 0
        at = np.maximum(node, 0)
        holds = 2 * (np.minimum(host.end[at], end) - np.maximum(host.start[at], start)) >= end - start
        acts = (host.group[at] == OP) | (host.group[at] == RUNTIME)
        actor = np.where((actor < 0) & open_ & holds & acts, node, actor)
        calls = open_ & holds & (host.group[at] == PYTHON)
        climb = open_ & ~(calls & _placed(context, host.name[at], is_place))
        if not climb.any():
            break
        node = np.where(climb, host.parent[at], node)
    return node, actor


def _launches(context: Context, thread: int, nodes: Ints) -> Ints:
    """Count the pieces of device work that some calls on one thread launch: a graph's launch counts as all that it replays."""
    host, launch = context.recording.host, context.recording.work.launch
    calls = launch[launch >= 0]
    begun = np.sort(host.start[calls[host.thread[calls] == thread]])
    counts: Ints = np.searchsorted(begun, host.end[nodes]) - np.searchsorted(begun, host.start[nodes])
    return counts


def _first_calls(context: Context, nodes: Ints) -> Bools:
    """Flag first calls of a function or an operator that take ten times as long as the others: these set something up."""
    host = context.recording.host
    flags = np.zeros(len(nodes), np.bool_)
    for code in distinct(host.name[nodes]).tolist():
        calls = np.flatnonzero(host.name == code)
        calls = calls[np.isin(host.group[calls], (PYTHON, OP, RUNTIME))]
        dur, first = host.ns(calls), int(np.argmin(host.start[calls]))
        others = np.delete(dur, first)
        if len(others) and dur[first] >= _FIRST_TIMES * np.median(others):
            flags |= nodes == calls[first]
    return flags


def _placed(context: Context, names: Ints, known: dict[int, bool]) -> Bools:
    """Flag the names of Python frames that have a place in the source; *known* keeps what was found."""
    for code in distinct(names).tolist():
        if code not in known:
            known[code] = parse_frame(context.names[code], context.recording.host.libraries) is not None
    return np.array([known[code] for code in names.tolist()], np.bool_)
