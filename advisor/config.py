"""Settings of a project: ``[tool.advisor]`` in pyproject.toml, or advisor.toml.

The nearest one upward from the working folder counts; in one folder advisor.toml comes before pyproject.toml, and a
pyproject.toml without the section is passed over. What is not understood is an error, never ignored: a misspelt
``fail_on`` would leave a CI check that checks nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from advisor.errors import UsageError
from advisor.gating.settings import Settings
from advisor.gating.settings import read as read_gate

DEFAULT_CACHE_GB = 4.0
FAIL_ON = ("low", "medium", "high")
_BARE_ID = re.compile(r"^[ \t[]*(?:tool\.advisor\.)?limits\.([\w-]+/[\w-]+)", re.MULTILINE)


@dataclass(frozen=True)
class Config:
    """What a project has set. ``path`` is the file, None where there is none; folders of rules are absolute."""

    path: Path | None = None
    rules: tuple[Path, ...] = ()
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    fail_on: str | None = None
    library: tuple[str, ...] = ()
    """Top-level packages whose frames are not the user's own, beside those that the advisor knows."""
    limits: dict[str, dict[str, float | str]] = field(default_factory=dict)
    """Rule id to limit to number (or text, where the rule's is text), in the unit that the rule gives."""
    cache_gb: float = DEFAULT_CACHE_GB
    """What the cache of large traces may take of the disk; 0 keeps none."""
    gate: Settings = field(default_factory=Settings)
    """What the gate is asked, ``[tool.advisor.gate]``."""


KEYS = ("rules", "only", "skip", "fail_on", "library", "limits", "cache_gb", "gate")


def load(path: str | Path | None = None, start: str | Path | None = None) -> Config:
    """The settings in *path*, or in the nearest file upward from *start* (the working folder).

    Raises ``UsageError`` that names the file for what cannot be read, is unknown, or is of the wrong type.
    """
    if path is not None:
        chosen = Path(path)
        table = _section(chosen, _parse(chosen))
        if table is None:
            raise UsageError(f"{chosen}: no [tool.advisor] section. Add one, or name another file with --config.")
        return _config(chosen, table)
    folder = Path(start or Path.cwd()).resolve()
    for parent in (folder, *folder.parents):
        for name in ("advisor.toml", "pyproject.toml"):
            candidate = parent / name
            if candidate.is_file() and (table := _section(candidate, _parse(candidate))) is not None:
                return _config(candidate, table)
    return Config()


def _parse(path: Path) -> dict[str, Any]:
    import tomllib

    if path.exists() and not path.is_file():  # a device or a pipe might never end
        raise UsageError(f"{path}: is no file")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8, from byte {error.start} on; save it as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        bare = _BARE_ID.search(path.read_text(encoding="utf-8"))
        quoted = f'. The id of a rule goes in quotes: limits."{bare[1]}"' if bare else ""
        raise UsageError(f"{path}: not valid TOML: {error}{quoted}") from error


def _section(path: Path, document: dict[str, Any]) -> dict[str, Any] | None:
    """The settings' own table: all of advisor.toml, ``[tool.advisor]`` of a pyproject.toml."""
    if path.name != "pyproject.toml":
        return document
    tool = document.get("tool", {})
    section = tool.get("advisor") if isinstance(tool, dict) else None
    if section is not None and not isinstance(section, dict):
        raise UsageError(f"{path}: tool.advisor must be a table, not {_kind(section)}")
    return section


def _config(path: Path, table: dict[str, Any]) -> Config:
    for key in table:
        if key not in KEYS:
            raise UsageError(f'{path}: unknown key "{key}"{_nearest(key)}. Known keys: {", ".join(KEYS)}.')
    fail_on = table.get("fail_on")
    if fail_on is not None and fail_on not in FAIL_ON:
        raise UsageError(f"{path}: fail_on must be one of {', '.join(FAIL_ON)}, not {fail_on!r}")
    folder = path.resolve().parent
    rules = tuple(folder / text for text in _texts(path, table, "rules"))
    for rule_folder in rules:
        if not rule_folder.is_dir():
            raise UsageError(f"{path}: rules: no folder {rule_folder}. Paths are relative to the file's own folder.")
    return Config(
        path=path,
        rules=rules,
        only=_texts(path, table, "only"),
        skip=_texts(path, table, "skip"),
        fail_on=fail_on,
        library=_texts(path, table, "library"),
        limits=_limits(path, table.get("limits", {})),
        cache_gb=_gigabytes(path, table.get("cache_gb", DEFAULT_CACHE_GB)),
        gate=read_gate(str(path), table.get("gate", {})),
    )


def _texts(path: Path, table: dict[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise UsageError(f'{path}: {key} must be a list of strings, such as {key} = ["…"]')
    return tuple(value)


def _limits(path: Path, value: object) -> dict[str, dict[str, float | str]]:
    if not isinstance(value, dict):
        raise UsageError(f"{path}: limits must be a table of rule ids, not {_kind(value)}")
    limits: dict[str, dict[str, float | str]] = {}
    for rule, wanted in value.items():
        if not isinstance(wanted, dict):
            raise UsageError(
                f'{path}: limits."{rule}" must be a table of limits, '
                'such as limits."transfer/pageable-copy".min_bytes = 1'
            )
        for limit, figure in wanted.items():
            if isinstance(figure, str) and figure:
                continue
            if isinstance(figure, dict):
                raise UsageError(
                    f'{path}: limits.{rule}.{limit}: the id of a rule goes in quotes: limits."{rule}/{limit}"'
                )
            if isinstance(figure, bool) or not isinstance(figure, int | float) or not math.isfinite(figure):
                raise UsageError(f'{path}: limits."{rule}".{limit} must be a number, not {figure!r}')
        limits[rule] = dict(wanted)
    return limits


def _gigabytes(path: Path, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise UsageError(f"{path}: cache_gb must be a number of GB, 0 or more, not {value!r}")
    return float(value)


def _nearest(key: str, known: Iterable[str] = KEYS) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key.replace("-", "_"), list(known), n=1, cutoff=0.5)
    return f"; nearest: {near[0]}" if near else ""


def _kind(value: object) -> str:
    return {str: "a string", list: "a list", bool: "a truth value", int: "a number", float: "a number"}.get(
        type(value), f"{type(value).__name__}"
    )
