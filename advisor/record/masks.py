"""Masks of attention scores as a softmax gets them: the part of the scores that each rules out, rows of padding left aside.

:class:`advisor.record.constants.Constants` sees the operator that writes minus infinity, or a number as good as that, into
scores, or adds it to them. What rules out whole rows or columns is padding of a batch: of the rest alone it is told which part is
ruled out. In how many tiles of all anything is kept tells blocks from what is scattered.
"""

from __future__ import annotations

from typing import Any

from advisor.reading.program_settings import MOST_ENTRIES, Mask
from advisor.record.known import is_told

_FILLS = frozenset({"aten::masked_fill", "aten::masked_fill_"})
_SUMS = frozenset({"aten::add", "aten::add_", "aten::baddbmm"})
_SOFTMAX = frozenset({"aten::_softmax", "aten::_log_softmax", "aten::softmax", "aten::log_softmax"})
"""The latter two in inference mode."""
_OUT = -1e4
"""Scores of this size and below come to no weight."""
_LEAST_SIDE = 64
_MOST_CALLS, _MOST_MATRICES = 4, 8
"""Calls that are looked at of a line, and matrices of each: layers and samples, whose masks are alike."""
_TILE = 64
_LOOKED_AT = 4096
"""Numbers of what is added to scores, spread over all, of which one has to rule something out."""
_LEAST_SHARE = 0.6
"""Part that is ruled out, from which on a mask is told of: one of what lies ahead in a sequence rules out half."""

_Place = tuple[str, int]


class Masks:
    """Shown operators by :meth:`see`; :meth:`summary` are the masks of scores that a softmax was given."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._found: dict[tuple[int, int, _Place], list[tuple[float, float]]] = {}
        self._softmax: set[tuple[int, ...]] = set()

    def see(self, name: str, args: Any, place: _Place) -> None:
        """Note an operator that ran at *place*, outside of a backward pass. Where a GPU is used no rule asks, and nothing waits."""
        if self._torch.cuda.is_initialized():
            return
        if name in _SOFTMAX:
            self._softmax.add(tuple(args[0].shape[-2:]))
        elif name in _FILLS or name in _SUMS or name == "aten::where":
            self._look(name, args, place)

    def summary(self) -> tuple[Mask, ...]:
        """Return the masks by size and place: of several calls the least part that is ruled out."""
        found = []
        for (rows, columns, place), parts in self._found.items():
            share, kept = min(part for part, _ in parts), max(kept for _, kept in parts)
            if share >= _LEAST_SHARE and {(rows, columns), (columns, rows)} & self._softmax:
                found.append(Mask(rows, columns, round(share, 4), round(kept, 4), file=place[0], line=place[1]))
        return tuple(found)

    def _look(self, name: str, args: Any, place: _Place) -> None:
        shape = self._scores(name, args)
        if len(shape) < 2 or min(shape[-2:]) < _LEAST_SIDE:
            return
        before = self._found.get((shape[-2], shape[-1], place), [])
        if len(before) >= _MOST_CALLS or len(self._found) >= MOST_ENTRIES:
            return
        out = self._ruled_out(name, args)
        if out is None or out.dim() < 2 or tuple(out.shape[-2:]) != shape[-2:]:
            return  # one for all rows, or all columns, is padding
        self._found.setdefault((shape[-2], shape[-1], place), []).append(self._parts(out))

    def _scores(self, name: str, args: Any) -> tuple[int, ...]:
        """Return the shape of what a call makes."""
        if name == "aten::baddbmm":
            return (*args[1].shape[:-1], args[2].shape[-1])
        shapes = [tuple(each.shape) for each in args if isinstance(each, self._torch.Tensor)]
        try:
            return tuple(self._torch.broadcast_shapes(*shapes))
        except RuntimeError:
            return ()

    def _ruled_out(self, name: str, args: Any) -> Any:
        """Return a tensor of flags; None where this call rules nothing out."""
        tensor = self._torch.Tensor
        if name in _FILLS:
            return args[1].detach() if self._is_out(args[2]) and is_told(self._torch, args[1]) else None
        if name == "aten::where":
            if len(args) < 3 or not is_told(self._torch, args[0]):
                return None
            flags = args[0].detach()
            return flags.logical_not() if self._is_out(args[2]) else flags if self._is_out(args[1]) else None
        for each in args[: 1 if name == "aten::baddbmm" else 2]:
            if not isinstance(each, tensor) or not each.is_floating_point() or not is_told(self._torch, each):
                continue
            numbers = each.detach()
            stride = max(1, numbers.numel() // _LOOKED_AT)
            if numbers.dim() > 1 and bool((numbers.reshape(-1)[::stride] <= _OUT).any()):
                return numbers <= _OUT
        return None

    def _is_out(self, value: Any) -> bool:
        """Tell whether all numbers of a value come to no weight."""
        if isinstance(value, self._torch.Tensor):
            return value.is_floating_point() and is_told(self._torch, value) and bool((value.detach() <= _OUT).all())
        return isinstance(value, int | float) and value <= _OUT

    def _parts(self, out: Any) -> tuple[float, float]:
        """Return the part that is ruled out of rows and columns that are not all ruled out, and that of tiles that hold something.

        Of what is expanded, one is looked at, of others some.
        """
        for at in range(out.dim() - 2):
            if out.stride(at) == 0:
                out = out.narrow(at, 0, 1)
        out = out.reshape(-1, *out.shape[-2:])
        kept = out[:: -(-len(out) // _MOST_MATRICES)].logical_not()
        sizes = kept.any(-1).sum(-1) * kept.any(-2).sum(-1)
        inside = max(int(sizes.sum()), 1)
        tiles = self._torch.nn.functional.max_pool2d(kept[:, None].float(), _TILE, ceil_mode=True)
        return 1 - int(kept.sum()) / inside, float(tiles.mean())
