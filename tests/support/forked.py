"""``python -m`` in children of one process that has imported torch: that import takes longer than most programs of a test.

What a child does, and how it ends, is what ``python -m MODULE`` does from there on. One JSON list a line on stdin: the module,
its words, the folder, and the files for both outputs; the exit status of each comes back on stdout, one a line.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys

import torch
import torch._dynamo  # the first step of any optimizer imports it

import advisor.cli  # noqa: F401

# What computes starts threads, and a child of a process with threads may wait for them for ever.
assert torch.get_num_threads() == 1, "OMP_NUM_THREADS is 1 where this is started"

# What a child leaves is the system's to take back: else each looks through all of torch for garbage as it ends, for a second.
# Not before: the recorder asks for all objects that there are, and sees here what it sees in an interpreter of its own.
atexit.register(gc.freeze)

for line in sys.stdin:
    module, words, folder, *outputs = json.loads(line)
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
sys.argv = [module, *words]
sys.path[0] = folder
runpy.run_module(module, run_name="__main__", alter_sys=True)
