"""Samples that go through a module one by one, although all are there before: calls of a batch of one that could be one call.

Calls of a module from one line, inside the same call and with inputs of the same shapes, belong together. At the second one the
memory that the program holds is copied. Where the inputs of those behind it have the same bytes as were there then, none needs what
another returns. Nor does one whose input was computed meanwhile from such, or made anew: torch's functions between the calls tell.
A module that keeps a state from call to call (a recurrent one, batch norm in training) is left out, and so is what a loader gives
one by one, or what is differentiated between the calls: gradients of each sample may be what is wanted.

Where a call needs what several before it returned, that could be one call, it begins the next round: of environments side by side,
which answer once all were asked. Of many rounds the first are compared, and the rest taken to be as small as the smallest of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from advisor.record.batches import tensors
from advisor.record.between import Between
from advisor.record.known import Known, digest, is_plain, is_told, reference, storage_key, version
from advisor.record.origins import Origins

LEAST_CALLS = 4
_LEAST_GUESSED = 5
"""Calls from which on numbers that counted up did so by more than chance."""
_MOST_ROWS = 2
_KNOWN, _DISTINCT = 0.8, 0.8
_LEAST_BYTES, _LEAST_NUMBERS = 32, 3
"""Less is a token, a flag or a time step, and no sample; of numbers with a point three are one, as an observation of a pendulum."""
_MOST_SNAPSHOTS = 8
_MOST_ROUNDS = 4
"""Groups of calls, one behind another at a place, that are compared: the rest is like them."""
_MOST_ITEMS = 64
_PROBED = 1 << 16
"""Numbers of a state that are looked at: its version tells of most that is written into it."""
_PLAIN = (bool, int, float, str, type(None))


@dataclass
class Group:
    """Calls that belong together: those after the second one, and of how many of them the input was there."""

    calls: list[Any] = field(default_factory=list)
    held: int = 0
    inputs: set[bytes] = field(default_factory=set)
    references: list[Any] = field(default_factory=list)
    known: Known | None = None
    state: Any = None
    between: Any = None
    apart: bool = False
    """True once something tells that they cannot be one call."""
    origins: Origins | None = None
    bit: int = 0
    guessed: bool = False
    taken_for: int = 0
    """Calls that it holds as groups before it did, none of which are compared any more; 0 where they are."""
    ended: bool = False
    """True once another group of such calls followed."""

    @property
    def together(self) -> bool:
        """Tell whether they could be one call."""
        count = len(self.calls)
        if self.taken_for:
            return count == self.taken_for
        enough = (
            count >= (_LEAST_GUESSED if self.guessed else LEAST_CALLS)
            and self.held >= _KNOWN * (count - 2)
            and len(self.inputs) >= _DISTINCT * (count - 1)
        )
        return enough and not self.apart

    def is_free(self, tensor: Any) -> bool:
        """Tell whether a tensor needs nothing that the calls returned: its bytes were there, or what it was computed from."""
        self.guessed = self.origins is not None and bool(self.origins.guessed & self.bit)
        given, doubt = self.origins.of([tensor]) if self.origins is not None and self.bit else (0, self.bit)
        if given & self.bit or self.known is None:
            return False
        return bool(self.bit and not doubt & self.bit) or self.known.holds(tensor)

    def part(self) -> None:
        """Watch these calls no more: they cannot be one."""
        self.apart = True
        self.close()

    def close(self) -> None:
        """Watch these calls no more: those behind them are no part of them."""
        self.known = None
        if self.origins is not None:
            self.origins.leave_out(self.bit)


class Singles:
    """Told of calls by :meth:`enter`; *between* tells what must not change between them."""

    def __init__(self, torch: Any, between: Callable[[], Any]) -> None:
        self.groups: list[Group] = []
        self.off = False
        self._torch = torch
        self._between = between
        self._of: dict[Any, Group] = {}
        self._rounds: dict[Any, list[int]] = {}
        """Of groups that came one after another at a place, how many calls each had."""
        self._snapshots = 0
        self._between_calls = Between(torch)
        self._origins: dict[int, Origins] = {}
        self._group: dict[int, Group] = {}
        self._kept: dict[int, Any] = {}
        """References to the memory of states on a GPU: no other takes its number."""
        self._unlike = itertools.count()

    def pause(self) -> None:
        """Look at no functions: a call begins."""
        self._between_calls.off()

    def leave(self, call: Any, module: Any, inputs: Any, output: Any, around: int) -> None:
        """Note the end of a call inside the call *around*, and look at the functions behind it."""
        self._between_calls.off()
        group = self._group.pop(id(call), None)
        origins = self._origins.get(around)
        if origins is None or self.off:
            return
        with self._torch._C.DisableTorchFunction():
            try:
                origins.called(module, inputs, output, group.bit if group is not None else 0)
            except Exception:  # noqa: BLE001  (a module or value of a kind that nobody thought of must not end the program)
                origins.forget()
        self.resume(around)

    def resume(self, around: int) -> None:
        """Look at functions again, if any of the calls inside the call *around* are watched."""
        origins = self._origins.get(around)
        if origins is not None and origins.pending and not self.off:
            self._between_calls.on(origins)

    def pass_backward(self) -> None:
        """Look at no functions of a backward pass: no group goes on behind it."""
        self._between_calls.off()
        for origins in self._origins.values():
            origins.forget()
            origins.pending = 0

    def end(self) -> None:
        """Look at nothing any more."""
        self.off = True
        self._between_calls.end()

    def enter(self, call: Any, module: Any, inputs: Any, frame: FrameType | None) -> None:
        """Note the begin of a call, which has ``around``, ``place`` and ``versions``, with the frame that it comes from."""
        if self.off:
            return
        given = list(tensors(self._torch, inputs))
        samples = [tensor for tensor in given if _is_sample(self._torch, tensor)]
        if not samples:
            return
        key = (id(module), call.place, call.around, self._signature(call, module, inputs, given))
        group = self._of.get(key)
        if group is None:
            group = self._new(key)
        if group.apart or group.taken_for or not group.calls:  # most calls have no second one
            self._take(key, group, call)
        elif len(group.calls) == 1:
            self._second(key, group, call, module, samples, frame)
        else:
            self._later(key, group, call, module, samples)

    def _second(
        self, key: Any, group: Group, call: Any, module: Any, samples: list[Any], frame: FrameType | None
    ) -> None:
        """Note the second call of a group: what the program holds at this moment was there before those that follow."""
        group.calls.append(call)
        if not self._may_compare(key, group):
            return
        group.known = Known(self._torch, frame, samples)
        group.state, group.between = self.state(module), self._between()
        group.origins = self._origins.setdefault(call.around, Origins(self._torch))
        group.bit = group.origins.add(group.known)
        self._watch(group, call, samples)

    def _later(self, key: Any, group: Group, call: Any, module: Any, samples: list[Any]) -> None:
        """Note a call behind the second: one of the group, or the first of the next round."""
        state, between = self.state(module), self._between()
        same = state == group.state and between == group.between
        free = same and group.known is not None and all(group.is_free(tensor) for tensor in samples)
        if not free and group.together:
            # Environments that answer once all were asked, a batch behind a batch.
            self._next(key, group).calls.append(call)
            return
        group.calls.append(call)
        if not same:
            group.part()
            return
        group.held += free
        self._watch(group, call, samples)

    def _watch(self, group: Group, call: Any, samples: list[Any]) -> None:
        self._group[id(call)] = group
        group.inputs.add(b"".join(self._identity(group, tensor) for tensor in samples))

    def _new(self, key: Any) -> Group:
        group = self._of[key] = Group()
        self.groups.append(group)
        return group

    def _next(self, key: Any, group: Group) -> Group:
        """End a group, and return the one behind it."""
        self._rounds.setdefault(key, []).append(len(group.calls))
        group.close()
        group.ended = True
        return self._new(key)

    def _may_compare(self, key: Any, group: Group) -> bool:
        """Tell whether another group may be compared; where several before it were, it is taken to be as they are."""
        rounds = self._rounds.get(key, [])
        self._snapshots += len(rounds) < _MOST_ROUNDS
        if len(rounds) < _MOST_ROUNDS and self._snapshots <= _MOST_SNAPSHOTS:
            return True
        group.taken_for = min(rounds, default=0)
        group.apart = not group.taken_for
        return False

    def _take(self, key: Any, group: Group, call: Any) -> None:
        """Take a call into a group without a look at it, or into another one as large as those before it."""
        if group.taken_for and len(group.calls) == group.taken_for:
            group.ended, size = True, group.taken_for
            group = self._new(key)
            group.taken_for = size
        group.calls.append(call)

    def by_place(self, *, ended: bool) -> dict[tuple[str, int], list[Group]]:
        """Return the groups that could be one call each, by their place; with *ended* those that another one followed."""
        at_place: dict[tuple[str, int], list[Group]] = {}
        for group in self.groups:
            if group.together and group.calls[0].place[0] and (group.ended or not ended):
                at_place.setdefault(group.calls[0].place, []).append(group)
        return at_place

    def clear(self) -> None:
        """Let go of everything."""
        self.groups, self._of, self._rounds, self._origins, self._group, self._kept = [], {}, {}, {}, {}, {}

    def _signature(self, call: Any, module: Any, inputs: Any, given: list[Any]) -> Any:
        """Return what calls have in common that can be one: shapes, settings, parameters, and tensors that are no samples."""
        shapes = tuple(
            (str(tensor.dtype), tuple(tensor.shape), None if _is_sample(self._torch, tensor) else tensor.data_ptr())
            for tensor in given
        )
        return call.versions, module.training, self._torch.is_grad_enabled(), shapes, _settings(self._torch, inputs)

    def _identity(self, group: Group, tensor: Any) -> bytes:
        """Return what tells a sample from others: its bytes, or on a GPU the place in its memory."""
        if is_plain(self._torch, tensor):
            return digest(tensor)
        group.references.append(reference(self._torch, tensor))
        place = (storage_key(tensor), tensor.storage_offset(), tensor.stride(), version(tensor))
        return repr(place).encode()

    def state(self, module: Any) -> Any:
        """Return what changes where a module keeps something from call to call."""
        return tuple(
            (name, self._mark(value))
            for part in module.modules()
            for name, value in (*vars(part).items(), *part._buffers.items())
            if name not in _OWN
            and not (isinstance(value, dict) and not value)  # of most kinds of hooks a module has none
        )

    def _mark(self, value: Any, depth: int = 0) -> Any:
        if isinstance(value, self._torch.Tensor):
            return self._mark_of(value)
        if isinstance(value, _PLAIN):
            return value
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
        if not parts and hasattr(value, "__dict__") and not isinstance(value, type | self._torch.nn.Module):
            parts = vars(value).values()
        if depth > 1:
            return id(value)
        kept = list(parts)
        return id(value), len(kept), tuple(self._mark(part, depth + 1) for part in kept[-_MOST_ITEMS:])

    def _mark_of(self, tensor: Any) -> Any:
        """Return what changes where a tensor is another, or is written into."""
        if is_plain(self._torch, tensor):
            # Another tensor may take the place of one that is gone: what it holds tells.
            return version(tensor) or 0, digest(tensor, _PROBED)
        if not is_told(self._torch, tensor):
            return version(tensor) or 0, id(tensor)
        counted = version(tensor)
        key = storage_key(tensor)
        self._kept.setdefault(key, reference(self._torch, tensor))
        return key, next(self._unlike) if counted is None else counted


_OWN = frozenset({"_parameters", "_buffers", "_modules", "_flat_weights", "_flat_weight_refs"})


def _is_sample(torch: Any, tensor: Any) -> bool:
    """Tell whether a tensor is a batch of one or two, or a vector without a batch."""
    if not is_told(torch, tensor):
        return False
    numbers = tensor.numel()
    if numbers < _LEAST_NUMBERS if tensor.is_floating_point() else numbers * tensor.element_size() < _LEAST_BYTES:
        return False
    return tensor.shape[0] <= _MOST_ROWS if tensor.dim() > 1 else bool(tensor.is_floating_point())


def _settings(torch: Any, value: Any) -> Any:
    """Return what is given beside tensors; raises TypeError for what cannot be compared."""
    if isinstance(value, torch.Tensor):
        return None
    if isinstance(value, dict):
        return tuple((str(name), _settings(torch, part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_settings(torch, part) for part in value)
    if isinstance(value, _PLAIN):
        return value
    raise TypeError
