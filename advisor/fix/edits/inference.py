"""Gradients that inference records, and layers that it leaves in training mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.code import (
    called,
    calls_in,
    class_around,
    decorated,
    functions,
    is_module_class,
    learns,
    line_before,
    models,
    torch_name,
)
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Source
from advisor.regex import regex

_OFF = regex(r"no_grad|inference_mode|set_grad_enabled")
_TRAINS = regex(r"(^|[._])(train|fit|learn|finetune|adapt)", re.IGNORECASE)
_SETTING = (
    "eval", "train", "to", "cpu", "cuda", "half", "float", "double", "bfloat16", "parameters", "named_parameters", "buffers",
    "named_buffers", "state_dict", "load_state_dict", "modules", "named_modules", "children", "requires_grad_", "compile",
    "apply", "zero_grad", "share_memory",
)  # fmt: skip
"""Methods of a module that compute no answer."""


def _gradients_off(request: Request) -> Iterator[Change]:
    """Run what calls the model without gradients: by a decorator on its function, by a line before a loop of the module's own."""
    trained = any(learns(source.text) for source in request.sources())
    for source in request.sources():
        drivers = [one for one in _drivers(source) if not trained or _evaluates(source, one)]
        if drivers:
            name = torch_name(source)
            mode = "no_grad" if trained else "inference_mode"
            for function in drivers:
                _check(source, function)
            pieces = [decorated(source, function, f"@{name}.{mode}()") for function in drivers]
            where = ", ".join(f"{function.name.value}()" for function in drivers)
            yield changed(source, pieces, f"@torch.{mode}() on {where}")
            return
    source = request.script()
    loops = [loop for loop in _loops(source) if _answers(source, loop)]
    if not loops:
        raise NotEditable("no function and no loop that calls the model is known for certain by its name")
    if trained:
        raise NotEditable(f"the loop in {source.path} that calls the model is not the only code there: it also learns")
    if _OFF.search(source.text) or any(_TRAINS.search(called(call)) for call in calls_in(source.module)):
        raise NotEditable(f"{source.path} sets gradients off or trains in another place")
    line = f"{torch_name(source)}.set_grad_enabled(False)"
    yield changed(source, [line_before(source, loops[0], line)], "no gradients from the loop on that calls the model")


def _evaluates(source: Source, function: cst.FunctionDef) -> bool:
    """Tell whether a function of a program that also learns is one of evaluation: it puts a model into that mode itself."""
    return any(called(call).endswith(".eval") for call in calls_in(function)) and not learns(source.code(function))


def _check(source: Source, function: cst.FunctionDef) -> None:
    """Raise ``NotEditable`` where a function may need gradients, or does without them already."""
    name = function.name.value
    if function.asynchronous is not None or matchers.findall(function, matchers.Yield()):
        raise NotEditable(f"{name} in {source.path} hands over in its midst (yield, async)")
    known = {one.name.value: one for one in functions(source)}
    todo, seen = [function], {name}
    while todo:
        one = todo.pop()
        text = source.code(one)
        if learns(text):
            raise NotEditable(
                f"{one.name.value} in {source.path}, which {name} runs, speaks of gradients or an optimizer"
            )
        if _OFF.search(text):
            raise NotEditable(f"{one.name.value} in {source.path} sets gradients off already, in part")
        for call in calls_in(one):
            path = called(call)
            if _TRAINS.search(path) and not path.endswith(".train"):
                raise NotEditable(f"{name} in {source.path} calls {path}, which may train")
            last = path.rpartition(".")[2]
            if last in known and last not in seen:
                seen.add(last)
                todo.append(known[last])


def _drivers(source: Source) -> list[cst.FunctionDef]:
    """Return the functions outside of modules that call the model, without those that another one of them calls."""
    found = {
        function.name.value: function
        for function in functions(source)
        if not is_module_class(source, class_around(source, function)) and _answers(source, function)
    }
    inner = {
        called(call).rpartition(".")[2]
        for function in found.values()
        for call in calls_in(function)
        if called(call).rpartition(".")[2] != function.name.value
    }
    return [function for name, function in found.items() if name not in inner]


def _loops(source: Source) -> list[cst.CSTNode]:
    """Return the outermost loops outside of functions, in order."""
    found = matchers.findall(source.module, matchers.OneOf(matchers.For(), matchers.While()))
    bounds = (cst.FunctionDef, cst.ClassDef, cst.For, cst.While)
    return sorted(
        (loop for loop in found if not any(isinstance(outer, bounds) for outer in source.around(loop))),
        key=source.start,
    )


def _answers(source: Source, node: cst.CSTNode) -> list[cst.Call]:
    """Return the calls inside of *node* that have a model compute something, by the names of models in the file."""
    known = models(source)
    out = []
    for call in calls_in(node):
        name = called(call)
        owner, _, method = name.rpartition(".")
        if name in known or (owner in known and method not in _SETTING):
            out.append(call)
    return out


def _evaluation(request: Request) -> Iterator[Change]:
    """Put the model into evaluation mode before the loop that calls it."""
    sources = list(request.sources())
    if any(learns(source.text) for source in sources):
        raise NotEditable("the program also learns: which calls of the model are inference is not certain")
    for source in sources:
        calls = [call for call in _answers(source, source.module) if source.in_loop(call)]
        known = models(source)
        names = {name if name in known else name.rpartition(".")[0] for name in map(called, calls)}
        if not calls:
            continue
        if len(names) > 1:
            raise NotEditable(f"several models are called in loops of {source.path}")
        if source.method_calls("eval") or source.method_calls("train"):
            raise NotEditable(f"{source.path} switches between training and evaluation")
        loop = _outermost_loop(source, calls[0])
        model = names.pop()
        yield changed(source, [line_before(source, loop, f"{model}.eval()")], f"{model}.eval() before the loop")
        return
    raise NotEditable("no loop that calls the model is known for certain by its name")


def _outermost_loop(source: Source, call: cst.Call) -> cst.CSTNode:
    loop: cst.CSTNode = call
    for outer in source.around(call):
        if isinstance(outer, cst.FunctionDef):
            break
        if isinstance(outer, cst.For | cst.While):
            loop = outer
    return loop


EDITS = (
    Edit(
        "inference-mode",
        "Run inference without recording gradients",
        ("cpu/grad-enabled", "inference/grad-enabled"),
        _gradients_off,
    ),
    # The answers change: with dropout they were wrong by chance.
    Edit("eval-mode", "Put the model into evaluation mode", ("inference/train-mode",), _evaluation, trains=True),
)
