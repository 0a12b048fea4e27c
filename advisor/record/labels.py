"""Labels as losses are given them: the part that each leaves out.

Labels that are made on the device, or behind the loader, are in no batch. :class:`advisor.record.constants.Constants` sees the
operator of the loss with its labels and the number that it leaves out (ignore_index).
"""

from __future__ import annotations

from typing import Any

from advisor.record.known import is_told

_LOSSES = frozenset({"aten::nll_loss_forward", "aten::nll_loss2d_forward"})
_LABELS, _IGNORED = 1, 4
"""Places of their labels, and of the number that they leave out."""
_MOST_CALLS = 1000
_LARGE = 0.5
"""Part of the most logits of a call from which on another call's count as well: small losses beside say nothing of large ones."""


class Labels:
    """Shown operators by :meth:`see`; :meth:`share` is the least part of the labels that a loss over most logits left out."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._calls: list[tuple[int, float]] = []

    def see(self, name: str, args: Any) -> None:
        """Note an operator that ran, outside of a backward pass. On a GPU the program waits for one number."""
        if name not in _LOSSES or len(args) <= _IGNORED or len(self._calls) >= _MOST_CALLS:
            return
        logits, labels, ignored = args[0], args[_LABELS], args[_IGNORED]
        if not is_told(self._torch, labels) or not labels.numel() or not isinstance(ignored, int):
            return
        if self._torch.cuda.is_initialized() and self._torch.cuda.is_current_stream_capturing():
            return
        left_out = int((labels.detach() == ignored).sum())
        self._calls.append((int(logits.numel()), left_out / int(labels.numel())))

    def share(self) -> float | None:
        """Return that part; None where no such loss was seen."""
        most = max((logits for logits, _ in self._calls), default=0)
        shares = [share for logits, share in self._calls if logits >= _LARGE * most]
        return round(min(shares), 4) if shares else None
