"""Numbers of values that pieces of a text were given one after the other, as the whole text would have given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from advisor.reading.columns import Codes, Table


def renumber(codes: Codes, known: int, keys: Sequence[str], groups: Mapping[str, Sequence[Table]]) -> None:
    """Number the values behind the first *known* anew, in the columns *keys* of all tables.

    A whole text numbers one column of a group after the other. *groups* holds the tables of each, a piece a table.
    """
    if len(codes) == known:
        return
    coded = [(key, tables) for tables in groups.values() for key in tables[0] if key in keys]
    rows = np.concatenate([table[key] for key, tables in coded for table in tables])
    order = list(dict.fromkeys(rows[rows >= known].tolist()))
    values = list(islice(codes, known, None))
    number = np.arange(len(codes), dtype=np.int32)
    number[order] = np.arange(known, len(codes))
    for value in values:
        del codes[value]
    for code in order:
        codes[values[code - known]] = len(codes)
    for key, tables in coded:
        for table in tables:
            table[key] = number[table[key]]


def forget(codes: Codes, known: int) -> None:
    """Forget the values behind the first *known*."""
    while len(codes) > known:
        value, _ = codes.popitem()
        codes.characters -= len(value)
