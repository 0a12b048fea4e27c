"""Pickles of plain data: lists, tuples, dicts, sets, texts, bytes, numbers, truth values and None, and nothing else.

A pickle is a program. Of its instructions only those are known here that build plain data: none that names, makes or calls
anything, so nothing in a file can be executed. Memory grows with the file: nothing is reserved by a size that it claims.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import Any

# Instructions, by the names of pickletools. GLOBAL, STACK_GLOBAL, REDUCE, BUILD, INST, OBJ, NEWOBJ, NEWOBJ_EX, EXT1 to EXT4,
# PERSID and BINPERSID are left out, as are buffers that are reserved by their size (BYTEARRAY8, NEXT_BUFFER, READONLY_BUFFER).
_PLAIN = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK, pickle.DUP,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE,
    pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG, pickle.LONG1, pickle.LONG4,
    pickle.FLOAT, pickle.BINFLOAT,
    pickle.UNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE, pickle.BINUNICODE8,
    pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.BINBYTES8, pickle.STRING, pickle.BINSTRING, pickle.SHORT_BINSTRING,
    pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.LIST,
    pickle.EMPTY_TUPLE, pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
    pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS,
    pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET,
    pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE,
)  # fmt: skip
_INTERPRETER: Any = pickle._Unpickler


# What an interpreter meets in instructions that do not fit together.
_DAMAGE = (
    *(ValueError, TypeError, AttributeError, IndexError, OverflowError, RecursionError, MemoryError, AssertionError),
    NameError,
)


class NotPlain(ValueError):
    """A pickle that is damaged, or that holds more than plain data."""


class _Plain(_INTERPRETER):  # type: ignore[misc]
    """The standard library's interpreter in Python, with these instructions alone."""

    dispatch = {code[0]: _INTERPRETER.dispatch[code[0]] for code in _PLAIN}

    def find_class(self, module: str, name: str) -> Any:
        """Refuse: no instruction that is left comes here."""
        raise NotPlain(f"it names {module[:40]}.{name[:40]}")

    def persistent_load(self, pid: Any) -> Any:
        """Refuse likewise."""
        raise NotPlain("it refers to something outside of it")


def loads(data: bytes) -> Any:
    """The value that a pickle holds. Raises NotPlain."""
    try:
        return _Plain(io.BytesIO(data), encoding="utf-8", errors="replace").load()
    except KeyError as error:
        code = error.args[0] if error.args else None
        if isinstance(code, int) and code not in _Plain.dispatch and code in _INTERPRETER.dispatch:
            raise NotPlain("it holds instructions that make or call something, and was not read") from None
        raise NotPlain("its instructions are damaged") from None
    except NotPlain:
        raise
    except (pickle.UnpicklingError, EOFError, struct.error) as error:
        cut = not isinstance(error, pickle.UnpicklingError) or "truncated" in str(error)
        raise NotPlain("it is cut off" if cut else "its instructions are damaged") from None
    except _DAMAGE:
        raise NotPlain("its instructions are damaged") from None
