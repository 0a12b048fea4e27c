"""The events of each category as Kineto writes them, with the fields that their columns are made of and no others.

Such an event is decoded in three quarters of the time that :class:`advisor.reading.events.Event` takes, which has the fields
of all. A list with an event of another kind, or one that is written otherwise or damaged, is no such list.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, Union

import msgspec
from msgspec import Struct, defstruct, field

from advisor.reading.events import BROKEN, Args, Event

_CALL = ("external", "correlation", "kernel")
_OP = (
    "external", "sequence", "forward_thread", "concrete", "types", "strides", "dims", "index", "dims_old", "stack",
    "python_before", "written_before", "stack_trace", "kernel_file", "kernel_kwargs", "collective", "comm_dtype",
    "in_elements", "out_elements", "group_size", "group_name", "group_ranks", "collective_seq", "source", "destination",
)  # fmt: skip
_GPU = ("external", "device", "stream", "correlation", "bytes")
_KERNEL = (
    "external", "device", "stream", "correlation", "registers", "shared", "blocks_per_sm", "warps_per_sm", "grid",
    "block", "occupancy", "graph_node", "annotation",
)  # fmt: skip
_COMPLETE: dict[str, Sequence[str]] = {
    "python_function": (),
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
"""Categories of events that have a duration, and the arguments that are read of each."""
_INSTANT = "cpu_instant_event"
_MEMORY = ("reserved", "allocated", "memory_bytes", "address", "device_id", "device_type")
_FLOW = "ac2g"
_PASSED_OVER = ("fwdbwd",)
_MOST_MISSES = 4
"""Lists in a row that were no such lists, from which on none is tried."""


def category(kind: type[Struct]) -> str:
    """Return the category of the events that a struct is of."""
    return str(kind.__struct_config__.tag)


def _kind(name: str, fields: Sequence[tuple[Any, ...]], arguments: Sequence[str], *, ties: bool) -> type[Struct]:
    wanted = [argument for argument in arguments if ties or argument != "external"]
    if wanted:
        known = {one.name: one for one in msgspec.structs.fields(Args)}
        args = defstruct(
            f"Args of {name}",
            [(key, known[key].type, field(default=known[key].default, name=known[key].encode_name)) for key in wanted],
            gc=False,
        )
        fields = [*fields, ("args", args | None, None)]
    return defstruct(f"Event of {name}", fields, gc=False, tag_field="cat", tag=name)


@cache
def _decoder(ties: bool) -> msgspec.json.Decoder[list[Any]]:
    """Return the decoder of such lists; without *ties* one that passes flows and External ids over."""
    key, time = int | str, int | float
    place: list[tuple[Any, ...]] = [("name", str), ("pid", key), ("tid", key), ("ts", time)]
    kinds = [
        _kind(name, [("ph", Literal["X"]), *place, ("dur", time)], arguments, ties=ties)
        for name, arguments in _COMPLETE.items()
    ]
    instant = [
        ("ph", Literal["i"]),
        ("name", Literal["[memory]", "[OutOfMemory]"]),
        *place[1:],
        ("dur", time | None, None),
    ]
    kinds.append(_kind(_INSTANT, instant, _MEMORY, ties=ties))
    flow = [("ph", str), ("id", key), *place[1:]] if ties else []
    kinds.append(_kind(_FLOW, flow, (), ties=ties))
    kinds += [_kind(name, [], (), ties=ties) for name in _PASSED_OVER]
    return msgspec.json.Decoder(list[Union[tuple(kinds)]])  # type: ignore[misc]  # noqa: UP007


class Usual:
    """Decodes lists of such events, and gives up where a trace is of others."""

    def __init__(self) -> None:
        self._misses = 0

    def decode(self, text: bytes, *, ties: bool) -> list[Event] | None:
        """Return the events of a list, with the attributes that their columns need; None where it is no such list."""
        if self._misses >= _MOST_MISSES:
            return None
        try:
            events = _decoder(ties).decode(text)
        except BROKEN:
            self._misses += 1
            return None
        self._misses = 0
        return events
