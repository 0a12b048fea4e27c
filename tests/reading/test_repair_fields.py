"""Fields that are kept as they were written survive an event whose other fields have the wrong types."""

from __future__ import annotations

from pathlib import Path

import msgspec

import advisor
from advisor.reading.events import Args
from advisor.reading.repair import loosen


def test_an_odd_event_keeps_every_raw_field() -> None:
    """The operator's name is a number; its shapes, types, strides and values are as they were."""
    text = (
        b'{"ph": "X", "cat": "cpu_op", "name": 7, "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {"Input Dims": [[2, 3]],'
        b' "Input type": ["float"], "Input Strides": [[3, 1]], "Concrete Inputs": [""], "grid": [1, 1, 1]}}'
    )
    event = loosen(text)
    assert event is not None
    assert event.args is not None
    raws = {field.name for field in msgspec.structs.fields(Args) if field.type is msgspec.Raw}
    assert {"strides", "concrete", "dims", "types", "grid"} <= raws
    assert bytes(event.args.strides) == b"[[3, 1]]"
    assert bytes(event.args.concrete) == b'[""]'
    assert all(isinstance(getattr(event.args, name), msgspec.Raw) for name in raws)


def test_a_trace_with_such_an_event_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": 7, "pid": 1, "tid": 1, "ts": 1, "dur": 2,'
        ' "args": {"Input Dims": [[2, 3]], "Input Strides": [[3, 1]]}}]}'
    )
    assert len(advisor.read(str(path)).ops) == 1


def test_no_field_of_text_holds_a_number(tmp_path: Path) -> None:
    """A kernel's annotation was left a number, and its length asked for."""
    texts = [field.encode_name for field in msgspec.structs.fields(Args) if field.type == (str | None)]
    args = ", ".join(f'"{name}": 0.5' for name in texts)
    event = loosen(
        f'{{"ph": "X", "cat": "kernel", "name": 7, "pid": 0, "tid": 7, "ts": 1, "dur": 2, "args": {{{args}}}}}'.encode()
    )
    assert event is not None
    assert event.args is not None
    for field in msgspec.structs.fields(Args):
        if field.encode_name in texts:
            assert isinstance(getattr(event.args, field.name), str | None), field.name
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": 7, "pid": 0, "tid": 7, "ts": 1, "dur": 2,'
        f' "args": {{{args}, "device": 0, "stream": 7}}}}]}}'
    )
    assert len(advisor.read(str(path)).kernels) == 1
