"""A mode of torch's that sees each operator: onto the stack of modes, and off it wherever it lies by then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_STACK = ("_push_on_torch_dispatch_stack", "_pop_torch_dispatch_stack", "_len_torch_dispatch_stack")


def possible(torch: Any) -> bool:
    """Tell whether this torch has such a stack."""
    return all(hasattr(torch._C, name) for name in _STACK)


def stacked(torch: Any) -> bool:
    """Tell whether modes are on the stack: where none is ours, the program has its own."""
    return bool(torch._C._len_torch_dispatch_stack())


def put(torch: Any, see: Callable[[Any, Any, Any], Any]) -> Any:
    """Have *see* called in place of each operator of this thread, with it and what it is given; return the mode."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        advisor = True

        def __torch_dispatch__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return see(function, args, kwargs or {})

    mode = Mode()
    torch._C._push_on_torch_dispatch_stack(mode)
    return mode


def take(torch: Any, mode: Any) -> None:
    """Take a mode off the stack, and leave those that the program put onto it since."""
    calls = torch._C
    modes = [calls._pop_torch_dispatch_stack(None) for _ in range(calls._len_torch_dispatch_stack())]
    for each in reversed(modes):
        if each is not mode:
            calls._push_on_torch_dispatch_stack(each)
