"""Listening to a program: torch's loaders, optimizers and the like tell what they do, as long as something is recorded.

Methods are replaced on torch's own classes and put back by :meth:`Hooks.remove`. Other processes and other threads than the
one that listens are not heard: worker processes inherit the replaced methods, and must not record.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import dataloader

from advisor.record.settings import Settings
from advisor.record.steps import CALLS, Steps

Method = Callable[..., Any]


class Hooks:
    """Replaces what has to tell *settings*, and where *steps* is given what has to tell it.

    *foreign* is called as a profiler that is not ours begins (True) and ends (False).
    """

    def __init__(
        self, settings: Settings, steps: Steps[Any] | None = None, foreign: Callable[[bool], None] | None = None
    ) -> None:
        self.recording = False  # whether loaders count as in use
        self.own = False  # whether the profiler that begins or ends is ours
        self._settings = settings
        self._steps = steps
        self._foreign = foreign
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._stepping: dict[type, Method] = {}
        self._handles: list[Any] = []
        self._calls: list[Any] = []
        self._loading = self._updating = self._calling = self._taken = 0

    def _listens(self) -> bool:
        """Whether this is the process and the thread that are recorded."""
        return threading.get_ident() == self._thread and os.getpid() == self._pid

    # ---- installing

    def install(self) -> None:
        """Begin to listen."""
        self._replace(dataloader.DataLoader, "__init__", self._loader_made)
        self._replace(dataloader._BaseDataLoaderIter, "__init__", self._iterates)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._next)
        self._replace(torch.optim.Optimizer, "__init__", self._optimizer_made)
        self._replace(torch.autocast, "__enter__", self._autocast)
        self._replace(torch.autograd, "backward", self._backward)
        self._replace(torch, "compile", self._compile)
        self._replace(torch.autograd.profiler.profile, "_prepare_trace", functools.partial(self._profiler, True))
        self._replace(torch.autograd.profiler.profile, "__exit__", functools.partial(self._profiler, False))
        self._handles.append(register_optimizer_step_post_hook(self._updated))
        if self._steps is not None:
            # A method by its class's dictionary: it is static, and the plain function is wanted.
            self._replace(torch.optim.Optimizer, "profile_hook_step", self._profile_hook, static=True)
            self._replace(torch.amp.GradScaler, "step", self._scaler)
            self._calls.append(register_module_forward_pre_hook(self._call_begins))
            self._calls.append(register_module_forward_hook(self._call_ends, always_call=True))

    def remove(self) -> None:
        """Put everything back as it was."""
        self._stop_watching_calls()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for owner, name, original, ours in reversed(self._originals):
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)
        self._originals.clear()
        for kind, inner in self._stepping.items():
            if getattr(vars(kind).get("step"), "advisor", None) is inner:
                kind.step = inner  # type: ignore[attr-defined]
        self._stepping.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[Method], Method], *, static: bool = False) -> None:
        original = vars(owner).get(name)
        if original is None:
            return
        function = original.__func__ if isinstance(original, staticmethod) else original
        ours: Any = functools.wraps(function)(make(function))
        if static:
            ours = staticmethod(ours)
        setattr(owner, name, ours)
        self._originals.append((owner, name, original, ours))

    # ---- loaders

    def _loader_made(self, original: Method) -> Method:
        def __init__(loader: Any, *args: Any, **options: Any) -> None:
            if self._listens():
                self._stop_watching_calls()
                self._settings.made(loader)
            original(loader, *args, **options)

        return __init__

    def _iterates(self, original: Method) -> Method:
        def __init__(iterator: Any, loader: Any, *args: Any, **options: Any) -> None:
            if self._listens():
                self._settings.iterates(iterator, loader)
            original(iterator, loader, *args, **options)

        return __init__

    def _next(self, original: Method) -> Method:
        def __next__(iterator: Any) -> Any:
            # A loader inside a loader's dataset feeds no step of its own.
            if self._loading or not self._listens():
                return original(iterator)
            if self._steps is not None:
                self._steps.batch()
            if self.recording:
                self._settings.batch(iterator)
            self._loading += 1
            try:
                return original(iterator)
            except StopIteration:
                if self._steps is not None:
                    self._steps.exhausted()
                raise
            finally:
                self._loading -= 1

        return __next__

    # ---- training

    def _optimizer_made(self, original: Method) -> Method:
        def __init__(optimizer: Any, *args: Any, **options: Any) -> None:
            if self._listens():
                self._stop_watching_calls()
                self._settings.made(optimizer)
                if self._steps is not None:
                    self._steps.trains = True
            original(optimizer, *args, **options)
            step = getattr(type(optimizer), "step", None)
            inner = getattr(step, "advisor", None)
            if inner is not None and self._originals:
                self._stepping[type(optimizer)] = inner

        return __init__

    def _profile_hook(self, original: Method) -> Method:
        def profile_hook_step(function: Method) -> Method:
            inner = original(function)

            @functools.wraps(inner)
            def step(*args: Any, **options: Any) -> Any:
                # An optimizer that calls another's step is one step.
                self._updating += 1
                try:
                    out = inner(*args, **options)
                finally:
                    self._updating -= 1
                if not self._updating:
                    self._stepped(id(args[0]))
                return out

            step.advisor = inner  # type: ignore[attr-defined]
            inner.hooked = True  # for the day when it stands there alone again
            return step

        return profile_hook_step

    def _stepped(self, optimizer: int) -> None:
        if self._originals and self._steps is not None and self._listens():
            self._taken += 1
            self._steps.stepped(optimizer)

    def _scaler(self, original: Method) -> Method:
        def step(scaler: Any, optimizer: Any, *args: Any, **options: Any) -> Any:
            before = self._taken
            out = original(scaler, optimizer, *args, **options)
            if self._taken == before:
                # Gradients that overflowed: the optimizer was left out, the iteration was not.
                self._stepped(id(optimizer))
            return out

        return step

    def _updated(self, optimizer: Any, _args: Any, _options: Any) -> None:
        if self._listens():
            self._settings.stepped(optimizer)

    def _backward(self, original: Method) -> Method:
        def backward(*args: Any, **options: Any) -> Any:
            if self._steps is not None and self._listens():
                self._steps.backward()
            return original(*args, **options)

        return backward

    # ---- settings

    def _autocast(self, original: Method) -> Method:
        def __enter__(region: Any) -> Any:
            if getattr(region, "_enabled", False) and self._listens():
                self._settings.autocast(str(region.device), str(region.fast_dtype))
            return original(region)

        return __enter__

    def _compile(self, original: Method) -> Method:
        def compile(model: Any = None, **options: Any) -> Any:
            if model is not None and self._listens():
                # Before anything is compiled: graphs look for hooks.
                self._stop_watching_calls()
                self._settings.compiled(**options)
            return original(model, **options)

        return compile

    # ---- other profilers

    def _profiler(self, begins: bool, original: Method) -> Method:
        def method(profiler: Any, *args: Any, **options: Any) -> Any:
            if begins and not self.own and self._foreign is not None and self._listens():
                self._foreign(True)
            try:
                return original(profiler, *args, **options)
            finally:
                if not begins and not self.own and self._foreign is not None and self._listens():
                    self._foreign(False)

        return method

    # ---- calls of modules, while there is no better sign of a step

    def _call_begins(self, module: Any, _inputs: Any) -> None:
        if self._steps is not None and self._listens():
            if not self._calling:
                self._steps.call(id(module))
                if self._steps.unit == CALLS and self._steps.root == id(module):
                    # Hooks on all modules cost time in each of them; from here on one will do.
                    self.forget_calls()
                    self._calls.append(module.register_forward_pre_hook(self._root_called))
                    return
            self._calling += 1

    def _root_called(self, module: Any, _inputs: Any) -> None:
        if self._steps is not None and self._listens():
            self._steps.call(id(module))

    def _call_ends(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self._listens():
            self._calling = max(self._calling - 1, 0)

    def _stop_watching_calls(self) -> None:
        if self._steps is not None and self._steps.unit == CALLS:
            return
        self.forget_calls()

    def forget_calls(self) -> None:
        """Take the hooks off modules."""
        for handle in self._calls:
            handle.remove()
        self._calls.clear()
        self._calling = 0
