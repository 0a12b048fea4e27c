"""No name can make a pattern slow: every regular expression of the package, on names that are made to be bad for one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.paths import ROOT

# Anchored, as most are used, a pattern may take no more than the length; searched for, it may begin anywhere in a shorter
# name. What takes the square of the one, or the cube of the other, takes longer than all of this together.
FULL = ("131072", "2048", "150")
# Names this short show a pattern that never ends, and one that takes the cube; the square only the full ones.
SHORT = ("4096", "256", "20")
SCRIPT = r"""
import importlib, pkgutil, re, resource, sys
import advisor
from advisor.regex import _Uncompiled

ANCHORED, SEARCHED, SECONDS = map(int, sys.argv[1:4])
resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
extra = [re.compile(text) for text in sys.argv[4:]]
ATOMS = [
    "a", "/", "\\", ".", "_", "(", "<", "[", " ", "\t", ":", "-", "0", "a/", "/a", "a.", ".py(", "::", "A_", "[0,", '"', '",',
    "{", "}", "xmma_gemm", "bmm_", "cudnn_", "cudnn_a", "python3/", "/lib/python3.1/", "site-packages/x", "/home/a", "~a",
    "https://", "\x1b[", "\x1b]", "\x9b", "`", "\\|", "nan", "a@", '"a":', '"a\\', "} , {", "ab/cd.", "x-", "C:/", "__", "#1",
    "fused_", "_engine", "attention ", "a b", "Fwd(", "Backward", "##",
]
patterns = set(extra)
for module in pkgutil.walk_packages(advisor.__path__, "advisor."):
    if ".record" in module.name or module.name.endswith(("__main__", "pytest_plugin")):
        continue
    for value in vars(importlib.import_module(module.name)).values():
        items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        for item in items:
            for one in item if isinstance(item, (list, tuple)) else [item]:
                if isinstance(one, _Uncompiled):
                    patterns.add(re.compile(one._text, one._flags))
                elif isinstance(one, re.Pattern):
                    patterns.add(one)
for pattern in patterns:
    for atom in ATOMS:
        for length, tried in ((ANCHORED, pattern.match), (SEARCHED, pattern.search)):
            name = (atom * length)[:length] + "!"
            tried(name.encode() if isinstance(pattern.pattern, bytes) else name)
print(len(patterns))
"""


def tried(anchored: str, searched: str, seconds: str, *extra: str) -> subprocess.CompletedProcess[str]:
    """Try all patterns, and *extra* ones, on all names of these lengths; the process is ended where that takes too long."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, anchored, searched, seconds, *extra],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the processor's time cannot be bounded there")
@pytest.mark.parametrize(
    "lengths", [SHORT, pytest.param(FULL, marks=pytest.mark.study)], ids=lambda lengths: lengths[0]
)
def test_no_pattern_takes_the_square_of_a_name(lengths: tuple[str, str, str]) -> None:
    done = tried(*lengths)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 600


@pytest.mark.skipif(sys.platform == "win32", reason="the processor's time cannot be bounded there")
def test_one_that_never_ends_is_found() -> None:
    assert tried(*SHORT[:2], "2", r"^(a+)+$").returncode < 0  # ended by a signal
