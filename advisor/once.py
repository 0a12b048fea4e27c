"""Values that are worked out once, by whichever thread asks first; another that asks meanwhile waits for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")
_MISSING: Any = object()
_LOCKS = "_locks_of_properties"


class Locks:
    """A lock for each key. What a value needs never needs that value, so that no two threads wait for one another."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, RLock] = {}

    def __getitem__(self, key: Hashable) -> RLock:
        return self._locks.setdefault(key, RLock())


class once_property(Generic[Value]):
    """A property whose value is kept in the instance, as that of `functools.cached_property`, in several threads too."""

    def __init__(self, find: Callable[[Any], Value]) -> None:
        self._find, self._name = find, ""
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> once_property[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> once_property[Value] | Value:
        if instance is None:
            return self
        known = vars(instance)
        locks: Locks = known.get(_LOCKS) or known.setdefault(_LOCKS, Locks())
        with locks[self._name]:
            value = known.get(self._name, _MISSING)
            if value is _MISSING:
                value = known[self._name] = self._find(instance)
        result: Value = value
        return result
