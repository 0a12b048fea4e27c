"""Settings of every test run: no cache, and folders of tests spread over the cores."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.register_assert_rewrite("support")
os.environ["ADVISOR_CACHE"] = "off"  # a test that wants a cache names its own

from support.traces import real_trace  # noqa: E402


@pytest.fixture
def real() -> Any:
    """``real("h100_bert_small.json.gz")`` is the path of that trace."""
    return real_trace
