"""Files that lie elsewhere: any URL that fsspec knows, streamed, never fetched whole.

Credentials are found by the libraries' own ways and never looked at here; what an address may carry of them (a user and
password, the query of a signed URL) is cut from all that is shown (:mod:`advisor.privacy`).
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from advisor.errors import TraceError, UsageError
from advisor.privacy import address as shown
from advisor.privacy import is_url, quoted, without_home
from advisor.regex import regex

# What a torch worker calls itself: its host's name and its process. It is the host that nobody need know.
_WORKER = regex(r"^(?!rank[-_ ]?\d+\.)[^/\\]+(?=_\d+\.\d{9,}\.pt\.trace\.json)", re.IGNORECASE)
_RANK = regex(r"rank[-_ ]?\d{1,9}", re.IGNORECASE)
BLOCK = 8 << 20
__all__ = ["NEEDS", "Remote", "file_system", "is_url", "message_of", "public", "shown"]
NEEDS = "in a checkout of the advisor, pip install '.[cluster]'"


def public(address: str | os.PathLike[str]) -> str:
    """*address* as a report names it: without home directories, and the host's name in what torch's handler calls its files."""
    text = shown(os.fspath(address))
    if not is_url(text):
        text = without_home(text)
    at = max(text.rfind("/"), text.rfind("\\")) + 1
    return text[:at] + _WORKER.sub(_nameless, text[at:])


def machine_of(address: str | os.PathLike[str]) -> str:
    """A number for the host in what torch's handler calls its files; '' where the name has none, or says the rank as well."""
    text = os.fspath(address)
    found = _WORKER.search(text[max(text.rfind("/"), text.rfind("\\")) + 1 :])
    if found is None or _RANK.search(found[0]):
        return ""
    return hashlib.sha256(found[0].encode("utf-8", "backslashreplace")).hexdigest()[:16]


def _nameless(match: re.Match[str]) -> str:
    rank = _RANK.search(match[0])
    return f"HOST-{rank[0]}" if rank else "HOST"


def file_system(address: str) -> tuple[Any, str]:
    """The file system of a URL, and the path there. Raises ``UsageError`` where a package for it is missing."""
    try:
        import fsspec
    except ImportError:
        raise UsageError(f"{shown(address)}: URLs are read by fsspec, which is not installed: {NEEDS}") from None
    try:
        system, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"{shown(address)}: {message_of(error, address)}. Most of it: {NEEDS}") from None
    except Exception as error:  # noqa: BLE001  (each protocol has exceptions of its own)
        raise UsageError(f"{shown(address)}: is no address that can be read: {message_of(error, address)}") from None
    return system, str(path)


class Remote:
    """A remote file, open for reading from its beginning. Whatever its library raises becomes an ``OSError``."""

    def __init__(self, address: str) -> None:
        self._address = address
        system, path = file_system(address)
        try:
            self._file = system.open(path, "rb", block_size=BLOCK, cache_type="readahead")
        except FileNotFoundError as error:
            if isinstance(error.__cause__, OSError):  # as fsspec puts it where no server answers
                raise TraceError(
                    f"{shown(address)}: cannot be opened: {message_of(error.__cause__, address)}"
                ) from None
            raise TraceError(f"{shown(address)}: no such file") from None
        except Exception as error:  # noqa: BLE001  (each protocol has exceptions of its own)
            raise TraceError(f"{shown(address)}: cannot be opened: {message_of(error, address)}") from None

    def read(self, size: int) -> bytes:
        """Up to *size* bytes; none at the end."""
        try:
            return bytes(self._file.read(size))
        except Exception as error:  # noqa: BLE001  (as above)
            raise OSError(message_of(error, self._address)) from None

    def seek(self, position: int) -> int:
        """Go on at *position*."""
        return int(self._file.seek(position))

    def close(self) -> None:
        """Give the connection back."""
        self._file.close()


def message_of(error: BaseException, address: str = "") -> str:
    """Put an error on one line, in the library's words; only its kind, where it quotes what is secret in *address*."""
    return quoted(str(error), address)[:300] or type(error).__name__
