"""Torch functions between the calls of a group, shown to :class:`Origins` by a mode of torch's.

The mode is on between calls only: with one, some modules compute in another way. It lies below all modes that the program enters,
so that each of those takes itself away as it is left.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from contextlib import suppress
from typing import Any

from advisor.record.origins import Origins

_MOST_FUNCTIONS = 50_000
_STACK = ("_push_on_torch_function_stack", "_pop_torch_function_stack", "_len_torch_function_stack")


class Between:
    """Shows functions to the origins that :meth:`on` was given, until :meth:`off`; :meth:`end` puts everything back."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._mode: Any = None
        self._shown: Origins | None = None
        self._functions = 0
        self._ended = not all(hasattr(torch._C, name) for name in _STACK)
        self._thread, self._pid = threading.get_ident(), os.getpid()
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def on(self, origins: Origins) -> None:
        """Show what runs from here on, unless it is compiled, traced or transformed."""
        if self._ended or not self._listens() or self._is_transformed():
            origins.forget()
            return
        if self._mode is None:
            self._mode = _mode(self._torch, self._see)
            self._replace()
        self._shown = origins
        if not self._take():
            self._put()

    def off(self) -> None:
        """Show nothing more, and take the mode away."""
        self._shown = None
        if self._mode is not None and self._listens():
            self._take(keep=False)

    def end(self) -> None:
        """Put back what was replaced, for good."""
        self._ended = True
        self.off()
        for owner, name, original, replacement in self._replaced:
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._replaced = []

    def _listens(self) -> bool:
        return threading.get_ident() == self._thread and os.getpid() == self._pid

    def _is_transformed(self) -> bool:
        torch = self._torch
        tracing = getattr(torch._C, "_get_tracing_state", lambda: None)() is not None
        functorch = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", lambda: None)() is not None
        modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)()
        others = any(not getattr(torch._C._get_dispatch_stack_at(at), "advisor", False) for at in range(modes))
        return bool(tracing or functorch or others or (hasattr(torch, "compiler") and torch.compiler.is_compiling()))

    # ---- functions

    def _see(self, function: Any, args: Any, kwargs: Any) -> Any:
        origins = self._shown
        if origins is None or not self._listens():
            return function(*args, **kwargs)
        self._functions += 1
        if self._functions > _MOST_FUNCTIONS:
            self._ended, self._shown = True, None
            return function(*args, **kwargs)
        name = getattr(function, "__name__", "")
        given = None
        with self._torch._C.DisableTorchFunction():
            try:
                given = origins.before(name, args, kwargs)
            except Exception:  # noqa: BLE001  (a value of a kind that nobody thought of must not end the program)
                origins.forget()
        result = function(*args, **kwargs)
        if given is not None:
            with self._torch._C.DisableTorchFunction():
                try:
                    origins.after(function, name, given, args, result, sys._getframe(2))
                except Exception:  # noqa: BLE001  (as above)
                    origins.forget()
        return result

    # ---- the stack of modes

    def _put(self) -> None:
        """Put the mode below the others, but above that of ``torch.device``, which has to be the lowest."""
        above = self._popped()
        if above and type(above[-1]).__name__ == "DeviceContext":
            self._torch._C._push_on_torch_function_stack(above.pop())
        self._torch._C._push_on_torch_function_stack(self._mode)
        self._push(above)

    def _take(self, *, keep: bool = True) -> bool:
        """Tell whether the mode is on the stack; take it away unless it is to be kept."""
        modes = self._popped()
        there = any(mode is self._mode for mode in modes)
        self._push(modes if keep else [mode for mode in modes if mode is not self._mode])
        return there

    def _popped(self) -> list[Any]:
        """Take all modes off the stack; the uppermost first."""
        calls = self._torch._C
        return [calls._pop_torch_function_stack() for _ in range(calls._len_torch_function_stack())]

    def _push(self, modes: list[Any]) -> None:
        for mode in reversed(modes):
            self._torch._C._push_on_torch_function_stack(mode)

    # ---- what no mode sees

    def _replace(self) -> None:
        """Have arrays seen that become tensors, and the mode taken away before a backward pass: inside it, it could not be."""
        from_numpy, backward = self._torch.from_numpy, self._torch.Tensor.backward

        @functools.wraps(from_numpy)
        def of_numpy(*args: Any, **options: Any) -> Any:
            tensor = from_numpy(*args, **options)
            if self._shown is not None and self._listens():
                with suppress(Exception), self._torch._C.DisableTorchFunction():
                    self._shown.made(tensor)
            return tensor

        @functools.wraps(backward)
        def back(*args: Any, **options: Any) -> Any:
            if self._shown is not None and self._listens():
                self._shown.pending = 0
                self.off()
            return backward(*args, **options)

        for owner, name, original, replacement in (
            (self._torch, "from_numpy", from_numpy, of_numpy),
            (self._torch.Tensor, "backward", backward, back),
        ):
            setattr(owner, name, replacement)
            self._replaced.append((owner, name, original, replacement))


def _mode(torch: Any, see: Any) -> Any:
    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return see(function, args, kwargs or {})

    return Mode()
