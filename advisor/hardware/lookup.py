"""The rates of a device, by the name that torch gives it and by what else tells variants of one name apart."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from advisor.hardware import amd, geforce, intel, nvidia
from advisor.hardware.makers import vendor
from advisor.hardware.rates import KINDS, Device, Limit, Peaks, Rates
from advisor.hardware.reachable import LANES, MEASURED, OTHER, PCIE_PEAK, PCIE_REACHED, SHARES, Shares
from advisor.hardware.settings import Hardware
from advisor.regex import regex

T = TypeVar("T")
DEVICES = (*nvidia.DEVICES, *geforce.DEVICES, *amd.DEVICES, *intel.DEVICES)
NAMES = tuple(dict.fromkeys(device.name for device in DEVICES))
_MAKERS = (
    ("NVIDIA", (*nvidia.DEVICES, *geforce.DEVICES)),
    ("AMD Instinct", amd.DEVICES),
    ("Intel(R)", intel.DEVICES),
)
# CUDA compute capability by family, and of boards by the generation in their names.
_CAPABILITIES = {
    "volta": 7.0, "t4": 7.5, "turing": 7.5, "a100": 8.0, "a100-pcie": 8.0, "ampere": 8.6, "l4": 8.9, "ada": 8.9,
    "hopper": 9.0, "hopper-pcie": 9.0, "hopper-small": 9.0, "gh200": 9.0, "blackwell": 10.0,
}  # fmt: skip
_GENERATIONS = {"20": 7.5, "30": 8.6, "40": 8.9, "50": 12.0}


class Properties(NamedTuple):
    """A device as torch would describe it, by the table; None where the variants that a name fits do not agree."""

    name: str
    memory_bytes: int | None
    capability: float | None
    sms: int | None


# Devices of which no more is known than the generation of PCI Express; the first that fits, after those of the table.
_LINKS = (
    (r"GB\d+", 0),
    (r"K80|M60|P40|P100|V100|TITAN (?:V|Xp?)|MI25", 3),
    (r"Quadro RTX \d+|(?:RTX|GTX) (?:10|16|20)\d\d(?: Ti| SUPER)*", 3),
    (r"A[18]00|MI50|MI60|MI2\d\dX?|RTX A\d+|RTX [34]0\d\d(?: Ti| SUPER)*|RTX \d+ Ada", 4),
    (r"H[128]00|B[123]00|MI3(?:00|08|25)X|MI35\dX|RTX 50\d\d(?: Ti| SUPER)*|RTX PRO \d+", 5),
)  # fmt: skip
# ROCm takes a device's name from a file of the host that containers may not have.
_NAMELESS = regex(r"(?:AMD|Radeon|Instinct|Graphics|\s)*", re.IGNORECASE)
_LONGEST = 200
_LEAST, _MOST = 0.88, 1.06
"""Of the nominal memory, what torch may find: ECC and the driver keep some."""


def limits(name: str | None, sms: int | None, memory: int | None, *overrides: Hardware) -> Rates | None:
    """The rates of a device by its name, its multiprocessors (compute units) and bytes of memory; None where nothing is known.

    Of several variants that fit, as where the trace has a name and no more, what they agree in. A device of a known name
    that no variant fits, such as a slice of a GPU, is not known. *overrides* come before the table, the later before the earlier.
    """
    found = _merged(_fitting((name or "")[:_LONGEST], sms, memory))
    for given in overrides:
        found = _overridden(found, name, given) if given.is_of(name) else found
    return found


def peaks(name: str | None) -> Peaks | None:
    """The peak rates of an NVIDIA or AMD device by its name alone, of the first variant; None where the table has none.

    They tell how rates of types compare, which variants of one name agree in.
    """
    fitting = _named((name or "")[:_LONGEST], (*nvidia.DEVICES, *geforce.DEVICES, *amd.DEVICES))
    return fitting[0].peaks if fitting else None


def full_name(name: str | None, sms: int | None, memory: int | None) -> str | None:
    """The name of a device; of one that ROCm left nameless, that of the table's devices which its units and memory fit."""
    written = (name or "")[:_LONGEST]
    fitting = _fitting(written, sms, memory) if _NAMELESS.fullmatch(written) else ()
    return "AMD Instinct " + " or ".join(dict.fromkeys(device.name for device in fitting)) if fitting else name


def properties(name: str) -> Properties | None:
    """The properties of the device that *name* is of, such as ``MI300X`` or ``H100 PCIe``; None where the table has none."""
    fitting = [device for device in DEVICES if device.name.lower() == name.strip().lower()]
    fitting = fitting or _named(name[:_LONGEST], DEVICES)
    if not fitting:
        return None
    makers = [maker for maker, devices in _MAKERS if any(device in devices for device in fitting)]
    written = fitting[0].name if len({device.name for device in fitting}) == 1 else name.strip()
    full = name.strip() if vendor(name) != "unknown" and " " in name.strip() else f"{makers[0]} {written}"
    gib = _same(device.gib for device in fitting)
    return Properties(
        name=full,
        memory_bytes=None if gib is None else int(gib * (1 << 30)),
        capability=_same(_capability(device) for device in fitting),
        sms=_same(device.sms for device in fitting),
    )


def _capability(device: Device) -> float | None:
    if device.family == "geforce":
        return next((value for key, value in _GENERATIONS.items() if f"RTX {key}" in device.name), None)
    return _CAPABILITIES.get(device.family)


def _same(values: Iterable[T]) -> T | None:
    """Return what all values are; None where they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


@lru_cache(256)
def link_gbps(name: str | None) -> float | None:
    """The GB/s that pinned copies between host and device reach at best; None for a device that the table does not have."""
    name = (name or "")[:_LONGEST]
    for device in _named(name, DEVICES):
        return _reached(device.pcie, device.lanes)
    for pattern, generation in _LINKS:
        if _compiled(pattern).search(name):
            return _reached(generation)
    return None


def _reached(generation: int | None, lanes: int = LANES) -> float | None:
    reached = PCIE_REACHED.get(generation or 0)
    return reached * lanes / LANES if reached else None


_OPENING = regex(r"[A-Za-z\d -]*")
_REPEATS = ("?", "*", "{")


@cache
def openings(pattern: str) -> tuple[str, ...]:
    """Return what a text has to hold one of, in lower case, for a pattern to be found in it: how its alternatives begin."""
    depth, begin, parts = 0, 0, []
    for at, sign in enumerate(pattern):
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            parts.append(pattern[begin:at])
            begin = at + 1
    found = [(part, _OPENING.match(part)) for part in (*parts, pattern[begin:])]
    literal = [(part, match[0] if match else "") for part, match in found]
    # The last sign before a repetition may be missing.
    return tuple((text[:-1] if part[len(text) :].startswith(_REPEATS) else text).lower() for part, text in literal)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z\d])(?:{pattern})(?![A-Za-z\d])", re.IGNORECASE | re.ASCII)


def _named(name: str, devices: Iterable[Device]) -> list[Device]:
    """The devices that a name fits, and of these those whose pattern takes the most of it."""
    folded = name.lower()
    # Compiling the patterns of the whole table takes longer than all other work on limits.
    near = [device for device in devices if any(opening in folded for opening in openings(device.pattern))]
    lengths = [(len(found[0]), device) for device in near if (found := _compiled(device.pattern).search(name))]
    longest = max((length for length, _ in lengths), default=0)
    return [device for length, device in lengths if length == longest]


@lru_cache(256)
def _fitting(name: str, sms: int | None, memory: int | None) -> tuple[Device, ...]:
    if _NAMELESS.fullmatch(name):
        # Units and memory together tell a device; one of them does not.
        chosen = list(amd.DEVICES) if sms and memory else []
    else:
        chosen = _named(name, DEVICES)
    gib = memory / (1 << 30) if memory else None
    return tuple(
        device
        for device in chosen
        if (sms is None or device.sms in (None, sms))
        and (gib is None or device.gib is None or _LEAST * device.gib <= gib <= _MOST * device.gib)
    )


@lru_cache(256)
def _merged(devices: tuple[Device, ...]) -> Rates | None:
    """Rates that all of *devices* agree in, with the lower of two that are reachable."""
    if not devices:
        return None
    each = [_rates(device) for device in devices]
    first = each[0]
    if len(each) == 1:
        return first
    agreed = {
        kind: min((rates.limits[kind] for rates in each), key=lambda limit: limit.reachable or 0.0)
        for kind in first.limits
        if len({rates.peak(kind) for rates in each}) == 1
    }
    return Rates(
        name=" or ".join(dict.fromkeys(rates.name for rates in each)),
        source="; ".join(dict.fromkeys(rates.source for rates in each)),
        limits=agreed,
        sms=first.sms if len({rates.sms for rates in each}) == 1 else None,
        l2_bytes=first.l2_bytes if len({rates.l2_bytes for rates in each}) == 1 else None,
        last_level_bytes=first.last_level_bytes if len({rates.last_level_bytes for rates in each}) == 1 else None,
    )


def _rates(device: Device) -> Rates:
    shares, measured = SHARES[device.family], MEASURED.get(device.name, {})
    known = {**device.peaks._asdict(), "memory": device.memory, "gpu_link": device.gpu_link}
    found = {kind: _limit(kind, peak, shares, measured) for kind, peak in known.items() if peak is not None}
    if device.pcie:
        lanes = device.lanes / LANES
        found["host_link"] = Limit(
            PCIE_PEAK[device.pcie] * lanes,
            PCIE_REACHED[device.pcie] * lanes,
            "assumed",
            "pinned copies over PCI Express",
        )
    elif device.c2c:
        found["host_link"] = Limit(device.c2c, None, "assumed", "no measurement")
    return Rates(
        name=f"{device.name} ({device.per})" if device.per else device.name,
        source=device.source,
        limits={kind: found[kind] for kind in KINDS if kind in found},
        sms=device.sms,
        l2_bytes=_bytes(device.l2_mib),
        last_level_bytes=_bytes(device.last_level_mib),
    )


def _limit(kind: str, peak: float, shares: Shares, measured: dict[str, tuple[float, str]]) -> Limit:
    if kind in measured:
        return Limit(peak, measured[kind][0], "measured", measured[kind][1])
    return Limit(peak, peak * shares.of(kind), "assumed", f"a share of the peak: {shares.basis}")


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib * (1 << 20))


def _overridden(found: Rates | None, name: str | None, given: Hardware) -> Rates | None:
    """The rates with what is given in place of the table's; a peak that is given keeps the share that is reachable."""
    rates, reached = given.rates(), given.reachable.rates()
    if not rates and not reached and given.l2_bytes is None:
        return found
    rates_of = found or Rates(name or "a device without a name", "settings: hardware", {})
    limits = dict(rates_of.limits)
    for kind in KINDS:
        old = limits.get(kind)
        if kind in reached:
            peak = rates.get(kind) or max(old.peak if old else 0.0, reached[kind])
            limits[kind] = Limit(peak, min(peak, reached[kind]), "given", "settings: hardware.reachable")
        elif kind in rates and old and old.reachable and old.peak:
            limits[kind] = Limit(rates[kind], rates[kind] * old.reachable / old.peak, "assumed", old.source)
        elif kind in rates:
            limits[kind] = Limit(
                rates[kind], rates[kind] * OTHER.of(kind), "assumed", f"a share of the peak: {OTHER.basis}"
            )
    ordered = {kind: limits[kind] for kind in KINDS if kind in limits}
    l2_bytes = given.l2_bytes if given.l2_bytes is not None else rates_of.l2_bytes
    return replace(rates_of, limits=ordered, l2_bytes=l2_bytes)
