"""Marks on the fields of results: the meaning of a field, and what kind of text it holds.

``file: Annotated[FilePath | None, doc("The innermost frame that is the user's own; None where …")]``: the JSON Schemas in
``docs/`` take the meaning from here, ``--redact`` the kind. Text without a kind is taken to be free text, so that a new
field names no folder before somebody has thought of it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Cell = str | int | float | bool | None
"""A value in a table."""

Text = Annotated[str, Meta(extra={"text": "free"})]
"""Free text that may quote the trace; with ``--redact`` the paths in it are cut down to their last part."""
Name = Annotated[str, Meta(extra={"text": "name"})]
"""Name of a rule, function, module, operator, kernel, group or device; it stays."""
Wording = Annotated[str, Meta(extra={"text": "wording"})]
"""Text that is the advisor's or a rule's own, with figures and names at most; it stays."""
FilePath = Annotated[str, Meta(extra={"text": "path"})]
"""Path of a file; ``--redact`` leaves its last part."""
CodeLine = Annotated[str, Meta(extra={"text": "line"})]
"""``transformers/models/x.py:812 forward``: a path, a line and a function; ``--redact`` leaves the file's name."""
EventName = Annotated[str, Meta(extra={"text": "event"})]
"""A name as the timeline writes it: ``forward (models/x.py:812)``, or free text."""
Cells = Annotated[list[list[Cell]], Meta(extra={"text": "cells"})]
"""Rows of a table, beside a field ``columns`` whose names say which hold places in the source; other texts are free."""


def doc(meaning: str) -> Meta:
    """Declare the meaning of a field: what it is, its unit, and what None stands for."""
    return Meta(description=meaning)
