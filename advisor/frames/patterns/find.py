"""All patterns of a recording: what the finders found, with the GPU work and the idle time that is theirs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from advisor.frames.patterns.adapters import unmerged_adapters
from advisor.frames.patterns.attention import attention
from advisor.frames.patterns.attention_copies import attention_copies
from advisor.frames.patterns.buffer_sync import buffer_syncs
from advisor.frames.patterns.cast_weights import cast_weights
from advisor.frames.patterns.class_loop import class_loops
from advisor.frames.patterns.compiled import copied_in_compiled_code
from advisor.frames.patterns.constant_matrix import constant_products
from advisor.frames.patterns.convolution import biased_convolutions
from advisor.frames.patterns.copied_model import copied_models
from advisor.frames.patterns.cumulative import cumulative_loops
from advisor.frames.patterns.dense_embedding import dense_embeddings
from advisor.frames.patterns.diagonal import diagonals
from advisor.frames.patterns.enlarged import enlarged
from advisor.frames.patterns.expanded import expanded_copies
from advisor.frames.patterns.expanded_table import expanded_tables
from advisor.frames.patterns.experts import dense_experts
from advisor.frames.patterns.fft_shifts import fft_shifts
from advisor.frames.patterns.fourier_convolution import fourier_convolutions
from advisor.frames.patterns.fresh_memory import fresh_memory
from advisor.frames.patterns.full_transforms import full_transforms
from advisor.frames.patterns.gathered import gathered_layers
from advisor.frames.patterns.gathered_parts import gathered_parts
from advisor.frames.patterns.generation import copied_cache, without_cache
from advisor.frames.patterns.growing_history import growing_histories
from advisor.frames.patterns.growing_prefix import growing_prefixes
from advisor.frames.patterns.integer_products import integer_products
from advisor.frames.patterns.jacobian_passes import jacobian_passes
from advisor.frames.patterns.label_parts import parts_by_label
from advisor.frames.patterns.late_pick import doubtful_picks, late_picks
from advisor.frames.patterns.long_convolution import long_convolutions
from advisor.frames.patterns.long_grams import long_grams
from advisor.frames.patterns.loop import loops
from advisor.frames.patterns.metric_ranges import metric_ranges
from advisor.frames.patterns.one_hot import one_hot_products
from advisor.frames.patterns.one_hot_loss import one_hot_losses
from advisor.frames.patterns.ordered_pairs import ordered_pairs
from advisor.frames.patterns.pairwise import pairwise
from advisor.frames.patterns.pickled_exchange import pickled_exchanges
from advisor.frames.patterns.prefixes import uncached_prefixes
from advisor.frames.patterns.product_chains import product_chains
from advisor.frames.patterns.product_order import product_orders
from advisor.frames.patterns.quantized_again import quantized_again
from advisor.frames.patterns.rebuilt import rebuilt_tables
from advisor.frames.patterns.recompute import recompute
from advisor.frames.patterns.reducer import reducers
from advisor.frames.patterns.reordered_copies import reordered_copies
from advisor.frames.patterns.repeated_backward import repeated_backward
from advisor.frames.patterns.repeated_slicing import repeated_slices
from advisor.frames.patterns.repeats import repeated_copies, repeated_rows
from advisor.frames.patterns.sampling import sampled_on_host
from advisor.frames.patterns.separable_windows import separable_windows
from advisor.frames.patterns.separate_heads import separate_heads
from advisor.frames.patterns.separate_layers import separate_layers
from advisor.frames.patterns.separate_projections import separate_projections
from advisor.frames.patterns.shifted import shifted_buffers
from advisor.frames.patterns.shrunk_late import shrunk_late
from advisor.frames.patterns.sorts import full_sorts, quantile_sorts, rank_sorts
from advisor.frames.patterns.training_mode import training_mode
from advisor.frames.patterns.transfer import created_on_host, sent_back_and_forth
from advisor.frames.patterns.tree import NOTHING, Occurrences, Pairs, Tree, join, spread
from advisor.frames.patterns.uneven_rows import padded_rows, uneven_rows
from advisor.frames.patterns.unread_gradients import unread_gradients
from advisor.frames.patterns.unrolled import unrolled_cells
from advisor.frames.patterns.unused_gradients import unused_gradients
from advisor.frames.patterns.weight_norm import attached_norms
from advisor.frames.patterns.weight_penalty import weight_penalties
from advisor.intervals import distinct
from advisor.timeline.calls import BACKWARD
from advisor.timeline.context import Context
from advisor.timeline.launch_origin import thread_behind

_FINDERS: tuple[tuple[str, Callable[[Tree], Occurrences | None]], ...] = (
    ("attention", attention),
    ("attention-copy", attention_copies),
    ("conv-bias", biased_convolutions),
    ("recompute", recompute),
    ("label-part", parts_by_label),
    ("cpu-created", created_on_host),
    ("pingpong", sent_back_and_forth),
    ("train-mode", training_mode),
    ("dense-experts", dense_experts),
    ("copied-cache", copied_cache),
    ("reordered-copies", reordered_copies),
    ("no-cache", without_cache),
    ("host-sampling", sampled_on_host),
    ("compiled-copy", copied_in_compiled_code),
    ("unused-gradients", unused_gradients),
    ("unread-gradients", unread_gradients),
    ("dense-embedding", dense_embeddings),
    ("long-convolution", long_convolutions),
    ("full-sort", full_sorts),
    ("quantile-sort", quantile_sorts),
    ("rank-sort", rank_sorts),
    ("expanded", expanded_copies),
    ("repeated-slicing", repeated_slices),
    ("pairwise", pairwise),
    ("ordered-pairs", ordered_pairs),
    ("diagonal", diagonals),
    ("cumulative-loop", cumulative_loops),
    ("fourier-convolution", fourier_convolutions),
    ("separable-window", separable_windows),
    ("integer-product", integer_products),
    ("repeated-copy", repeated_copies),
    ("repeated-rows", repeated_rows),
    ("copied-buffer", shifted_buffers),
    ("product-order", product_orders),
    ("product-chain", product_chains),
    ("long-gram", long_grams),
    ("one-hot", one_hot_products),
    ("one-hot-loss", one_hot_losses),
    ("enlarged", enlarged),
    ("gathered", gathered_layers),
    ("gathered", gathered_parts),
    ("expanded-table", expanded_tables),
    ("shrunk-late", shrunk_late),
    ("constant-matrix", constant_products),
    ("repeated-backward", repeated_backward),
    ("jacobian", jacobian_passes),
    ("late-pick", late_picks),
    ("doubtful-pick", doubtful_picks),
    ("unrolled-cell", unrolled_cells),
    ("growing-prefix", growing_prefixes),
    ("growing-history", growing_histories),
    ("pickled-exchange", pickled_exchanges),
    ("buffer-sync", buffer_syncs),
    ("copied-model", copied_models),
    ("separate-heads", separate_heads),
    ("separate-layers", separate_layers),
    ("separate-projections", separate_projections),
    ("class-loop", class_loops),
    ("weight-norm", attached_norms),
    ("unmerged-adapter", unmerged_adapters),
    ("uneven-rows", uneven_rows),
    ("fft-shift", fft_shifts),
    ("full-transform", full_transforms),
    ("quantized-again", quantized_again),
    ("reducer", reducers),
    ("uncached-prefix", uncached_prefixes),
    ("rebuilt", rebuilt_tables),
    ("padded-rows", padded_rows),
    ("weight-penalty", weight_penalties),
    ("cast-weight", cast_weights),
    ("fresh-memory", fresh_memory),
    ("metrics", metric_ranges),
)
"""Each kind with what finds it; one may have several."""
_OF_LOOPS = ("loop", "repeat")
KINDS = frozenset([kind for kind, _ in _FINDERS]).union(_OF_LOOPS)
_COMPUTES_ON_HOST = frozenset({"pingpong", "host-sampling"})
"""Kinds whose computing on the CPU goes with their copies; what makes a tensor there is a finding of its own."""


class Patterns(Struct):
    """Occurrences of all patterns as one table: *own* and *partly* pair rows with GPU work, *idle* with segments of the ledger.

    *kinds* are the occurrences that each finder found, *ops* and, of them, *replaced* pair rows with those of `ops`,
    in a program on the CPU. *failed* are kinds of which a finder raised, each with what.
    """

    kinds: list[Occurrences]
    own: Pairs
    inside: Pairs
    idle: Pairs
    ops: Pairs
    replaced: Pairs
    partly: Pairs
    beside: Pairs
    size: int
    failed: dict[str, Exception]


def find(context: Context) -> Patterns:
    """All patterns of a recording, in the order of the finders."""
    tree = Tree(context)
    kinds, failed = _found(tree) if tree.host.size else ([], {})
    offsets = np.cumsum([0, *(len(occurrences) for occurrences in kinds)])

    def renumber(parts: list[Pairs]) -> Pairs:
        shifted = [Pairs(part.row + offset, part.index) for part, offset in zip(parts, offsets, strict=False)]
        return join(*shifted) if shifted else NOTHING

    own = renumber([occurrences.own for occurrences in kinds])
    idle = renumber([_idle(tree, occurrences) for occurrences in kinds])
    parts = ("inside", "ops", "replaced", "partly", "beside")
    inside, ops, replaced, partly, beside = (renumber([getattr(found, name) for found in kinds]) for name in parts)
    tree.close()
    return Patterns(kinds, own, inside, idle, ops, replaced, partly, beside, int(offsets[-1]), failed)


def _found(tree: Tree) -> tuple[list[Occurrences], dict[str, Exception]]:
    """Run the finders; one that raises costs its own kind, and no other."""
    found: list[Occurrences] = []
    failed: dict[str, Exception] = {}
    for kind, finder in _FINDERS:
        try:
            occurrences = finder(tree)
        except Exception as error:  # noqa: BLE001  (the verdict of the rules on its kind)
            failed[kind] = error.with_traceback(None)  # which holds the whole forest
            continue
        found += [occurrences] if occurrences is not None else []
    try:
        found += loops(tree)
    except Exception as error:  # noqa: BLE001  (as above)
        failed |= dict.fromkeys(_OF_LOOPS, error.with_traceback(None))
    return found, failed


def _idle(tree: Tree, occurrences: Occurrences) -> Pairs:
    """Segments of idle time that rows own: those that the launching host thread spends in them, and the waits for their copies."""
    context, ledger = tree.context, tree.context.ledger
    if len(occurrences.python.row):
        return occurrences.python
    if not occurrences.idle or not context.idle_trusted or context.device < 0:
        return NOTHING
    # The idle time before its last work is still its own, though the call that launched it has returned.
    end, work = occurrences.end.copy(), tree.work
    forward = occurrences.own.where(context.phases(work.launch[occurrences.own.index]) != BACKWARD)
    np.maximum.at(end, forward.row, work.start[forward.index])
    first = np.searchsorted(ledger.start_ns, occurrences.begin, side="left")
    last = np.searchsorted(ledger.end_ns, end, side="right")
    meanwhile = spread(first, last)
    busy = ledger.through("host", "operator") if occurrences.kind in _COMPUTES_ON_HOST else ledger.through("host")
    meanwhile = meanwhile.where(busy[meanwhile.index])
    # Of the thread that launches next, not of the one with most calls: a backward pass can have more than what it is of.
    segments = distinct(meanwhile.index)
    thread = np.full(len(ledger.cause), -1, np.int64)
    thread[segments] = thread_behind(context, ledger.end_ns[segments])
    meanwhile = meanwhile.where(thread[meanwhile.index] == tree.host.thread[occurrences.node][meanwhile.row])
    waits = np.flatnonzero(ledger.through("blocking_copy"))
    copy = context.waits.syncs.copy[ledger.row[waits]]
    order = np.argsort(copy, kind="stable")
    hits = spread(
        np.searchsorted(copy[order], occurrences.own.index, side="left"),
        np.searchsorted(copy[order], occurrences.own.index, side="right"),
    )
    return join(
        meanwhile, _before_backward(tree, occurrences), Pairs(occurrences.own.row[hits.row], waits[order[hits.index]])
    )


def _before_backward(tree: Tree, occurrences: Occurrences) -> Pairs:
    """Segments of the host's idle that end with work of the backward pass of a row's own operators."""
    context, work = tree.context, tree.work
    ledger, own = context.ledger, occurrences.own
    later = own.where(context.phases(work.launch[own.index]) == BACKWARD)
    segments = np.flatnonzero(ledger.through("host"))
    here = np.flatnonzero(work.device == ledger.device)
    ended = np.append(here, -1)[np.searchsorted(work.start[here], ledger.end_ns[segments], side="left")]
    order = np.argsort(ended, kind="stable")
    hits = spread(
        np.searchsorted(ended[order], later.index, side="left"),
        np.searchsorted(ended[order], later.index, side="right"),
    )
    return Pairs(later.row[hits.row], segments[order[hits.index]])
