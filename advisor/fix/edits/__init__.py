"""The edits that there are, a file a subject. A new one is a file with its ``EDITS``, and its name here."""

from __future__ import annotations

from advisor.fix.edit import Edit
from advisor.fix.edits import (
    accumulation,
    arrays,
    attention,
    checkpoints,
    collector,
    compilation,
    constructors,
    detached,
    double,
    embedding,
    heads,
    hoisting,
    inference,
    loader,
    losses,
    optimizer,
    rows,
    selection,
    switches,
    threads,
)

EDITS: tuple[Edit, ...] = (
    *loader.EDITS,
    *rows.EDITS,
    *threads.EDITS,
    *optimizer.EDITS,
    *inference.EDITS,
    *attention.EDITS,
    *heads.EDITS,
    *arrays.EDITS,
    *selection.EDITS,
    *losses.EDITS,
    *accumulation.EDITS,
    *detached.EDITS,
    *checkpoints.EDITS,
    *embedding.EDITS,
    *hoisting.EDITS,
    *constructors.EDITS,
    *compilation.EDITS,
    *collector.EDITS,
    *double.EDITS,
    *switches.EDITS,
)
