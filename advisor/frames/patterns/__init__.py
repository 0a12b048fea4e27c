"""`patterns`: one row per occurrence of a sequence of operators that is known to cost more than it must; a finder a file."""

from __future__ import annotations

import numpy as np

from advisor.columns import Columns
from advisor.frames.frame import COUNT, TIME, Frame, Rows
from advisor.frames.patterns.dense_embedding import MILLION
from advisor.frames.patterns.find import Patterns, find
from advisor.frames.patterns.tree import Pairs, join, spread
from advisor.frames.schema import COMMON, Schema, integer, real, text
from advisor.intervals import EMPTY, Bools, Ints, Spans, distinct, fetch, union
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.ledger import BUSY, OWNED

PRODUCTS_GAIN = 0.85
"""Part of the time of its products that a fused attention returns at best: of three models 0.53 to 0.81, by their shapes."""
_LARGE = 32 << 20
"""Bytes from which the C library's allocator takes each tensor from the system anew, and gives it back."""
_ON_CPU = {False: (0.0, 0.35), True: (0.2, 0.65)}
"""The same on the CPU, surely and at best, by whether the scores are so large: fitted to some forty shapes."""

SCHEMA = Schema(
    "patterns",
    "a sequence of operators that is known to cost more than it must; two of different kinds may share work",
    (
        *COMMON,
        text("kind", "attention (computed in steps), loop (over an index), repeat (of the same operators at one line), conv-bias "
             "(before a batch norm), recompute (of forward work in backward), cpu-created (and then copied), pingpong (to the "
             "host and back), train-mode (dropout or batch norm, in inference), dense-experts (each computes all tokens), "
             "copied-cache (of keys and values, with each token), reordered-copies (of keys and values of a source, with each "
             "token of a beam search: they are equal in all beams), no-cache (of these: products whose rows grow from token to "
             "token), host-sampling (the next token is chosen on the CPU), compiled-copy (in a compiled region), "
             "unused-gradients (backward work behind the last gradient that an optimizer uses), unread-gradients (of parameters "
             "that nothing updates), dense-embedding (a gradient of "
             "all rows, of which few were read), long-convolution (computed directly), full-sort (of which few places are "
             "read), rank-sort (whose order is compared with one number a row, and read at few places), expanded (an operator "
             "on equal copies of a tensor), quantile-sort (on the CPU, inside of a quantile), repeated-slicing (each slice of a "
             "tensor has a gradient "
             "of the whole), pairwise (numbers of all pairs that are summed), ordered-pairs (comparisons of all pairs, or a "
             "triangle "
             "of ones, that are summed; on the CPU), diagonal (a matrix, in products or in a distribution; on the CPU), "
             "cumulative-loop (each turn reduces a longer part; on the CPU), fourier-convolution (with sines and cosines; on the "
             "CPU), separable-window (a convolution by one constant window in two or three dimensions at once; on the CPU), "
             "integer-product (of matrices; on the CPU), repeated-copy (of numbers that what takes them "
             "could take once), repeated-rows (that are put together for a layer), copied-buffer "
             "(to add a few rows), product-order (of matrices: two thin ones are multiplied out before a "
             "third), product-chain (a product that only another one takes, where the other order takes far fewer multiplications; "
             "on the CPU), long-gram (the Gram matrix of a tall matrix, whose powers multiply it), "
             "one-hot (a matrix of zeros with a one in each row, which is multiplied), one-hot-loss (such "
             "a matrix picks log-probabilities), enlarged (a pointwise layer over "
             "more positions than in the other order), gathered (a layer over rows that are gathered several times each), "
             "constant-matrix (a large square one, which multiplies a few columns), "
             "repeated-backward (a backward pass that runs nodes of a graph again), jacobian (by a pass for each element of the "
             "outputs), late-pick (a large tensor "
             "is computed, and a small part of it taken), doubtful-pick (the same of one that may be read later), "
             "unrolled-cell (on the CPU, recurrent, called in each turn of a loop over "
             "inputs that are known), growing-prefix (on the CPU, of a known sequence, which goes through a "
             "causal model by itself), growing-history (on the CPU, which goes through one in each turn of a loop that makes it "
             "longer), "
             "copied-model (a model that Python copies tensor by tensor, on the CPU), separate-layers (of equal shapes, called "
             "one by one), "
             "separate-heads (of one attention, which run one by one), class-loop (a tensor is "
             "compared with one number after the other, and counted or picked by each mask), "
             "weight-norm (of a weight, again in each call, in inference), unmerged-adapter (two thin products beside a layer's, "
             "in inference), uneven-rows (of a batch, padded to the longest: the operators on its places, where `advisor record` "
             "saw rows), padded-rows (the same of a batch padded to a fixed width, far beyond the longest; on a GPU), label-part "
             "(of an image, which a pipeline prepares and encodes again for each label), attention-copy (of "
             "queries, keys or values, before a fused attention), fft-shift (of an array by half of its size, beside a Fourier "
             "transform, where another order of the data spares it), full-transform (Fourier transforms of real numbers there and "
             "back, all of the spectrum, of which the real part is used), quantized-again (dequantized by one int8 operator's "
             "side and quantized for the next; on the CPU), reducer (DDP's, of one gradient), uncached-prefix (of "
             "prompts that begin with the same tokens, where `advisor record` saw them: a decoder's operators on their places), "
             "rebuilt (a mask, bias or table of positions, of nothing but numbers, as before), shrunk-late (pointwise operators on "
             "an image that is then resized or pooled to half of its positions or fewer), weight-penalty (squares, absolute values "
             "or norms of parameters that are part of the loss), metrics (a range in which they are updated or computed, beside a "
             "GPU's work), cast-weight (of a layer, from float to 16 bits, inside of it; on "
             "the CPU), separate-projections (layers of one input, one after the other, in inference on a GPU: queries, keys and "
             "values, or a gate and what it gates), fresh-memory (that the system has just given, which an operator on the CPU "
             "is the first to write; or that is given back), pickled-exchange (of Python objects of 64 kB or more among "
             "ranks on the CPU), expanded-table (of vectors that each pair looks up for a product; on the CPU), buffer-sync "
             "(which DistributedDataParallel broadcasts before a forward, on the CPU)"),
        integer("kernel_count", "", "pieces of GPU work in it: kernels, copies, memsets; with those of its backward"),
        integer("gpu_ns", "ns", "their durations, summed"),
        integer("own_count", "", "those of them that the fix would spare"),
        integer("own_ns", "ns", "the durations of those, summed"),
        integer("backward_ns", "ns", "what of own_ns runs in the backward pass"),
        integer("idle_ns", "ns", "idle time of the GPU that it owns: the host was busy with it, or waited in it; of a "
                "repeated-slicing, unrolled-cell, growing-prefix, copied-model, separate-layers, separate-heads, class-loop, "
                "cumulative-loop, "
                "weight-penalty or fft-shift on the CPU the Python that leads to its operators, of fresh-memory the time behind it "
                "in which memory is given back"),
        integer("repeats", "", "turns of a loop, of an unrolled-cell, of a growing-prefix, of a growing-history or of "
                "separate-layers; "
                "parameters of a copied-model or a weight-penalty; heads of separate-heads; different "
                "turns of a class-loop; experts of a layer; no-cache: tokens of a sequence that it computes; turns of a search "
                "with reordered-copies; gradients that "
                "nothing uses, behind the last that is used, or unread; indices that read an embedding "
                "between two steps; weights for an output of a convolution; places that "
                "are read of a full-sort; quantiles of a quantile-sort; copies of an expanded; slices "
                "of a repeated-slicing; pairwise, ordered-pairs: how often what it is made of would go into it; width of a "
                "diagonal; turns of a cumulative-loop; frames of a fourier-convolution; taps of a separable-window; "
                "multiplications of an integer-product; "
                "repeated-copy: how often each "
                "number is in it; copied-buffer: rows that are kept; one-hot, one-hot-loss: indices; rows "
                "that are gathered; columns that a constant-matrix or a product-chain multiplies; "
                "repeated-backward, jacobian: passes that run these nodes; long side of a long-gram; "
                "rows that an unmerged-adapter multiplies; rows of a batch of "
                "uneven-rows or padded-rows; parts of the image of a label-part; copies of an attention-copy; dimensions of an "
                "fft-shift; transforms of a full-transform; "
                "prompts of an uncached-prefix; times in the step that the same is rebuilt; train-mode: dropouts "
                "beside it that do nothing, as their rate is 0; layers of separate-projections; NULL for other kinds"),
        integer("length", "", "rows of reordered-copies or of a jacobian's outputs; short side of a long-gram; "
                "operators in one turn of a loop, or "
                "that ran again; experts that a token goes to; tokens "
                "put behind a cache; no-cache: sequences; gradients that the backward pass stores; rows of an embedding; values "
                "that a full-sort, a rank-sort or a quantile-sort puts in order; elements of the tensor of a repeated-slicing; "
                "pairwise: "
                "numbers of a pair that are summed; ordered-pairs: numbers that are compared; of all matrices of a diagonal; "
                "of the longest part of a cumulative-loop; of a frame of a fourier-convolution; that a "
                "separable-window is laid over; that an integer-product sums for one of its own; repeated-rows: columns that the "
                "layer takes; copied-buffer: rows "
                "that are "
                "new; inner dimension of a product-order or a product-chain; "
                "one-hot, one-hot-loss: classes; rows that are gathered from; rows of a "
                "constant-matrix; nodes of a "
                "repeated-backward that were run before; hidden state of an unrolled-cell; positions of the longest "
                "growing-prefix or growing-history; elements of a weight of "
                "separate-layers or separate-heads; rank of an unmerged-adapter; elements that a class-loop compares or an "
                "fft-shift moves or the largest full-transform takes; of what is quantized-again; "
                "of the parameters of a weight-penalty; places of each of uneven-rows or padded-rows; tokens of "
                "an uncached-prefix; elements of what is rebuilt; rows that separate-projections multiply; NULL for other kinds"),
        real("part", "share", "of what it owns, what a fix spares at most: of a dense-embedding what a sparse gradient and its "
             "step, which are counted in lookups, do not take (in the middle of the price), of a long-convolution what Fourier "
             "transforms do not take, of a full-sort, a rank-sort or a quantile-sort what a "
             "selection does not, of a repeated-slicing the time without the slices' own parts of their gradients, of "
             "repeated-rows what a layer for each part does not, of pairwise what a product does not, of ordered-pairs what a "
             "sort does not, of a diagonal what its numbers do not, of a cumulative-loop what one pass does not, of a "
             "fourier-convolution what a transform does not, of a separable-window what one pass for each dimension does not, of "
             "an integer-product what casts and a product of floats do not, of a "
             "product-order, a product-chain or an "
             "enlarged what the other order does not, of a one-hot what a lookup does not, of a "
             "one-hot-loss all but the gradient's zeros, of a gathered what the other order does not, "
             "of a late-pick or a doubtful-pick what is not taken, of "
             "an unrolled-cell what the whole layer does not, of a growing-prefix what one call on the longest does "
             "not, of a growing-history all but what operators take at one position, "
             "of a copied-model what is not copying of numbers, of separate-layers or separate-heads what a batched product "
             "does not, of a class-loop what a count or sum of each element once does not, of an expanded all copies but one, of "
             "uneven-rows what is padding, of an fft-shift what a factor in its place does not, of attention squared, of an "
             "uncached-prefix its share of the width, likewise, and of padded-rows what of it goes where widths are rounded up to "
             "a few, of a shrunk-late the positions that go, of a weight-penalty what a step does not take to add its gradient, "
             "of separate-projections what one product of all columns does not take of all but the first, "
             "of a jacobian all passes but those of one row, or what vmap does not take, of a long-gram "
             "what the short side does not take, "
             "of fresh-memory what mapping pages and giving them back is reckoned to take; NULL for other kinds"),
        real("padding", "share", "of the places of a batch of uneven-rows what is padding, of the width of padded-rows what no row "
             "reaches, on average of the first batches; NULL for other kinds", "advisor record"),
        integer("bytes", "bytes", "of what is copied, one way; of an attention's scores, on the CPU; of the largest object of a "
                "pickled-exchange; of the flat tensors of a buffer-sync; of fresh-memory what is given "
                "anew; NULL for other kinds"),
        integer("seq_len", "", "length of the rows that an attention's softmax runs over, of a cache that is copied, of prompts of "
                "an uncached-prefix; NULL where unknown"),
        integer("head_dim", "", "length of an attention's queries and keys, of separate-heads of values; NULL where unknown"),
        text("shapes", "operand shapes of the operator that tells it", "args.Input Dims"),
        text("detail", "loop, repeat, separate-layers, separate-heads, class-loop: the operators of one turn; unrolled-cell: its "
             "name; growing-prefix, growing-history: recurrent, attention or layers (of one position); "
             "copied-model: deepcopy or load_state_dict; "
             "recompute: the backward node it runs in; cpu-created: what made "
             "it; pingpong: what ran on the host between; train-mode: dropout or batch norm; "
             "host-sampling: the operators that chose; compiled-copy: the operators of the kernel, or that copied; "
             "product-order: alone, or added to another matrix; product-chain: outer products, or "
             "products; separable-window: ones (which the program makes), or constant (without a gradient); integer-product: the "
             "type; jacobian: blocks (of each row, which alone are used) or whole; weight-norm: weight norm or spectral norm; "
             "unmerged-adapter: in the layer's type, or in another type; "
             "attention, on the CPU: plain, masked, or what it is not fused with there (dropout, bias-gradient); "
             "unused-gradients: never updated (by any step) or dropped (before the step of the optimizer that they are for); "
             "pairwise: products, squared differences or absolute differences; repeated-copy: product, elements or index, which "
             "take it; copied-buffer: shifted or grown; one-hot: rows, or sums of rows; one-hot-loss: log_softmax, softmax and "
             "log, or cross_entropy, which take it; gathered: the operator that gathers, or joined: columns, of which some are "
             "gathered; enlarged: upsampled or repeated before, averaged or sliced behind; repeated-backward: summed (gradients "
             "are added up), same (gradient of one output), "
             "samples (of a batch's losses, one by one) or rows (other outputs or vectors); late-pick, doubtful-pick: the "
             "operator that takes the part; attention-copy: contiguous, or repeated heads; fft-shift: around a transform, "
             "between transforms, or before and behind a filter; rebuilt: the operators that build it; weight-penalty: "
             "squares, absolute values, norms, "
             "means (of squares or absolute values) or distances (squares of "
             "differences from other weights); separate-projections: queries, keys and values, two of "
             "these, keys and values, or gate and up"),
    ),
)  # fmt: skip


def build(context: Context) -> Columns:
    """The frame."""
    patterns = context.once(find)
    work, size, parts = context.recording.work, patterns.size, patterns.kinds
    time = work.end - work.start
    own, inside, idle = patterns.own, patterns.inside, patterns.idle
    phase = context.phases(work.launch)
    idle_ns = idle.total(context.ledger.dur_ns, size)

    def gather(values: list[Ints]) -> Ints:
        return np.concatenate(values).astype(np.int64) if values else np.zeros(0, np.int64)

    def figure(name: str) -> Ints:
        return gather([pattern.figures.get(name, np.full(len(pattern), -1)) for pattern in parts])

    kind = gather([np.full(len(pattern), number) for number, pattern in enumerate(parts)])
    details = sorted({text for pattern in parts for text in pattern.details})
    codes = {text: code for code, text in enumerate(details)}
    detail = gather(
        [np.array([codes[text] for text in pattern.details] or [-1] * len(pattern), np.int64) for pattern in parts]
    )
    # On the GPU from the first to the last piece of work that it began with; on the host where it launched none.
    start, end = gather([pattern.begin for pattern in parts]), gather([pattern.end for pattern in parts])
    forward = inside.where(phase[inside.index] != BACKWARD)
    for part in (inside, forward):
        first = np.full(size, np.iinfo(np.int64).max)
        last = np.full(size, -1, np.int64)
        np.minimum.at(first, part.row, work.start[part.index])
        np.maximum.at(last, part.row, work.end[part.index])
        start, end = np.where(last >= 0, first, start), np.where(last >= 0, last, end)
    node = gather([pattern.node for pattern in parts])
    frame = context.common(
        start=start,
        dur=np.maximum(end - start, 0),
        cost=join(own, patterns.partly).total(context.work_cost, size) + idle_ns + _on_cpu(context, patterns),
        node=node,
        device=_of_first(inside, work.device, size),
        stream=_of_first(inside, work.stream, size),
    )
    library = context.recording.host.attributes.library
    placed = gather([np.full(len(p), -1) if p.user is None else p.user for p in parts])
    user = np.where(placed >= 0, placed, fetch(context.recording.host.attributes.user, node))
    frame |= context.places(user, fetch(library, node))
    frame |= {
        "kind": context.labels(kind, [pattern.kind for pattern in parts]),
        "kernel_count": np.bincount(inside.row, minlength=size),
        "gpu_ns": inside.total(time, size),
        "own_count": np.bincount(own.row, minlength=size),
        "own_ns": own.total(time, size),
        "backward_ns": own.total(np.where(phase == BACKWARD, time, 0), size),
        "idle_ns": idle_ns,
        "repeats": context.known(figure("repeats")),
        "length": context.known(figure("length")),
        "part": np.where(figure("part") < 0, np.nan, figure("part") / MILLION),
        "padding": np.where(figure("padding") < 0, np.nan, figure("padding") / MILLION),
        "bytes": context.known(figure("bytes")),
        "seq_len": context.known(figure("seq_len")),
        "head_dim": context.known(figure("head_dim")),
        "shapes": context.labels(figure("dims"), context.shape_texts),
        "detail": context.labels(detail, details),
    }
    return Columns(frame)


def _on_cpu(context: Context, patterns: Patterns) -> Ints:
    """ns of the CPU's time that each row owns, in a program that runs there alone."""
    if not len(patterns.ops.row):
        return np.zeros(patterns.size, np.int64)
    return patterns.ops.total(context.ledger.cost(len(context.op_rows), *OWNED), patterns.size)


def _of_first(inside: Pairs, values: Ints, size: int) -> Ints:
    """A fact of the first work of each row; -1 where it has none."""
    out = np.full(size, -1, np.int64)
    out[inside.row[::-1]] = values[inside.index[::-1]]
    return out


def _claims(context: Context, mask: Bools) -> Ints:
    """The device's time in the work that a fix would spare, and the idle time of the patterns."""
    patterns = context.once(find)
    works = join(patterns.own, patterns.partly)
    busy = context.ledger.owned(distinct(works.index[mask[works.row]]), *BUSY)
    idle = distinct(np.concatenate([busy, patterns.idle.index[mask[patterns.idle.row]]]))
    ops = patterns.ops.index[mask[patterns.ops.row]]
    return distinct(np.concatenate([idle, context.ledger.owned(distinct(ops), *OWNED)])) if len(ops) else idle


def _events(context: Context, mask: Bools) -> tuple[Ints, Ints]:
    """The work that a fix would spare; of rows without any, where they run on the host."""
    patterns = context.once(find)
    own, kinds = join(patterns.own, patterns.partly), patterns.kinds
    bare = mask & (np.bincount(own.row, minlength=len(mask)) == 0)
    nodes = np.concatenate([pattern.node for pattern in kinds])[bare] if kinds else np.zeros(0, np.int64)
    return distinct(own.index[mask[own.row]]), nodes


def _inside(context: Context, mask: Bools) -> Ints:
    """All GPU work of the patterns."""
    inside = context.once(find).inside
    return distinct(inside.index[mask[inside.row]])


def _returns(context: Context, mask: Bools) -> tuple[float, float]:
    """Part of the time that the rows own which their fix is sure to spare, and which it can: of the products up to so much."""
    patterns, cost = context.once(find), context.work_cost
    if (doubtful := _doubtful(context, patterns, mask)) is not None:
        return doubtful
    if len(patterns.replaced.row):
        return _returns_on_cpu(context, patterns, mask)
    spared, replaced = (
        float(cost[distinct(part.index[mask[part.row]])].sum()) for part in (patterns.own, patterns.partly)
    )
    if not replaced:
        return 1.0, 1.0
    whole = spared + replaced
    return spared / whole, (spared + PRODUCTS_GAIN * replaced) / whole


def _doubtful(context: Context, patterns: Patterns, mask: Bools) -> tuple[float, float] | None:
    """The same of rows whose part is an estimate, as factors of that; None where none is."""
    doubt = np.concatenate([np.full(len(found), found.doubt) for found in patterns.kinds] or [np.zeros(0)])
    mask = mask & (doubt > 0)
    if not mask.any():
        return None
    parts = [found.figures.get("part", np.full(len(found), MILLION)) for found in patterns.kinds]
    part, doubt = np.concatenate(parts)[mask] / MILLION, doubt[mask]
    time = (join(patterns.own, patterns.partly).total(context.work_cost, patterns.size) + _on_cpu(context, patterns))[
        mask
    ]
    middle = float((time * part).sum())
    if not middle:
        return 1.0, 1.0
    least, most = (np.clip(part + sign * doubt * (1 - part), 0, 1) for sign in (-1, 1))
    return float((time * least).sum()) / middle, float((time * most).sum()) / middle


def _returns_on_cpu(context: Context, patterns: Patterns, mask: Bools) -> tuple[float, float]:
    """The same of a program on the CPU: what large products of attention are replaced by is faster than for small ones."""
    cost = context.ledger.cost(len(context.op_rows), *OWNED)
    whole = float(cost[distinct(patterns.ops.index[mask[patterns.ops.row]])].sum())
    sizes = [found.figures.get("bytes", np.full(len(found), -1)) for found in patterns.kinds]
    rows = np.concatenate(sizes)[patterns.replaced.row] >= _LARGE
    kept = [0.0, 0.0]
    for large, gains in _ON_CPU.items():
        chosen = mask[patterns.replaced.row] & (rows == large)
        replaced = float(cost[distinct(patterns.replaced.index[chosen])].sum())
        kept = [left + (1 - gain) * replaced for left, gain in zip(kept, gains, strict=True)]
    if not whole:
        return 1.0, 1.0
    sure, can = (max(1 - left / whole, 0.0) for left in kept)
    return sure, can


def _forward_again(context: Context, mask: Bools) -> Spans:
    """Stretches in which the host runs a forward pass again."""
    kinds = context.once(find).kinds
    chosen = np.flatnonzero(
        mask & np.repeat([part.kind == "recompute" for part in kinds], [len(part) for part in kinds])
    )
    begin, end = (np.concatenate([EMPTY.start, *times]) for times in ([p.begin for p in kinds], [p.end for p in kinds]))
    return union(begin[chosen], end[chosen])


def _behind(context: Context, mask: Bools) -> tuple[Ints, Ints]:
    """Segments in which what operators made is given back, each beside those of the operators of its row."""
    patterns = context.once(find)
    frees = np.repeat([found.freed for found in patterns.kinds], [len(found) for found in patterns.kinds])
    mask = mask & frees.astype(np.bool_)
    given, ops = (pairs.where(mask[pairs.row]) for pairs in (patterns.idle, patterns.ops))
    owned = np.flatnonzero(context.ledger.through(*OWNED))
    owned = owned[np.argsort(context.ledger.row[owned], kind="stable")]
    first, last = (np.searchsorted(context.ledger.row[owned], ops.index, side=side) for side in ("left", "right"))
    hits = spread(first, last)
    made = Pairs(ops.row[hits.row], owned[hits.index])
    low, high = (np.searchsorted(made.row, given.row, side=side) for side in ("left", "right"))
    both = spread(low, high)
    return given.index[both.row], made.index[both.index]


def _failed(context: Context) -> dict[str, Exception]:
    return context.once(find).failed


FRAME = Frame(
    SCHEMA,
    build,
    evidence=("kind", "op", COUNT, *TIME),
    rows=Rows(events=_events),
    owns=_claims,
    spares=_forward_again,
    encloses=_inside,
    returns=_returns,
    behind=_behind,
    failed=_failed,
    slow=True,
)
