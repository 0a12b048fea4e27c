"""``advisor`` in children of one process that has imported torch: that import takes longer than most programs of a test.

What a child does, and how it ends, is what ``python -m advisor`` does from there on. One JSON list a line on stdin: the words,
the folder, and the files for both outputs; the exit status of each comes back on stdout, one a line.
"""

from __future__ import annotations

import json
import os
import runpy
import sys

import torch
import torch._dynamo  # the first step of any optimizer imports it

import advisor.cli  # noqa: F401

# What computes starts threads, and a child of a process with threads may wait for them for ever.
assert torch.get_num_threads() == 1, "OMP_NUM_THREADS is 1 where this is started"

for line in sys.stdin:
    words, folder, *outputs = json.loads(line)
    child = os.fork()
    if not child:
        break
    sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
    sys.stdout.flush()
else:
    sys.exit()

for number, name in enumerate((os.devnull, *outputs)):
    file = os.open(name, os.O_RDWR)
    os.dup2(file, number)
    os.close(file)
os.chdir(folder)
sys.argv = ["advisor", *words]
sys.path[0] = folder
runpy.run_module("advisor", run_name="__main__", alter_sys=True)
