"""Fields of a result: each says its meaning and its kind, goes to JSON and back, and holds no folder once it is redacted."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema
import msgspec
import pytest
from msgspec import inspect
from support.analyses import REPLACE, analysis, finding, hostile_analysis, together

from advisor.report import render
from advisor.report.redact import redact, scrub
from advisor.report.schema import schema
from advisor.results.analysis import (
    Analysis,
    Evidence,
    Place,
    QualityNote,
)
from advisor.results.field import FilePath, Name, doc
from advisor.results.several import Several


def test_json_round_trips_and_holds_to_the_schema() -> None:
    made = analysis(finding(), REPLACE(finding("a/b"), saving=None))
    for document in (made, hostile_analysis(), Several(traces=[made], across=together(made))):
        jsonschema.validate(json.loads(render("json", document)), schema("analysis"))
    assert Analysis.from_json(render("json", made)) == made
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema_version": 1}, schema("analysis"))


@pytest.mark.parametrize("name", ["analysis", "judgement", "comparison"])
def test_every_field_of_a_result_says_its_meaning(name: str) -> None:
    """The schema holds the meanings of the fields; tests of the gate's reports hold the schemas in docs/ current."""
    for struct, definition in schema(name)["$defs"].items():
        assert definition["description"], struct
        for field, said in definition["properties"].items():
            assert len(said.get("description", "")) > 5, f"{struct}.{field}"
            assert "None" not in said["description"], f"{struct}.{field}: JSON knows null"


def test_redaction_leaves_no_folder() -> None:
    secret = finding(
        title="slow /home/someone/project/train.py",
        where=[
            Place(
                file="/home/someone/project/train.py",
                line=3,
                function="f",
                library="transformers/models/x.py:812 forward",
                module="A_0/B_1",
                op="aten::mm",
                share=1.0,
            )
        ],
        evidence=Evidence(columns=["name", "file"], rows=[["at C:\\Users\\me\\a.py", "src/secret/b.py:3"], [1, None]]),
    )
    made = analysis(
        secret,
        quality=[QualityNote(code="x", message="/data/secret/t.json: cut off", advice="see https://a.org/b/c/d.html")],
    )
    cut = redact(made)
    assert cut.trace.path == "trace.json.gz"
    place = cut.findings[0].where[0]
    assert (place.file, place.library, place.module) == ("train.py", "x.py:812 forward", "A_0/B_1")
    assert cut.findings[0].evidence.rows == [["at a.py", "b.py:3"], [1, None]]
    assert cut.quality[0].message == "t.json: cut off"
    assert cut.quality[0].advice == "see https://a.org/b/c/d.html"
    assert not re.search("home|someone|secret|Users", (render("text", cut) + render("json", cut)).decode())


class Newcomer(msgspec.Struct, frozen=True, kw_only=True):
    """A result with fields that nobody has marked."""

    note: str
    notes: list[str]
    by_name: dict[str, str | None]
    pair: tuple[str, int]
    either: str | list[str] | Place
    deep: list[dict[str, list[str]]] = []
    known: Annotated[Name | None, doc("A name: it stays.")] = None
    opened: Annotated[FilePath | None, doc("A path.")] = None
    level: Literal["a", "b"] = "a"


def test_a_new_text_field_is_redacted_without_a_mark() -> None:
    secret, open_ = "in /home/someone/train.py: slow", "in train.py: slow"
    made = Newcomer(
        note=secret,
        notes=[secret, "plain"],
        by_name={secret: secret, "x": None},
        pair=(secret, 1),
        either=[secret],
        deep=[{secret: [secret]}],
        known="aten::add /home/a/b",
        opened="/home/someone/trace.json",
    )
    assert redact(made) == Newcomer(
        note=open_,
        notes=[open_, "plain"],
        by_name={open_: open_, "x": None},
        pair=(open_, 1),
        either=[open_],
        deep=[{open_: [open_]}],
        known="aten::add /home/a/b",
        opened="trace.json",
    )
    assert redact(msgspec.structs.replace(made, either=secret)).either == open_


def test_a_field_that_could_hold_anything_is_refused() -> None:
    class Unknown(msgspec.Struct):
        anything: Any

    with pytest.raises(TypeError, match="no redaction is known"):
        redact(Unknown(anything="/home/someone/train.py"))


def test_what_is_a_name_stays_and_text_without_a_path_does() -> None:
    made = analysis(finding(where=[]))
    assert redact(made) == REPLACE(made, trace=REPLACE(made.trace, path="trace.json.gz"))


def plain_texts(kind: inspect.Type, mark: str = "") -> Iterator[str]:
    """The kind of each text in a type; empty where nobody has said one."""
    if isinstance(kind, inspect.Metadata):
        yield from plain_texts(kind.type, (kind.extra or {}).get("text", mark))
    elif isinstance(kind, inspect.StrType):
        yield mark
    elif isinstance(kind, inspect.UnionType):
        for part in kind.types:
            yield from plain_texts(part, mark)
    elif isinstance(kind, inspect.ListType):
        yield from plain_texts(kind.item_type, mark)
    elif isinstance(kind, inspect.TupleType):
        for part in kind.item_types:
            yield from plain_texts(part, mark)
    elif isinstance(kind, inspect.DictType):
        yield from plain_texts(kind.key_type, mark)
        yield from plain_texts(kind.value_type, mark)


@pytest.mark.parametrize("name", ["analysis", "comparison", "judgement", "ranks", "samples", "several", "views"])
def test_every_text_of_a_result_says_its_kind(name: str) -> None:
    module = importlib.import_module(f"advisor.results.{name}")
    for struct in vars(module).values():
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
            for field in inspect.type_info(struct).fields:  # type: ignore[attr-defined]
                assert "" not in set(plain_texts(field.type)), f"{struct.__name__}.{field.name}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("in ~/src/x.py now", "in x.py now"),
        ("src/a/b.py:3 f", "b.py:3 f"),
        ("ResNet_0/Conv2d_3", "ResNet_0/Conv2d_3"),
        ("1/2 and a / b", "1/2 and a / b"),
        (
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
            "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
        ),
    ],
)
def test_only_paths_are_cut_out_of_text(before: str, after: str) -> None:
    assert scrub(before) == after
