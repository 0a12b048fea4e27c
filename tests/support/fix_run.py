"""Runs the code of fixes as it stands, against the torch that is installed, in a process of its own.

Only what needs a GPU, many processes or much time is replaced, and everything else is torch's own, so that an API that is
gone, a wrong keyword or a name that nobody defines fails:

- the device "cuda" is the CPU, NCCL is Gloo, nothing is pinned, and a module of DDP lies on no device in particular
  (``Adapted``); the functions and classes of ``torch.cuda`` take what the real ones take and do on the CPU what can be
  done there (``stand_in_for_cuda``), and one without a stand-in fails as it does without a GPU;
- ``torch.compile`` checks its mode and options, then traces the model and runs it with the backend "eager";
- loaders check their arguments, then load in this process;
- of "every so many iterations" each second one is left, so that a few batches run both sides of it.

What a snippet builds is then used: its loader gives batches, its model computes and its optimizer steps, and each of its
statements must have run.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import functools
import inspect
import itertools
import os
import re
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import torch
import torch._dynamo  # before the processes fork, not in each
import torch._inductor
from torch import nn
from torch.utils.data import DataLoader

from support.fix_world import USES, names

torch._dynamo.list_backends()  # imports some 400 modules

# ---- the CPU in place of a GPU


INSTEAD = {
    "pin_memory": "False",
    "device_ids": "None",
    "output_device": "None",
    "activities": "[ProfilerActivity.CPU]",
}
"""Arguments that ask for a GPU, and what they are on a CPU."""


class Adapted(ast.NodeTransformer):
    """The snippet as it runs on a CPU: what is replaced is still evaluated, so that its names must be there."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, str):
            text = "gloo" if node.value == "nccl" else re.sub(r"^cuda(?=$|:)", "cpu", node.value)
            return ast.copy_location(ast.Constant(text), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """The mean over one rank is its sum."""
        self.generic_visit(node)
        return self._instead(node, "dist.ReduceOp.SUM") if ast.unparse(node) == "dist.ReduceOp.AVG" else node

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        self.generic_visit(node)
        instead = INSTEAD.get(node.arg or "")
        if instead is not None:
            node.value = self._instead(node.value, instead)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``i % 100 == 99`` holds for every second i."""
        self.generic_visit(node)
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and isinstance(node.ops[0], ast.Eq):
            left.right = self._instead(left.right, "2")
            node.comparators[0] = ast.copy_location(ast.BinOp(right, ast.Mod(), ast.Constant(2)), right)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        """A profiler that is only made is used as well."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).endswith("profile"):
            node.value = ast.Call(ast.Name("__record__", ast.Load()), [node.value], [])
        return node

    def _instead(self, node: ast.expr, code: str) -> ast.expr:
        pair = ast.parse(f"(None, {code})[1]", mode="eval").body
        assert isinstance(pair, ast.Subscript)
        assert isinstance(pair.value, ast.Tuple)
        pair.value.elts[0] = node
        return ast.copy_location(pair, node)


class Event:
    """``torch.cuda.Event``."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.start_s: float | None = None

    def record(self, stream: Any = None) -> None:
        self.start_s = time.perf_counter()

    def elapsed_time(self, end_event: Event) -> float:
        assert self.start_s is not None
        assert end_event.start_s is not None
        return 1e3 * (end_event.start_s - self.start_s)

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def wait(self, stream: Any = None) -> None: ...


class Stream:
    """``torch.cuda.Stream``."""

    def __init__(self, *args: Any, **named: Any) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Stream) -> None:
        assert isinstance(stream, Stream)

    def wait_event(self, event: Event) -> None:
        assert isinstance(event, Event)

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event


class Graph:
    """``torch.cuda.CUDAGraph``: what is captured runs once, there and then."""

    def __init__(self, *args: Any, **named: Any) -> None: ...

    def replay(self) -> None: ...

    def reset(self) -> None: ...


@contextlib.contextmanager
def during(*args: Any, **named: Any) -> Iterator[None]:
    """A context that changes nothing here."""
    yield


def stand_in_for_cuda() -> None:
    """Put stand-ins into ``torch.cuda``, and what else asks for a GPU."""
    cuda: Any = torch.cuda
    for name, stand in {
        **{"Event": Event, "Stream": Stream, "CUDAGraph": Graph},
        **{"stream": during, "graph": during, "current_stream": Stream, "default_stream": Stream},
        **{"make_graphed_callables": lambda callables, sample_args, **_: callables},
        **{"current_device": lambda: 0, "get_device_capability": lambda device=None: (9, 0)},
        **{"mem_get_info": lambda device=None: (60 << 30, 80 << 30), "memory_stats": lambda device=None: {}},
        **{name: lambda device=None: 1 << 30 for name in ("memory_allocated", "memory_reserved")},
        **{name: lambda device=None: 1 << 30 for name in ("max_memory_allocated", "max_memory_reserved")},
        **{name: lambda *args, **named: None for name in ("synchronize", "empty_cache", "set_device", "ipc_collect")},
        **{name: lambda *args, **named: None for name in ("reset_peak_memory_stats", "set_sync_debug_mode")},
        **{name: lambda *args, **named: None for name in ("set_per_process_memory_fraction",)},
    }.items():
        setattr(cuda, name, standing_for(getattr(cuda, name), stand))
    for name in ("_record_memory_history", "_dump_snapshot"):
        setattr(cuda.memory, name, standing_for(getattr(cuda.memory, name), lambda *args, **named: None))
    for name in ("range_push", "range_pop"):
        setattr(cuda.nvtx, name, standing_for(getattr(cuda.nvtx, name), lambda *args, **named: 0))
    tensor: Any = torch.Tensor
    to = nn.Module.to
    nn.Module.to = lambda self, *args, **named: to(  # type: ignore[method-assign]
        self, *("cpu" if type(arg) is int else arg for arg in args), **named
    )
    tensor.cuda = lambda self, device=None, non_blocking=False, memory_format=torch.preserve_format: self
    tensor.pin_memory = lambda self: self
    tensor.record_stream = lambda self, stream: None
    torch.compile = compiling(torch.compile)  # type: ignore[assignment]
    DataLoader._get_iterator = in_this_process(DataLoader._get_iterator)  # type: ignore[method-assign]


def standing_for(real: Any, stand: Any) -> Any:
    """*stand*, called as *real* may be called, with methods that *real* has."""
    if isinstance(real, type) and isinstance(stand, type):
        missing = [name for name in vars(stand) if not name.startswith("_") and not hasattr(real, name)]
        assert not missing, f"{real} has no {missing}"
        signature, init = inspect.signature(real), stand.__init__

        def checked(self: Any, *args: Any, **named: Any) -> None:
            signature.bind(*args, **named)
            init(self, *args, **named)

        return type(stand.__name__, (stand,), {"__init__": checked})
    signature = inspect.signature(real)

    def call(*args: Any, **named: Any) -> Any:
        signature.bind(*args, **named)
        return stand(*args, **named)

    return call


def compiling(real: Any) -> Any:
    """``torch.compile`` with the backend that only traces."""
    signature = inspect.signature(real)

    @functools.wraps(real)
    def compile(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named).arguments
        mode, options = bound.get("mode"), bound.get("options") or {}
        assert mode is None or mode in torch._inductor.list_mode_options(), f"torch.compile knows no mode {mode!r}"
        assert set(options) <= set(torch._inductor.list_options()), f"torch.compile knows not all of {options}"
        backend = bound.get("backend", "inductor")
        if callable(backend):  # torch's own, as flex_attention's that is not compiled
            return real(**bound)
        assert backend in torch._dynamo.list_backends(exclude_tags=None)
        return real(**{**bound, "backend": "eager", "mode": None, "options": None})

    return compile


def in_this_process(real: Any) -> Any:
    """Loaders whose workers are none."""

    def iterator(self: Any) -> Any:
        self.num_workers, self.prefetch_factor, self.timeout = 0, None, 0
        return real(self)

    return iterator


# ---- running


@dataclass(frozen=True)
class Snippet:
    """The code of a fix; *place* names it in messages. With *strict* it may not lead to warnings, as of what is deprecated."""

    code: str
    rule: str
    place: str
    strict: bool


def run(snippet: Snippet) -> None:
    """Run a snippet. Raises what it raises, and AssertionError where it leaves something to be wished for."""
    stand_in_for_cuda()
    code, place = snippet.code, snippet.place
    program = compile(ast.fix_missing_locations(Adapted().visit(ast.parse(code, place))), place, "exec")
    executed: set[int] = set()

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != place:
            return None
        executed.add(frame.f_lineno)
        return trace

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        threading.settrace(trace)
        sys.settrace(trace)
        # What is compiled hides its lines from the trace: first a run without, where there is any.
        for stance in ["force_eager"] * ("compile" in code) + ["default"]:
            torch.manual_seed(0)
            scope_names = names(snippet.rule, code)
            scope = dict(scope_names, __record__=record)
            with torch.compiler.set_stance(stance):
                exec(program, scope)  # noqa: S102
                exec(USES.get(snippet.rule, ""), scope)  # noqa: S102
                use(scope, scope_names)
        sys.settrace(None)
    text = code.splitlines()
    idle = [text[lines[0] - 1].strip() for lines in statements(ast.parse(code)) if executed.isdisjoint(lines)]
    assert not idle, f"these lines were not run: {idle}"
    messages = [str(warning.message) for warning in caught if warning.filename == place or is_for_users(warning)]
    messages = [message for message in messages if not any(phrase in message for phrase in EXCUSED)]
    assert not (snippet.strict and messages), f"it warns: {messages}"


def is_for_users(warning: warnings.WarningMessage) -> bool:
    """Tell whether torch warns its users of a coming change, by any of its ways to warn."""
    return issubclass(warning.category, FutureWarning)


EXCUSED = ("create a total of",)
"""Warnings that only this machine gives, here for workers beyond its cores."""


def use(scope: dict[str, Any], scope_names: dict[str, Any]) -> None:
    """Use what the snippet made: load a batch, compute with the model, step the optimizer."""
    results = {name: value for name, value in scope.items() if value is not scope_names.get(name)}
    if isinstance(results.get("loader"), DataLoader):
        assert list(itertools.islice(results["loader"], 2)), "the loader gives no batch"
    if "Net" in results and "model" not in results:
        results["model"] = scope["model"] = scope["Net"]()
    if "forward" in results:
        scope_names["Net"].forward = results["forward"]
    model = scope["model"]
    if "model" in results and model.training:
        scope_names["criterion"](model(scope["x"]), scope["y"]).backward()
    if isinstance(results.get("optimizer"), torch.optim.Optimizer):
        results["optimizer"].step()


def record(profiler: Any) -> None:
    """A profiler that a snippet only makes: it records two steps."""
    with profiler:
        for _ in range(2):
            torch.ones(2).sum()
            profiler.step()


NOT_RUN = (ast.Pass, ast.Global, ast.Nonlocal, ast.Raise)
"""Statements that leave no mark, and those for when something goes wrong."""


def statements(tree: ast.AST) -> Iterator[range]:
    """The lines of each statement that runs, those of a body not counted to what it is the body of."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, NOT_RUN):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        first = min([node.lineno, *(entry.lineno for entry in getattr(node, "decorator_list", []))])
        body = getattr(node, "body", None)
        last = max(first, body[0].lineno - 1) if body else node.end_lineno or first
        yield range(first, last + 1)


def run_and_report(snippet: Snippet, folder: str, report: Connection) -> None:
    """Run a snippet in this process, which is its own, and in *folder*, and send what is wrong with it."""
    faulthandler.disable()  # a crash is reported by who waits for this process
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        run(snippet)
        problem = ""
    except BaseException as error:  # noqa: BLE001  (a snippet is anyone's code)
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == snippet.place]
        problem = f"{f'line {lines[-1]}: ' if lines else ''}{type(error).__name__}: {error}"
    report.send(problem)
    os._exit(0)
