"""A device's name and properties where the recording has none: as the user says them, with what the hardware table knows."""

from __future__ import annotations

from msgspec.structs import replace

from advisor import hardware
from advisor.errors import UsageError, nearest
from advisor.reading.metadata import Device
from advisor.reading.stream import Recorded
from advisor.timeline.recording import Recording


def name_device(recorded: Recorded, name: str) -> Recorded:
    """The recording with *name* as the device of all its GPU work, where the trace does not name one; noted either way.

    Raises ``UsageError`` for a device that the hardware table does not have.
    """
    known = hardware.properties(name)
    if known is None:
        raise UsageError(f'--device: no device "{name}" in the table of hardware{nearest(name, hardware.NAMES, 0.4)}')
    listed = recorded.metadata.devices
    said = next((device.name for device in listed if device.name), None)
    if said is not None:
        note = ("device", f"the trace names its device {said}, which stands: --device {name} changes nothing")
        return replace(recorded, notes=[*recorded.notes, note])
    of_trace = {device.id: device for device in listed}
    numbers = sorted({*of_trace, *Recording(recorded).devices} or {0})
    devices = tuple(_filled(of_trace.get(number), number, known) for number in numbers)
    note = ("device", f"the trace does not name its device; it is taken for {known.name}, as --device says")
    metadata = replace(recorded.metadata, devices=devices)
    return replace(recorded, metadata=metadata, notes=[*recorded.notes, note])


def _filled(entry: Device | None, number: int, known: hardware.Properties) -> Device:
    """Return a device's entry, with what the table knows in place of what the trace leaves open."""
    return Device(
        id=number,
        name=known.name,
        memory_bytes=entry.memory_bytes if entry and entry.memory_bytes else known.memory_bytes,
        capability=entry.capability if entry and entry.capability else known.capability,
        sms=entry.sms if entry and entry.sms else known.sms,
    )
