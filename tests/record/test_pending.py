"""Calls in the main thread that another thread asks for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.paths import ROOT

HEAD = """
import sys, threading, time
from advisor.record.pending import in_main_thread

def busy(seconds):  # of this thread: where the machine stands still for a second, others get their turn behind it
    ended = time.thread_time() + seconds
    while time.thread_time() < ended:
        empty()

def empty():
    pass
"""
ANOTHER_MEANWHILE = """
done = []

def long():
    busy(0.3)
    done.append("long")

def ask():
    in_main_thread(long)
    time.sleep(0.1)
    in_main_thread(lambda: done.append("short"))

sys.settrace(lambda *_: None)
threading.Thread(target=ask).start()
busy(0.6)
sys.settrace(None)
print(*done)
"""
INTERRUPTED = """
import _thread, signal

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background begins with it ignored

def long():
    threading.Timer(0.1, _thread.interrupt_main).start()
    busy(0.3)

try:
    threading.Thread(target=in_main_thread, args=(long,)).start()
    busy(1.0)
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""
AMID_AN_OPERATOR = """
import traceback
done = []
scope = {"__name__": "advisor.record.constants", "busy": busy}
exec("def __torch_dispatch__():\\n    busy(0.3)", scope)
amid = lambda: "__torch_dispatch__" in {each.name for each in traceback.extract_stack()}
threading.Timer(0.1, in_main_thread, [lambda: done.append(amid())]).start()
for _ in range(4):
    scope["__torch_dispatch__"]()
    busy(0.01)
print(*done)
"""


@pytest.mark.parametrize(
    ("body", "said"), [(ANOTHER_MEANWHILE, "long short"), (INTERRUPTED, "interrupted"), (AMID_AN_OPERATOR, "False")]
)
def test_calls_in_the_main_thread(body: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + body], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.strip() == said, done.stderr
