"""Listening to a program: torch's loaders, optimizers and the like tell what they do, as long as something is recorded.

Methods are replaced on torch's own classes and put back by :meth:`Hooks.remove`. Other processes and other threads than the
one that listens are not heard: worker processes inherit the replaced methods, and must not record. Where the first thread
shows no sign of a step and another one calls modules, as in a server, that one is listened to.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import _utils, dataloader

from advisor.record.listening import Listening
from advisor.record.loops import Key, Loops, Turn, caller
from advisor.record.prompts import Prompts
from advisor.record.settings import Settings
from advisor.record.steps import CALLS, OPTIMIZER, TURNS, Steps

Method = Callable[..., Any]
_CALL = torch.nn.Module._call_impl.__code__
_OBSERVERS = frozenset({"ObserverBase", "FakeQuantizeBase"})
"""Classes of torch.ao.quantization, by name: to import it takes a while."""


class Hooks:
    """Replaces what has to tell *settings*, and where *steps* is given what has to tell it.

    *on_other* is called as a profiler that is not ours begins (True) and ends (False). *loop* is the name of the only one
    whose turns count.
    """

    def __init__(
        self,
        settings: Settings,
        steps: Steps[Any] | None = None,
        on_other: Callable[[bool], None] | None = None,
        loop: str | None = None,
    ) -> None:
        self.recording = False  # whether loaders count as in use
        self.own_profiler = False  # whether the profiler that begins or ends is ours
        self.waited = 0.0  # seconds of waiting for batches
        self.on_device = False  # whether an optimizer's parameters lie elsewhere than in the host's memory
        self._settings = settings
        self._steps = steps
        self._on_other = on_other
        self._loop = loop
        self._listening = Listening()
        self._originals: list[tuple[Any, str, Any, Any]] = []
        self._stepping: dict[type, Method] = {}
        self._put_away: dict[
            Any, Any
        ] = {}  # steps of optimizers that told of themselves, by class, while nothing listens
        self._calls: list[Any] = []
        self._modules: dict[type, list[tuple[Any, int]]] = {}
        self._optimizers: list[tuple[Any, Any, int]] = []
        self._loops = Loops()
        self._classes: list[tuple[Any, Any, Any]] = []
        self._lookup: Any = None  # the method that stands in for that of embeddings
        self._loading = self._updating = self._call_depth = 0
        self.updates = 0  # steps of optimizers
        self.resting = False  # whether nothing but optimizers' steps is heard, as nothing is to be recorded
        self._post: Any = None  # the hook behind optimizers' steps
        self._in_post = False  # whether torch goes through such hooks now
        self._inside = False  # whether the calls that are heard may stand inside one that was not

    def _comes_back(self) -> None:
        """Listen to the first thread again where it shows a sign of a step, while nothing is recorded."""
        if not self.recording and self._listening.comes_back():
            self._inside, self._call_depth = True, 0

    # ---- installing

    def install(self, *, calls: bool = True) -> None:
        """Begin to listen; to *calls* of modules as well."""
        self.resting = False
        if self._post is None:
            self._post = register_optimizer_step_post_hook(self._updated)
        self._before(dataloader.DataLoader, "__init__", self._loader_init)
        self._before(dataloader._BaseDataLoaderIter, "__init__", self._iterator_init)
        self._replace(dataloader._BaseDataLoaderIter, "__next__", self._next)
        self._replace(_utils.worker, "_worker_loop", self._settings.workers.watched)
        self._replace(torch.optim.Optimizer, "__init__", self._optimizer_init)
        self._before(torch.autocast, "__enter__", self._autocast)
        self._before(torch, "compile", self._compile)
        self._replace(torch.autograd.profiler.profile, "_prepare_trace", functools.partial(self._profiler, True))
        self._replace(torch.autograd.profiler.profile, "__exit__", functools.partial(self._profiler, False))
        for kind, step in self._put_away.items():  # torch wraps the step of a class once
            inner = step.advisor
            if vars(kind).get("step") is inner:
                kind.step = step
                self._stepping[kind] = inner
        self._put_away.clear()
        self.watch_lookups()
        if self._steps is not None:
            self._before(torch.autograd, "backward", self._backward)
            # A method by its class's dictionary: it is static, and the plain function is wanted.
            self._replace(torch.optim.Optimizer, "profile_hook_step", self._profile_hook, static=True)
            self._replace(torch.amp.GradScaler, "step", self._scaler)
            if calls:
                self.watch_calls()

    def rest(self) -> None:
        """Put everything back as it was, and hear of nothing but that an optimizer steps, until the next :meth:`install`."""
        self._put_back()
        self.resting = True

    def _trains_on(self, optimizer: Any) -> None:
        if self._steps is not None:
            self.updates += 1
            self._steps.trains_on(self._number_of(optimizer))

    def watch_calls(self) -> None:
        """Hear of the calls of modules, from the next one that no other call contains."""
        if not self._calls:
            self._inside = True  # another thread may ask for it, in the middle of a call
            self._calls.append(register_module_forward_hook(self._call_ends, always_call=True))
            self._calls.append(register_module_forward_pre_hook(self._call_begins))

    def follow(self, steps: Steps[Any]) -> None:
        """Tell other steps from here on."""
        self._steps = steps
        self._settings.prompts = Prompts()
        self.watch_lookups()

    def begin_anew(self, steps: Steps[Any]) -> None:
        """Tell other steps from here on, of the calls of all modules again where they may be such steps."""
        self._steps = steps
        if steps.unit in (CALLS, TURNS) and not self._settings.has_compiled:
            self.forget_calls()
            self.watch_calls()

    @property
    def loop(self) -> str | None:
        """The name of the loop whose turns are the steps, if they are."""
        key = self._steps.loop if self._steps is not None else None
        return self._loops.name(cast(Key, key)) if key is not None else None

    def remove(self) -> None:
        """Put everything back as it was."""
        self.resting = False
        self._put_back()
        # While torch goes through the hooks none can be taken away: this one stays then, and hears nothing.
        if self._post is not None and not self._in_post:
            self._post.remove()
            self._post = None

    def _put_back(self) -> None:
        """Put everything back but the hook behind optimizers' steps."""
        self.forget_calls()
        self.forget_lookups()
        for owner, name, original, replacement in reversed(self._originals):
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._originals.clear()
        for kind, inner in self._stepping.items():
            step = vars(kind).get("step")
            if getattr(step, "advisor", None) is inner:
                kind.step = inner  # type: ignore[attr-defined]
                self._put_away[kind] = step
        self._stepping.clear()

    def _replace(self, owner: Any, name: str, make: Callable[[Method], Method], *, static: bool = False) -> None:
        original = vars(owner).get(name)
        if original is None:
            return
        function = original.__func__ if isinstance(original, staticmethod) else original
        replacement: Any = functools.wraps(function)(make(function))
        if static:
            replacement = staticmethod(replacement)
        setattr(owner, name, replacement)
        self._originals.append((owner, name, original, replacement))

    def _before(self, owner: Any, name: str, act: Method) -> None:
        """Call *act* with the arguments of each call of the method, before it."""

        def make(original: Method) -> Method:
            def method(*args: Any, **options: Any) -> Any:
                if self._listening.here():
                    act(*args, **options)
                return original(*args, **options)

            return method

        self._replace(owner, name, make)

    # ---- loaders

    def _loader_init(self, loader: Any, *_args: Any, **_options: Any) -> None:
        self._stop_watching_calls()
        self._settings.remember(loader)

    def _iterator_init(self, iterator: Any, loader: Any, *_args: Any, **_options: Any) -> None:
        self._settings.iterates(iterator, loader)

    def _next(self, original: Method) -> Method:
        def __next__(iterator: Any) -> Any:
            self._comes_back()
            # A loader inside a loader's dataset feeds no step of its own.
            if self._loading or not self._listening.here():
                return original(iterator)
            if self._steps is not None:
                self._steps.batch()
            if self.recording:
                self._settings.batch(iterator)
            self._loading += 1
            begun = time.perf_counter()
            try:
                batch = original(iterator)
                self.waited += time.perf_counter() - begun
                if not self.recording:
                    self._settings.ready.note(iterator)
                    self._settings.batches.look(torch, batch)
                return batch
            except StopIteration:
                if self._steps is not None:
                    self._steps.exhausted()
                raise
            finally:
                self._loading -= 1

        return __next__

    # ---- training

    def _backward(self, *_args: Any, **_options: Any) -> None:
        if self._steps is not None:
            self._steps.backward()

    def _optimizer_init(self, original: Method) -> Method:
        def __init__(optimizer: Any, *args: Any, **options: Any) -> None:
            if self._listening.here():
                self._stop_watching_calls()
                self._settings.remember(optimizer)
                if self._steps is not None:
                    self._steps.trains = True
            original(optimizer, *args, **options)
            if self._steps is not None and self._listening.here():
                # To make the first one takes seconds, in which torch imports what it compiles with.
                self._steps.trains = True
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
                # A scheduler of learning rates holds this method while nothing listens: the hook behind the step hears it then.
                heard = bool(self._originals)
                # An optimizer that calls another's step is one step.
                self._updating += 1
                try:
                    out = inner(*args, **options)
                finally:
                    self._updating -= 1
                if heard and not self._updating:
                    self._stepped(args[0])
                return out

            step.advisor = inner  # type: ignore[attr-defined]
            inner.hooked = True  # for the day when it stands there alone again
            return step

        return profile_hook_step

    def _stepped(self, optimizer: Any) -> None:
        self._comes_back()
        if self._originals and self._steps is not None and self._listening.here():
            self.updates += 1
            if self._calls and self._steps.unit in (None, OPTIMIZER):
                self.forget_calls()  # heard behind a training that was taken for ended
            self._steps.stepped(self._number_of(optimizer))

    def _number_of(self, optimizer: Any) -> int:
        """Return an optimizer's number; that of one before it which is gone, or had its first parameter.

        A sweep, or a fold of a validation, makes a new one for each few steps.
        """
        first = next((each for group in optimizer.param_groups for each in group["params"]), None)
        self.on_device = self.on_device or (first is not None and first.device.type != "cpu")
        for at, (each, parameter, number) in enumerate(self._optimizers):
            held, kept = each(), parameter()
            if held is optimizer:
                return number
            if held is None or (kept is not None and kept is first):
                self._optimizers[at] = weakref.ref(optimizer), _weakly(first), number
                return number
        self._optimizers.append((weakref.ref(optimizer), _weakly(first), id(optimizer)))
        return id(optimizer)

    def _scaler(self, original: Method) -> Method:
        def step(scaler: Any, optimizer: Any, *args: Any, **options: Any) -> Any:
            before = self.updates
            out = original(scaler, optimizer, *args, **options)
            if self.updates == before:
                # Gradients that overflowed: the optimizer was left out, the iteration was not.
                self._stepped(optimizer)
            return out

        return step

    def _updated(self, optimizer: Any, _args: Any, _options: Any) -> None:
        if not self._listening.here():
            return
        if self.resting:
            self._in_post = True
            try:
                self._trains_on(optimizer)
            finally:
                self._in_post = False
        elif self._originals:
            self._settings.stepped(optimizer)

    # ---- settings

    def _autocast(self, region: Any) -> None:
        if getattr(region, "_enabled", False):
            self._settings.autocast(str(region.device), str(region.fast_dtype))

    def _compile(self, model: Any = None, **options: Any) -> None:
        if model is not None:
            # Before anything is compiled: graphs look for hooks.
            self._stop_watching_calls()
            self.forget_lookups()
            self._settings.compiled(**options)

    # ---- other profilers

    def _profiler(self, begins: bool, original: Method) -> Method:
        def method(profiler: Any, *args: Any, **options: Any) -> Any:
            if begins and not self.own_profiler and self._on_other is not None and self._listening.here():
                self._on_other(True)
            try:
                return original(profiler, *args, **options)
            finally:
                if not begins and not self.own_profiler and self._on_other is not None and self._listening.here():
                    self._on_other(False)

        return method

    # ---- lookups of tokens

    def watch_lookups(self) -> None:
        """Look at what embeddings are given, until there is enough of it or :meth:`forget_lookups`.

        By the class's call: a hook would make some modules compute in another way, and forward is what others compile.
        """
        if self._lookup is not None or self._settings.prompts.enough or self._settings.has_compiled:
            return
        kind: Any = torch.nn.Embedding
        if "__call__" in vars(kind):
            return  # another tool's

        def __call__(called: Any, *args: Any, **options: Any) -> Any:
            if not torch.compiler.is_compiling() and self._lookup is not None and self._listening.here():
                self._looks_up(called, args[0] if args else options.get("input"))
            above: Any = super(kind, called)
            return above.__call__(*args, **options)

        self._lookup = kind.__call__ = __call__

    def _looks_up(self, embedding: Any, ids: Any) -> None:
        try:
            with torch._C.DisableTorchFunction():
                self._settings.batches.look_at_lookup(torch, id(embedding), ids)
                self._settings.prompts.look(torch, embedding, ids)
        except Exception:  # noqa: BLE001  (tokens of a kind that nobody thought of must not end the program)
            self._settings.prompts.enough = True
        if self._settings.prompts.enough:
            self.forget_lookups()

    def forget_lookups(self) -> None:
        """Look at no embeddings any more."""
        kind: Any = torch.nn.Embedding
        if self._lookup is not None and vars(kind).get("__call__") is self._lookup:
            del kind.__call__
        # Calls of an embedding may be heard as those of the model: then it goes with them, and does nothing until then.
        self._classes = [
            (each, None if own is self._lookup else own, replacement) for each, own, replacement in self._classes
        ]
        self._lookup = None

    # ---- calls of modules, while there is no better sign of a step

    def _call_begins(self, module: Any, inputs: Any) -> None:
        if self._steps is not None and (self._listening.here() or self._listens(module, self._steps)):
            if self._inside:
                self._inside = _within_call(sys._getframe(1))
            if self._inside or (not self._call_depth and _observes(module)):
                return
            if not self._call_depth:
                loops = self._around(caller())
                self._steps.call(
                    self._number(module), loops, self._steps.unit is None and _is_one(inputs) and self._loops.ahead()
                )
                # Hooks on all modules cost time in each of them; from here on the class of one will do: for turns of a loop,
                # that of the first that a turn calls.
                if self._steps.loop is not None:
                    self._remove_calls()
                    self._watch_class(module)
                    return
                if self._steps.unit == CALLS and self._steps.root == self._number(module):
                    self.forget_calls()
                    self._watch_class(module)
                    return
            self._call_depth += 1

    def _listens(self, module: Any, steps: Steps[Any]) -> bool:
        """Listen to this thread, which calls a module, where it is to be heard from here on; tell whether it is."""
        if self.recording:
            return False
        if self._listening.takes_over(module, steps):
            self._inside, self._call_depth = True, 0
            return True
        if steps.unit is None:
            self._comes_back()
        return self._listening.here()

    def _around(self, frame: FrameType | None) -> tuple[Turn, ...]:
        """Return the loops around a call."""
        loops = self._loops.look(frame)
        return (
            loops if self._loop is None else tuple(each for each in loops if self._loops.name(each.loop) == self._loop)
        )

    def _number(self, module: Any) -> int:
        """Return a module's number; that of one before it, of its class, which is gone: a model may be built for each request."""
        known = self._modules.setdefault(type(module), [])
        for at, (each, number) in enumerate(known):
            held = each()
            if held is module:
                return number
            if held is None:
                known[at] = weakref.ref(module), number
                return number
        known.append((weakref.ref(module), id(module)))
        return id(module)

    def _watch_class(self, module: Any) -> None:
        """Hear of the calls of a module. By its class: a hook on it would go along where the program copies or saves it."""
        kind, number = type(module), self._number(module)
        own = vars(kind).get("__call__")

        def __call__(called: Any, *args: Any, **options: Any) -> Any:
            if self._number(called) == number and self._steps is not None and self._listening.here():
                loops = self._around(sys._getframe(1)) if self._steps.loop is not None else ()
                self._steps.call(number, loops)
            if own is not None:
                return own(called, *args, **options)
            above: Any = super(kind, called)
            return above.__call__(*args, **options)

        kind.__call__ = __call__
        self._classes.append((kind, own, __call__))

    def _call_ends(self, _module: Any, _inputs: Any, _output: Any) -> None:
        if self._listening.here():
            self._call_depth = max(self._call_depth - 1, 0)

    def _stop_watching_calls(self) -> None:
        if self._steps is None or self._steps.unit not in (CALLS, TURNS):
            self.forget_calls()

    def forget_calls(self) -> None:
        """Take the hooks off modules, and let go of the frames that called them."""
        self._loops.forget()
        self._remove_calls()

    def _remove_calls(self) -> None:
        for handle in self._calls:
            handle.remove()
        self._calls.clear()
        for kind, own, replacement in self._classes:
            if vars(kind).get("__call__") is not replacement:
                continue
            if own is None:
                del kind.__call__
            else:
                kind.__call__ = own
        self._classes.clear()
        self._call_depth = 0


def _weakly(value: Any) -> Callable[[], Any]:
    """Return what gives a value as long as it lives; None of none."""
    return (lambda: None) if value is None else weakref.ref(value)


def _is_one(inputs: Any) -> bool:
    """Tell whether a module is given a batch of one."""
    first = next((value for value in inputs if isinstance(value, torch.Tensor)), None)
    return first is not None and first.dim() > 1 and first.shape[0] == 1


def _observes(module: Any) -> bool:
    """Tell whether a module only looks at ranges: quantizing calls one for each weight, before the model is called at all."""
    return any(
        kind.__name__ in _OBSERVERS and kind.__module__.startswith(("torch.ao.", "torch.quantization"))
        for kind in type(module).__mro__
    )


def _within_call(frame: FrameType | None) -> bool:
    """Tell whether the call of a module that *frame* belongs to stands inside another one."""
    calls = 0
    while frame is not None and calls < 2:
        calls += frame.f_code is _CALL
        frame = frame.f_back
    return calls > 1
