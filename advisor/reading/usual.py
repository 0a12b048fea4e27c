"""The events of each category as Kineto writes them, with the fields that are usual for it and no others.

Such an event is decoded in less time than :class:`advisor.reading.events.Event` takes, which has the fields of all. A list with
an event of another kind, or one that is written otherwise or damaged, is no such list: what is read of a list does not depend
on which of the two decoded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Union

import msgspec
from msgspec import Struct, defstruct, field

from advisor.reading.events import BROKEN, Args, Event

_Other = int | float | str | list[Any] | None
_MESSAGE = (
    "collective", "comm_dtype", "in_elements", "out_elements", "group_size", "group_name", "group_ranks", "collective_seq",
    "source", "destination",
)  # fmt: skip
_CALL = ("external", "correlation", "kernel", "grid", "block", "shared", "bytes", "stream")
_OP = (
    "external", "sequence", "forward_thread", "concrete", "types", "strides", "dims", "index", "dims_old", "stack",
    "python_before", "written_before", "stack_trace", "kernel_file", "kernel_kwargs", *_MESSAGE,
)  # fmt: skip
_GPU = ("external", "device", "stream", "correlation", "bytes")
_KERNEL = (
    "external", "device", "stream", "correlation", "registers", "shared", "blocks_per_sm", "warps_per_sm", "grid",
    "block", "occupancy", "graph_node", "annotation", *_MESSAGE,
)  # fmt: skip
_COMPLETE: dict[str, Sequence[str]] = {
    "python_function": ("index",),
    "overhead": (),
    "cpu_op": _OP,
    "user_annotation": _OP,
    "cuda_runtime": _CALL,
    "cuda_driver": _CALL,
    "kernel": _KERNEL,
    "gpu_memcpy": _GPU,
    "gpu_memset": _GPU,
    "gpu_user_annotation": _GPU,
}
"""Categories of events that have a duration, and the arguments of each, as :class:`advisor.reading.events.Args` has them."""
_GROUP = ("Process Group Description", "In split size", "Out split size")
_OTHERS: dict[str, Sequence[str]] = {
    "python_function": ("Python parent id", "Python id", "Python module id"),
    "cpu_op": ("Record function id", *_GROUP, "Rank", "Global rank start", "Global rank stride", "Process Group ID"),
    "user_annotation": ("Record function id", *_GROUP),
    "cuda_runtime": ("cbid", "cid", "ptr", "src", "dst", "kind", "size"),
    "cuda_driver": ("cbid",),
    "kernel": ("queued", "context", "kind", *_GROUP),
    "gpu_memcpy": ("context", "memory bandwidth (GB/s)", "kind"),
    "gpu_memset": ("context", "memory bandwidth (GB/s)", "kind"),
}
"""Arguments that nobody reads, whatever they hold. With one that is not named here an event is not usual."""
_INSTANT = "cpu_instant_event"
_MEMORY = ("reserved", "allocated", "memory_bytes", "address", "device_id", "device_type", "index")
_FLOWS = ("ac2g", "fwdbwd")
_MOST_MISSES = 4
"""Lists in a row that were no such lists, from which on none is tried."""


def category(kind: type[Struct]) -> str:
    """Return the category of the events that a struct is of."""
    return str(kind.__struct_config__.tag)


def _kind(name: str, fields: Sequence[tuple[Any, ...]], arguments: Sequence[str] = ()) -> type[Struct]:
    if arguments:
        known = {one.name: one for one in msgspec.structs.fields(Args)}
        read = [
            (key, known[key].type, field(default=known[key].default, name=known[key].encode_name)) for key in arguments
        ]
        others: list[tuple[Any, ...]] = [
            (f"other{at}", _Other, field(default=None, name=key)) for at, key in enumerate(_OTHERS.get(name, ()))
        ]
        args = defstruct(f"Args of {name}", [*read, *others], gc=False, forbid_unknown_fields=True)
        fields = [*fields, ("args", args | None, None)]
    return defstruct(f"Event of {name}", fields, gc=False, tag_field="cat", tag=name, forbid_unknown_fields=True)


@cache
def _decoder() -> msgspec.json.Decoder[list[Any]]:
    key, time = int | str, int | float
    place: list[tuple[Any, ...]] = [("pid", key), ("tid", key), ("ts", time)]
    kinds = [
        _kind(name, [("ph", Literal["X"]), ("name", str), *place, ("dur", time)], arguments)
        for name, arguments in _COMPLETE.items()
    ]
    memory = Literal["[memory]", "[OutOfMemory]"]
    instant = [("ph", Literal["i"]), ("s", str, ""), ("name", memory), *place, ("dur", time | None, None)]
    kinds.append(_kind(_INSTANT, sorted(instant, key=len), _MEMORY))
    flow = [("ph", str), ("id", key), *place, ("name", str | None, ""), ("bp", str, "")]
    kinds += [_kind(name, flow) for name in _FLOWS]
    return msgspec.json.Decoder(list[Union[tuple(kinds)]])  # type: ignore[misc]  # noqa: UP007


class Usual:
    """Decodes lists of such events, and gives up where a trace is of others."""

    def __init__(self) -> None:
        self._misses = 0

    def decode(self, text: bytes) -> list[Event] | None:
        """Return the events of a list, with the attributes that their columns need; None where it is no such list."""
        if self._misses >= _MOST_MISSES:
            return None
        try:
            events = _decoder().decode(text)
        except BROKEN:
            self._misses += 1
            return None
        self._misses = 0
        return events
