"""What was read of a trace, and the host's forest, as arrays and plain facts; and back.

Nothing is pickled: an entry of the cache is data, never code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, get_type_hints

import msgspec
import numpy as np

from advisor.cache.columns import Array, storable
from advisor.reading.stream import Recorded
from advisor.timeline.calls import Attributes, Host
from advisor.timeline.source import LIBRARIES, Place, scrub

# Notes that tell of the file's name, not of its content.
_OF_THE_NAME = frozenset(["not-gzip"])
# Of the forest: what others hold, and what only its making needs.
_NOT_KEPT = frozenset(["_recorded", "_place_index", "libraries"])


class Unkept(Exception):
    """Something that has no plain form."""


class Snapshot(msgspec.Struct):
    """Arrays by name, and the rest as msgpack."""

    arrays: dict[str, Array]
    facts: bytes


def of_recorded(recorded: Recorded) -> Snapshot:
    """The columns as read. Raises ``Unkept``."""
    if recorded.part is not None or any(code in _OF_THE_NAME for code, _ in recorded.notes):
        raise Unkept("not the content of the file alone")
    # Texts are kept as the frames show them, and are cleaned once more when they are read again.
    if any(scrub(text) != text for table in (recorded.names, recorded.stacks) for text in table):
        raise Unkept("texts that cleaning does not leave alone")
    arrays = {f"{group}.{key}": array for group, table in recorded.tables.items() for key, array in table.items()}
    _check(arrays.values())
    return Snapshot(arrays, _encode({name: getattr(recorded, name) for name in _facts_of_recorded()}))


def to_recorded(snapshot: Snapshot) -> Recorded:
    """Back again. Raises ``msgspec.DecodeError``, ``KeyError`` or ``TypeError`` where it is no such snapshot."""
    types = _facts_of_recorded()
    raw = msgspec.msgpack.decode(snapshot.facts, type=dict[str, msgspec.Raw])
    tables: dict[str, dict[str, Array]] = {}
    for name, array in snapshot.arrays.items():
        group, key = name.split(".", 1)
        tables.setdefault(group, {})[key] = array
    facts = {name: msgspec.msgpack.decode(raw[name], type=types[name]) for name in types}
    return Recorded(tables=tables, **facts)


def _facts_of_recorded() -> dict[str, Any]:
    """Name -> type of the fields that are no columns."""
    types = get_type_hints(Recorded)
    return {
        field.name: types[field.name] for field in dataclasses.fields(Recorded) if field.name not in ("tables", "part")
    }


class _Forest(msgspec.Struct):
    """What of a forest is no array, and how its arrays hang together."""

    plain: dict[str, int | list[int | str]]
    places: dict[str, list[Place]]
    lists: dict[str, list[int]]  # name -> lengths of the arrays
    tables: dict[str, list[str]]
    attributes: list[str]


def of_host(host: Host) -> Snapshot:
    """The forest, however its attributes are called. Raises ``Unkept`` for one of a kind that is not known here."""
    arrays: dict[str, Array] = {}
    forest = _Forest({}, {}, {}, {}, [])
    for name, value in vars(host).items():
        if name in _NOT_KEPT:
            continue
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif isinstance(value, Attributes):
            forest.attributes.append(name)
            arrays |= {f"{name}.{key}": array for key, array in vars(value).items()}
        elif isinstance(value, dict) and all(isinstance(array, np.ndarray) for array in value.values()):
            forest.tables[name] = list(value)
            arrays |= {f"{name}.{key}": array for key, array in value.items()}
        elif isinstance(value, list) and value and all(isinstance(array, np.ndarray) for array in value):
            forest.lists[name] = [len(array) for array in value]
            arrays[name] = np.concatenate(value)
        elif isinstance(value, list) and value and all(isinstance(place, Place) for place in value):
            forest.places[name] = value
        elif type(value) is int or (isinstance(value, list) and _alike(value)):
            forest.plain[name] = value
        else:
            raise Unkept(f"{name}: {type(value).__name__}")
    _check(arrays.values())
    return Snapshot(arrays, _encode(forest))


def to_host(snapshot: Snapshot, recorded: Recorded, libraries: Iterable[str]) -> Host:
    """The forest of *recorded* again, without working it out. Raises as ``to_recorded`` does."""
    forest = msgspec.msgpack.decode(snapshot.facts, type=_Forest)
    arrays = dict(snapshot.arrays)
    host = Host.__new__(Host)
    found: dict[str, Any] = {"_recorded": recorded, "libraries": LIBRARIES | frozenset(libraries)}
    for name in forest.attributes:
        keys = [field.name for field in dataclasses.fields(Attributes)]
        found[name] = Attributes(**{key: arrays.pop(f"{name}.{key}") for key in keys})
    for name, names in forest.tables.items():
        found[name] = {key: arrays.pop(f"{name}.{key}") for key in names}
    for name, lengths in forest.lists.items():
        found[name] = np.split(arrays.pop(name), np.cumsum(lengths)[:-1])
    vars(host).update(found | forest.places | forest.plain | arrays)
    return host


def _alike(values: list[object]) -> bool:
    return all(type(value) is int for value in values) or all(type(value) is str for value in values)


def _check(arrays: Iterable[object]) -> None:
    for array in arrays:
        if not storable(array):
            raise Unkept(f"an array of {getattr(array, 'dtype', type(array))}")


def _encode(facts: object) -> bytes:
    try:
        return msgspec.msgpack.encode(facts)
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        raise Unkept(str(error)) from None
