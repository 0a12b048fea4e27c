"""Arguments of a DataLoader: worker processes, pinned batches, workers that stay."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from advisor.fix.arguments import set_all, set_to, value_of
from advisor.fix.edit import Change, Edit, Request, changed
from advisor.fix.source import NotEditable, Source
from advisor.regex import regex
from advisor.results.analysis import Setting

NAMES = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
POSITIONS = {"num_workers": 5, "pin_memory": 7}
"""Positions of arguments in DataLoader's signature; ``persistent_workers`` is by keyword alone."""
_MOST = 16
_COUNT = regex(r"num_workers=(\d+)")


def _loaders(request: Request, name: str) -> Iterator[Setting]:
    """Yield the setting of each loader that the finding speaks of, each place once."""
    seen = set()
    for setting in request.finding.settings:
        if setting.of == "DataLoader" and setting.name == name and (setting.file, setting.line) not in seen:
            seen.add((setting.file, setting.line))
            yield setting


def _single(request: Request, name: str) -> tuple[Source, cst.Call, Setting]:
    """Return the one loader that the finding speaks of."""
    found = list(_loaders(request, name))
    if len(found) != 1:
        raise NotEditable("the recording names no loader" if not found else f"{len(found)} loaders were in use")
    source, line = request.files.at(found[0].file, found[0].line)
    return source, source.single_call(*NAMES, line=line), found[0]


def _workers(request: Request) -> Iterator[Change]:
    """More workers where it loads itself: as many as are advised, fewer where there are few cores."""
    source, call, setting = _single(request, "num_workers")
    if setting.value != "0":
        raise NotEditable(f"{setting.as_run}: more workers only where cores are left")
    # Where no number follows from the trace, that of the rule's own example: the report shows it.
    example = _COUNT.search(request.finding.fix.after)
    text = setting.advice or (example[1] if example else "")
    advised = int(text) if text.isdigit() else 1
    for count in dict.fromkeys((max(1, min(advised, _MOST)), 1)):
        wanted: list[tuple[str, str, int | None]] = [("num_workers", str(count), POSITIONS["num_workers"])]
        if value_of(source, call, "persistent_workers") is None:
            wanted.append(("persistent_workers", "True", None))
        pieces = set_all(source, call, wanted)
        yield changed(source, pieces, f"num_workers={count}, persistent_workers=True")


def _fewer(request: Request) -> Iterator[Change]:
    """No workers, or one, where there are more of them than cores."""
    source, call, setting = _single(request, "num_workers")
    workers = int(setting.value) if setting.value.isdigit() else 0
    cores = request.cores
    if workers < 1 or cores is None or workers < cores:
        raise NotEditable(f"{setting.as_run}: cores are left for them")
    persistent = value_of(source, call, "persistent_workers")
    prefetch = value_of(source, call, "prefetch_factor")
    for count in (0, 1):
        if workers <= count or (count == 0 and (persistent is not None or prefetch is not None)):
            continue
        pieces = set_to(source, call, "num_workers", str(count), POSITIONS["num_workers"])
        yield changed(source, pieces, f"num_workers={count} (was {workers})")


def _persistent(request: Request) -> Iterator[Change]:
    source, call, _ = _single(request, "persistent_workers")
    yield changed(source, set_to(source, call, "persistent_workers", "True"), "persistent_workers=True")


def _pinned(request: Request) -> Iterator[Change]:
    source, call, _ = _single(request, "pin_memory")
    pieces = set_to(source, call, "pin_memory", "True", POSITIONS["pin_memory"])
    yield changed(source, pieces, "pin_memory=True")


EDITS = (
    Edit(
        "loader-workers",
        "Load the batches in worker processes",
        ("data-loading/single-process-loader", "cpu/loader-wait"),
        _workers,
        moves=True,
    ),
    Edit("fewer-workers", "Load with fewer workers than there are cores", ("cpu/slow-workers",), _fewer, moves=True),
    Edit(
        "persistent-workers",
        "Keep the workers from one epoch to the next",
        ("data-loading/worker-restart", "cpu/worker-restart"),
        _persistent,
        moves=True,
    ),
    Edit(
        "pinned-batches",
        "Pin the batches",
        ("transfer/pageable-copy", "data-loading/unpickling"),
        _pinned,
    ),
)
