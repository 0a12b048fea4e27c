"""Switches of torch: anomaly detection off, cuDNN's search on, TF32 for float32 products."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from advisor.fix.arguments import place
from advisor.fix.code import called, calls_in, torch_name
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Piece, Source

_SET, _DETECT = "torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"
_ENGINE = "torch.backends.quantized.engine"
_BENCHMARK = "torch.backends.cudnn.benchmark"


def _anomaly(request: Request) -> Iterator[Change]:
    """Switch anomaly detection off where a literal switches it on, or a block does."""
    for source in request.sources():
        pieces: list[Piece] = []
        for call in source.calls(_SET, f"{_SET.replace('.set_', '.anomaly_mode.set_')}"):
            given = call.args[0].value if call.args else None
            if given is not None and source.code(given) == "True" and not call.args[0].star:
                pieces.append(Piece(source.start(given), source.end(given), "False"))
        pieces += _of_trainers(source)
        for call in source.calls(_DETECT):
            if isinstance(source.parent(call), cst.WithItem) and isinstance(call.func, cst.Attribute):
                # The same module's switch is a block as well: what is inside keeps its indentation.
                name = call.func.attr
                pieces += [
                    Piece(source.start(name), source.end(name), "set_detect_anomaly"),
                    Piece(source.end(call.func), source.end(call), "(False)"),
                ]
        if pieces:
            yield changed(source, pieces, "anomaly detection off")
            return
    raise NotEditable("no call by its name switches anomaly detection on with True")


def _of_trainers(source: Source) -> Iterator[Piece]:
    """Yield the switch's new value where a trainer, as those of Lightning, is made with ``detect_anomaly=True``."""
    for call in calls_in(source.module):
        if called(call).endswith("Trainer"):
            for arg in call.args:
                if (
                    arg.keyword is not None
                    and arg.keyword.value == "detect_anomaly"
                    and source.code(arg.value) == "True"
                ):
                    yield Piece(source.start(arg.value), source.end(arg.value), "False")


def _benchmark(request: Request) -> Iterator[Change]:
    """Let cuDNN search for the fastest kernel: an assignment of False is turned, else the line is added."""
    source = request.script()
    if "deterministic" in source.text:
        raise NotEditable(f"{source.path} speaks of determinism, which a search for kernels may break")
    assigned = _assigned(source, _BENCHMARK)
    if len(assigned) > 1:
        raise NotEditable(f"{source.path} sets cudnn.benchmark {len(assigned)} times")
    if assigned:
        value = assigned[0]
        if source.code(value) != "False":
            raise NotEditable(f"cudnn.benchmark is {source.code(value)} at {place(source, value)}")
        pieces = [Piece(source.start(value), source.end(value), "True")]
    else:
        pieces = [source.after_imports(f"{torch_name(source)}.backends.cudnn.benchmark = True")]
    yield changed(source, pieces, f"{_BENCHMARK} = True")


def _tf32(request: Request) -> Iterator[Change]:
    """Allow TF32 for products of float32 matrices."""
    source = request.script()
    calls = source.calls("torch.set_float32_matmul_precision")
    if calls:
        given = calls[0].args[0].value if len(calls) == 1 and calls[0].args else None
        if not isinstance(given, cst.SimpleString) or given.evaluated_value != "highest":
            raise NotEditable(f"the precision of products is set at {place(source, calls[0])}")
        pieces = [Piece(source.start(given), source.end(given), f"{given.quote}high{given.quote}")]
    elif "allow_tf32" in source.text or "fp32_precision" in source.text:
        raise NotEditable(f"{source.path} sets TF32 in another way")
    else:
        pieces = [source.after_imports(f'{torch_name(source)}.set_float32_matmul_precision("high")')]
    yield changed(source, pieces, 'torch.set_float32_matmul_precision("high")')


def _engine(request: Request) -> Iterator[Change]:
    """Take the engine of quantized layers that is meant for this processor, where one line names another."""
    sources = list(request.sources())
    found = [(source, value) for source in sources for value in _assigned(source, _ENGINE)]
    if len(found) != 1:
        raise NotEditable(f"{len(found)} lines of the files that the finding names set the engine of quantized layers")
    source, value = found[0]
    where = place(source, value)
    if not isinstance(value, cst.SimpleString) or value.evaluated_value != "qnnpack":
        raise NotEditable(f"the engine is {source.code(value)} at {where}")
    if any(isinstance(outer, cst.If | cst.Try) for outer in source.around(value)):
        raise NotEditable(f"the engine depends on a condition at {where}")
    if sum(each.text.count("qnnpack") for each in sources) > 1:
        raise NotEditable(f"qnnpack stands in more places than {where}: a model that was converted for it, perhaps")
    yield changed(
        source, [Piece(source.start(value), source.end(value), f"{value.quote}x86{value.quote}")], "the engine x86"
    )


def _assigned(source: Source, name: str) -> list[cst.BaseExpression]:
    """Return the values that are assigned to an attribute of that name."""
    return [
        assign.value
        for assign in matchers.findall(source.module, matchers.Assign())
        if isinstance(assign, cst.Assign) and any(source.name(target.target) == name for target in assign.targets)
    ]


EDITS = (
    Edit("anomaly-off", "Switch anomaly detection off", ("sync/debug-api",), _anomaly),
    Edit(
        "cudnn-benchmark",
        "Let cuDNN search for the fastest convolution",
        ("kernels/cudnn-autotune-off",),
        _benchmark,
    ),
    # Activations are rounded otherwise: answers differ in the second digit.
    Edit(
        "quantized-engine",
        "Run quantized layers on the engine of this processor",
        ("cpu/quantized-engine",),
        _engine,
        trains=True,
    ),
    Edit(
        "tf32",
        "Allow TF32 for products of float32 matrices",
        ("precision/tf32-disabled",),
        _tf32,
        trains=True,
    ),
)
