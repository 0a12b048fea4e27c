"""Text of a program that tells of training: read without asking its modules anything."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from advisor.record import training


class Lazy(ModuleType):
    """A module that is loaded once anything of it is asked for, as importlib.util.LazyLoader makes them."""

    loaded = False

    def __getattribute__(self, name: str) -> object:
        type(self).loaded = True
        return super().__getattribute__(name)


@pytest.mark.parametrize(("text", "expected"), [("import torch.optim", True), ("x = 1", False)])
def test_modules_beside_the_script_are_read_and_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: bool
) -> None:
    main, beside = ModuleType("__main__"), ModuleType("beside")
    main.__file__, beside.__file__ = str(tmp_path / "job.py"), str(tmp_path / "beside.py")
    (tmp_path / "job.py").write_text("import beside")
    (tmp_path / "beside.py").write_text(text)
    monkeypatch.setattr(Lazy, "loaded", False)
    for name, module in {"__main__": main, "beside": beside, "lazy": Lazy("lazy"), "none": object()}.items():
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    assert training._names() is expected
    assert not Lazy.loaded
