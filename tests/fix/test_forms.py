"""Each edit on ten forms and more of source: the intended lines change and no other, or nothing does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.fixing import finding, line_of, outcome, request, setting

from advisor.results.analysis import Finding

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n\n"


@dataclass(frozen=True)
class Form:
    """A form of source. ``lines`` are those that change, by their text before and after; None after: the line goes.

    An edit that is none has ``lines`` empty, and *because* in its reason. An empty text before is a line that is new.
    """

    name: str
    text: str
    lines: tuple[tuple[str, str | None], ...] = ()
    because: str = ""
    at: str = ""


def lines_of(form: Form, found: Finding, edit: str, folder: Path) -> None:
    """Assert that an edit does to *form* what the form says."""
    made = outcome(edit, request(folder, form.text, found))
    if not form.lines:
        assert isinstance(made, str), f"{form.name}: {made}"
        assert form.because in made
        return
    assert isinstance(made, list), f"{form.name}: {made}"
    after = made[0].after
    compile(after, "train.py", "exec")
    expected = list(form.text.splitlines())
    at = 0
    for before, line in form.lines:
        if before:
            at = expected.index(before)
        if not before:
            expected.insert(at + 1, line or "")
            at += 1
        elif line is None:
            del expected[at]
            at -= 1
        else:
            expected[at] = line
    assert after.splitlines() == expected
    assert after.endswith("\n") == form.text.endswith("\n")


# ---- loaders

W = "num_workers=1, persistent_workers=True"
LOADERS = [
    Form(
        "keywords",
        HEAD + "loader = DataLoader(data, batch_size=32, shuffle=True)\n",
        (("loader = DataLoader(data, batch_size=32, shuffle=True)", f"loader = DataLoader(data, batch_size=32, shuffle=True, {W})"),),
    ),
    Form(
        "positional",
        HEAD + "loader = DataLoader(data, 32, True, None, None, 0)\n",
        (
            (
                "loader = DataLoader(data, 32, True, None, None, 0)",
                "loader = DataLoader(data, 32, True, None, None, 1, persistent_workers=True)",
            ),
        ),
    ),
    Form(
        "a zero that is there",
        HEAD + "loader = DataLoader(data, num_workers=0, shuffle=True)\n",
        (
            (
                "loader = DataLoader(data, num_workers=0, shuffle=True)",
                "loader = DataLoader(data, num_workers=1, shuffle=True, persistent_workers=True)",
            ),
        ),
    ),
    Form("options", HEAD + "loader = DataLoader(data, **options)\n", because="by **"),
    Form("arguments", HEAD + "loader = DataLoader(*arguments)\n", because="by *"),
    Form(
        "partial",
        "from functools import partial\n" + HEAD + "make = partial(DataLoader, shuffle=True)\nloader = make(data)\n",
        because="no call of DataLoader",
        at="loader = make",
    ),
    Form(
        "alias of an import",
        "import torch.utils.data as tud\nloader = tud.DataLoader(data)\n",
        (("loader = tud.DataLoader(data)", f"loader = tud.DataLoader(data, {W})"),),
        at="loader =",
    ),
    Form(
        "alias of the class",
        "from torch.utils.data import DataLoader as Batches\nloader = Batches(data)\n",
        (("loader = Batches(data)", f"loader = Batches(data, {W})"),),
        at="loader =",
    ),
    Form(
        "alias by assignment",
        "import torch\nLoader = torch.utils.data.DataLoader\nloader = Loader(data)\n",
        (("loader = Loader(data)", f"loader = Loader(data, {W})"),),
        at="loader =",
    ),
    Form(
        "lines of their own",
        HEAD + "loader = DataLoader(\n    data,\n    batch_size=32,  # small\n)  # the training set\n",
        (
            ("    batch_size=32,  # small", "    batch_size=32,  # small"),
            ("", "    num_workers=1,"),
            ("", "    persistent_workers=True,"),
        ),
    ),
    Form(
        "lines of their own without a last comma",
        HEAD + "loader = DataLoader(\n    data,\n    batch_size=32  # small\n)\n",
        (
            ("    batch_size=32  # small", "    batch_size=32,  # small"),
            ("", "    num_workers=1,"),
            ("", "    persistent_workers=True"),
        ),
    ),
    Form(
        "hanging lines",
        HEAD + "loader = DataLoader(data, batch_size=32,\n                    shuffle=True)  # comment\n",
        (("                    shuffle=True)  # comment", f"                    shuffle=True, {W})  # comment"),),
    ),
    Form(
        "inside a class",
        HEAD + "class Trainer:\n    def batches(self):\n        return DataLoader(self.data, batch_size=self.size)\n",
        (
            (
                "        return DataLoader(self.data, batch_size=self.size)",
                f"        return DataLoader(self.data, batch_size=self.size, {W})",
            ),
        ),
        at="return DataLoader",
    ),
    Form("from an argument", HEAD + "loader = DataLoader(data, num_workers=args.workers)\n", because="args.workers"),
    Form(
        "workers that stay already",
        HEAD + "loader = DataLoader(data, num_workers=0, persistent_workers=False)\n",
        (
            (
                "loader = DataLoader(data, num_workers=0, persistent_workers=False)",
                "loader = DataLoader(data, num_workers=1, persistent_workers=False)",
            ),
        ),
    ),
    Form("already done", HEAD + "loader = DataLoader(data, num_workers=1, persistent_workers=True)\n", because="nothing is left"),
    Form("another class", "from mine import DataLoader\nloader = DataLoader(data)\n", because="no call", at="loader ="),
    Form(
        "two in a line",
        HEAD + "loaders = DataLoader(one), DataLoader(two)\n",
        because="2 calls of DataLoader",
        at="loaders",
    ),
]  # fmt: skip


@pytest.mark.parametrize("form", LOADERS, ids=lambda form: form.name)
def test_workers(form: Form, tmp_path: Path) -> None:
    line = line_of(form.text, form.at or "loader = DataLoader")
    found = finding("cpu/loader-wait", [setting("DataLoader", "num_workers", "0", line)])
    lines_of(form, found, "loader-workers", tmp_path)


def test_as_many_workers_as_are_advised_come_before_one(tmp_path: Path) -> None:
    text = HEAD + "loader = DataLoader(data)\n"
    found = finding("data-loading/single-process-loader", [setting("DataLoader", "num_workers", "0", 4, advice="6")])
    made = outcome("loader-workers", request(tmp_path, text, found))
    assert [change.what for change in made if not isinstance(change, str)] == [
        "num_workers=6, persistent_workers=True",
        "num_workers=1, persistent_workers=True",
    ]


@pytest.mark.parametrize(
    ("arguments", "workers", "cores", "after"),
    [
        ("data, num_workers=8", 8, 2, ["data, num_workers=0", "data, num_workers=1"]),
        ("data, 4, True, None, None, 8", 8, 2, ["data, 4, True, None, None, 0", "data, 4, True, None, None, 1"]),
        ("data, num_workers=8, persistent_workers=True", 8, 2, ["data, num_workers=1, persistent_workers=True"]),
        ("data, num_workers=8, prefetch_factor=4", 8, 2, ["data, num_workers=1, prefetch_factor=4"]),
        ("data, num_workers=8", 8, 16, None),
        ("data, num_workers=8", 8, None, None),
        ("data, num_workers=WORKERS", 8, 2, None),
        ("data, **options", 8, 2, None),
    ],
)
def test_fewer_workers_than_cores(
    arguments: str, workers: int, cores: int | None, after: list[str] | None, tmp_path: Path
) -> None:
    found = finding("cpu/slow-workers", [setting("DataLoader", "num_workers", str(workers), 4)])
    made = outcome("fewer-workers", request(tmp_path, HEAD + f"loader = DataLoader({arguments})\n", found, cores))
    if after is None:
        assert isinstance(made, str)
    else:
        assert not isinstance(made, str)
        assert [change.after for change in made] == [HEAD + f"loader = DataLoader({one})\n" for one in after]


@pytest.mark.parametrize("edit", ["persistent-workers", "pinned-batches"])
@pytest.mark.parametrize("form", [form for form in LOADERS if form.name in ("options", "partial", "another class", "two in a line")], ids=lambda form: form.name)  # fmt: skip
def test_other_arguments_of_loaders_that_are_not_certain(edit: str, form: Form, tmp_path: Path) -> None:
    name = {"persistent-workers": "persistent_workers", "pinned-batches": "pin_memory"}[edit]
    line = line_of(form.text, form.at or "loader = DataLoader")
    lines_of(form, finding("x/y", [setting("DataLoader", name, "False", line)]), edit, tmp_path)


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        ("persistent-workers", "data, num_workers=2", "data, num_workers=2, persistent_workers=True"),
        ("persistent-workers", "data, persistent_workers=False", "data, persistent_workers=True"),
        ("pinned-batches", "data, 8", "data, 8, pin_memory=True"),
        ("pinned-batches", "data, 8, True, None, None, 2, join, False", "data, 8, True, None, None, 2, join, True"),
        ("pinned-batches", "data, pin_memory=(False)", "data, pin_memory=True"),
        ("pinned-batches", "data, pin_memory=cuda", None),
        ("pinned-batches", "data, pin_memory=True", None),
    ],
)
def test_other_arguments_of_loaders(edit: str, before: str, after: str | None, tmp_path: Path) -> None:
    name = {"persistent-workers": "persistent_workers", "pinned-batches": "pin_memory"}[edit]
    text = HEAD + f"loader = DataLoader({before})\n"
    made = outcome(edit, request(tmp_path, text, finding("x/y", [setting("DataLoader", name, "False", 4)])))
    if after is None:
        assert isinstance(made, str)
    else:
        assert not isinstance(made, str)
        assert made[0].after == HEAD + f"loader = DataLoader({after})\n"


# ---- optimizers

OPTIMIZERS = [
    Form("keywords", "import torch\nopt = torch.optim.AdamW(ps, lr=1e-3)\n", (("opt = torch.optim.AdamW(ps, lr=1e-3)", "opt = torch.optim.AdamW(ps, lr=1e-3, fused=True)"),)),
    Form("positional", "import torch\nopt = torch.optim.AdamW(ps, 1e-3)\n", (("opt = torch.optim.AdamW(ps, 1e-3)", "opt = torch.optim.AdamW(ps, 1e-3, fused=True)"),)),
    Form("options", "import torch\nopt = torch.optim.AdamW(ps, **options)\n", because="by **"),
    Form("partial", "import torch\nfrom functools import partial\nmake = partial(torch.optim.AdamW, lr=1)\nopt = make(ps)\n", because="no call of AdamW"),
    Form("alias of a module", "from torch import optim as o\nopt = o.AdamW(ps)\n", (("opt = o.AdamW(ps)", "opt = o.AdamW(ps, fused=True)"),)),
    Form("alias of the class", "from torch.optim import AdamW as A\nopt = A(ps)\n", (("opt = A(ps)", "opt = A(ps, fused=True)"),)),
    Form(
        "lines of their own",
        "import torch\nopt = torch.optim.AdamW(\n    ps,\n    lr=1e-3,\n)\n",
        (("    lr=1e-3,", "    lr=1e-3,"), ("", "    fused=True,")),
    ),
    Form(
        "groups with comments",
        "import torch\nopt = torch.optim.AdamW(\n    [\n        {'params': a},  # slow\n        {'params': b},\n    ],\n    lr=1e-3,  # as published\n)\n",
        (("    lr=1e-3,  # as published", "    lr=1e-3,  # as published"), ("", "    fused=True,")),
    ),
    Form(
        "inside a class",
        "import torch\nclass T:\n    def __init__(self):\n        self.opt = torch.optim.AdamW(self.net.parameters())\n",
        (("        self.opt = torch.optim.AdamW(self.net.parameters())", "        self.opt = torch.optim.AdamW(self.net.parameters(), fused=True)"),),
    ),
    Form("a generator alone", "import torch\nopt = torch.optim.AdamW(p for p in ps)\n", because="generator"),
    Form("already done", "import torch\nopt = torch.optim.AdamW(ps, fused=True)\n", because="nothing is left"),
    Form("asked not to", "import torch\nopt = torch.optim.AdamW(ps, fused=False)\n", (("opt = torch.optim.AdamW(ps, fused=False)", "opt = torch.optim.AdamW(ps, fused=True)"),)),
    Form("another form", "import torch\nopt = torch.optim.AdamW(ps, foreach=True)\n", because="excludes fused"),
    Form("another class", "from mine import AdamW\nopt = AdamW(ps)\n", because="no call"),
]  # fmt: skip


@pytest.mark.parametrize("form", OPTIMIZERS, ids=lambda form: form.name)
def test_fused_optimizers(form: Form, tmp_path: Path) -> None:
    found = finding("cpu/unfused-optimizer", [setting("AdamW", "fused", "None", line_of(form.text, "opt = "))])
    lines_of(form, found, "fused-optimizer", tmp_path)


ZEROING = [
    Form("keyword", "opt.zero_grad(set_to_none=False)\n", (("opt.zero_grad(set_to_none=False)", "opt.zero_grad()"),)),
    Form("positional", "opt.zero_grad(False)\n", (("opt.zero_grad(False)", "opt.zero_grad()"),)),
    Form("of a model", "model.zero_grad(set_to_none=False)  # all\n", (("model.zero_grad(set_to_none=False)  # all", "model.zero_grad()  # all"),)),
    Form("in a loop", "for x in xs:\n    opt.zero_grad(set_to_none = False)\n", (("    opt.zero_grad(set_to_none = False)", "    opt.zero_grad()"),)),
    Form("inside a class", "class T:\n    def step(self):\n        self.opt.zero_grad(set_to_none=False)\n", (("        self.opt.zero_grad(set_to_none=False)", "        self.opt.zero_grad()"),)),
    Form("from a name", "opt.zero_grad(set_to_none=flag)\n", because="no call"),
    Form("options", "opt.zero_grad(**options)\n", because="by **"),
    Form("already done", "opt.zero_grad(set_to_none=True)\n", because="no call"),
    Form("torch's choice", "opt.zero_grad()\n", because="no call"),
    Form("no method", "zero_grad(set_to_none=False)\n", because="no call"),
    Form("a reference", "zero = partial(opt.zero_grad, set_to_none=False)\n", because="no call"),
]  # fmt: skip


@pytest.mark.parametrize("form", ZEROING, ids=lambda form: form.name)
def test_gradients_set_to_none(form: Form, tmp_path: Path) -> None:
    lines_of(form, finding("gradient/zeroing-fill"), "set-to-none", tmp_path)


# ---- torch.compile

COMPILED = [
    Form("keyword", "import torch\nm = torch.compile(net, dynamic=False)\n", (("m = torch.compile(net, dynamic=False)", "m = torch.compile(net)"),)),
    Form("first of several", "import torch\nm = torch.compile(net, dynamic=False, mode='default')\n", (("m = torch.compile(net, dynamic=False, mode='default')", "m = torch.compile(net, mode='default')"),)),
    Form("alone", "import torch\n@torch.compile(dynamic=False)\ndef m(x): return x\n", (("@torch.compile(dynamic=False)", "@torch.compile()"),), at="@torch"),
    Form("alone before another", "import torch\n@torch.compile(dynamic=False, fullgraph=True)\ndef m(x): return x\n", (("@torch.compile(dynamic=False, fullgraph=True)", "@torch.compile(fullgraph=True)"),), at="@torch"),
    Form("options", "import torch\nm = torch.compile(net, **options)\n", because="by **"),
    Form("partial", "import torch\nfrom functools import partial\nc = partial(torch.compile, dynamic=False)\nm = c(net)\n", because="no call of compile"),
    Form("alias", "from torch import compile as fast\nm = fast(net, dynamic=False)\n", (("m = fast(net, dynamic=False)", "m = fast(net)"),)),
    Form(
        "lines of their own",
        "import torch\nm = torch.compile(\n    net,\n    dynamic=False,  # one length\n    fullgraph=True,\n)\n",
        (("    dynamic=False,  # one length", None),),
        at="m = ",
    ),
    Form("last line of its own", "import torch\nm = torch.compile(\n    net,\n    dynamic=False\n)\n", (("    dynamic=False", None),), at="m = "),
    Form("inside a class", "import torch\nclass T:\n    def __init__(self, net):\n        self.m = torch.compile(net, dynamic=False)\n", (("        self.m = torch.compile(net, dynamic=False)", "        self.m = torch.compile(net)"),), at="self.m"),
    Form("from a name", "import torch\nm = torch.compile(net, dynamic=flag)\n", because="does not stand"),
    Form("already done", "import torch\nm = torch.compile(net)\n", because="does not stand"),
    Form("another function", "from mine import compile\nm = compile(net, dynamic=False)\n", because="no call"),
]  # fmt: skip


@pytest.mark.parametrize("form", COMPILED, ids=lambda form: form.name)
def test_dynamic_shapes(form: Form, tmp_path: Path) -> None:
    line = line_of(form.text, form.at or "m = ")
    found = finding("compile/recompilation", [setting("torch.compile", "dynamic", "False", line)])
    lines_of(form, found, "dynamic-shapes", tmp_path)


# ---- calls in a loop

LOOPS = [
    Form("statement", "import gc\nfor x in xs:\n    f(x)\n    gc.collect()\n", (("    gc.collect()", None),)),
    Form("with a comment", "import gc\nfor x in xs:\n    f(x)\n    gc.collect()  # leaks\n    g(x)\n", (("    gc.collect()  # leaks", None),)),
    Form("with an argument", "import gc\nwhile True:\n    f()\n    gc.collect(2)\n", (("    gc.collect(2)", None),)),
    Form("alias of the module", "import gc as g\nfor x in xs:\n    f(x)\n    g.collect()\n", (("    g.collect()", None),)),
    Form("alias of the function", "from gc import collect\nfor x in xs:\n    f(x)\n    collect()\n", (("    collect()", None),)),
    Form("alone in the loop", "import gc\nfor x in xs:\n    gc.collect()\n", (("    gc.collect()", "    pass"),)),
    Form("twice", "import gc\nfor x in xs:\n    gc.collect()\n    f(x)\n    gc.collect(0)\n", (("    gc.collect()", None), ("    gc.collect(0)", None))),
    Form("inside a class", "import gc\nclass T:\n    def fit(self):\n        for x in self:\n            f(x)\n            gc.collect()\n", (("            gc.collect()", None),)),
    Form("in a block", "import gc\nfor x in xs:\n    with y:\n        f(x)\n        gc.collect()\n", (("        gc.collect()", None),)),
    Form("every so often", "import gc\nfor i, x in xs:\n    if i % 100 == 0:\n        gc.collect()\n", because="no statement"),
    Form("outside of loops", "import gc\ngc.collect()\nfor x in xs:\n    f(x)\n", because="no statement"),
    Form("in a function that a loop calls", "import gc\ndef clean():\n    gc.collect()\nfor x in xs:\n    clean()\n", because="no statement"),
    Form("its value is used", "import gc\nfor x in xs:\n    n = gc.collect()\n", because="no statement"),
    Form("beside another", "import gc\nfor x in xs:\n    f(x); gc.collect()\n", because="shares its line"),
    Form("another module", "import mine as gc\nfor x in xs:\n    gc.collect()\n", because="no statement"),
]  # fmt: skip


@pytest.mark.parametrize("form", LOOPS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    ("edit", "rule", "module", "function"),
    [
        ("gc-collect", "cpu/gc-pause", "gc", "collect"),
        ("empty-cache", "memory/empty-cache-call", "torch.cuda", "empty_cache"),
        ("synchronize", "sync/explicit-synchronize", "torch.cuda", "synchronize"),
    ],
)
def test_calls_in_a_loop(edit: str, rule: str, module: str, function: str, form: Form, tmp_path: Path) -> None:
    def named(text: str | None) -> str | None:
        if text is None or module == "gc":
            return text
        text = text.replace("import gc as g", f"import {module} as g").replace(
            "import mine as gc", "import mine as torch"
        )
        text = text.replace("from gc import", f"from {module} import").replace("import gc", f"import {module}")
        return text.replace("gc.collect", f"{module}.{function}").replace("collect", function)

    lines = tuple((named(before) or "", named(after)) for before, after in form.lines)
    lines_of(Form(form.name, named(form.text) or "", lines, form.because), finding(rule), edit, tmp_path)


# ---- threads

THREADS = [
    Form("a number", "import torch\ntorch.set_num_threads(16)\n", (("torch.set_num_threads(16)", "torch.set_num_threads(2)"),)),
    Form("with a comment", "import torch\ntorch.set_num_threads(16)  # the old box\n", (("torch.set_num_threads(16)  # the old box", "torch.set_num_threads(2)  # the old box"),)),
    Form("alias of the module", "import torch as t\nt.set_num_threads(16)\n", (("t.set_num_threads(16)", "t.set_num_threads(2)"),)),
    Form("alias of the function", "from torch import set_num_threads as threads\nthreads(16)\n", (("threads(16)", "threads(2)"),)),
    Form("in a function", "import torch\ndef main():\n    torch.set_num_threads(16)\n", (("    torch.set_num_threads(16)", "    torch.set_num_threads(2)"),)),
    Form("lines of their own", "import torch\ntorch.set_num_threads(\n    16,  # all\n)\n", (("    16,  # all", "    2,  # all"),)),
    Form("from a name", "import torch\ntorch.set_num_threads(args.threads)\n", because="args.threads"),
    Form("by the count of cores", "import os, torch\ntorch.set_num_threads(os.cpu_count())\n", because="os.cpu_count()"),
    Form("not set", "import torch\nimport sys\n\nx = 1\n", (("import sys", "import sys"), ("", ""), ("", "torch.set_num_threads(2)"))),
    Form("not set, behind the first imports", '"""Text."""\nimport torch\nx = 1\nimport sys\n', (("import torch", "import torch"), ("", ""), ("", "torch.set_num_threads(2)"))),
    Form("by the environment", 'import os\nos.environ["OMP_NUM_THREADS"] = "16"\nimport torch\n', because="another way"),
    Form("twice", "import torch\ntorch.set_num_threads(16)\ntorch.set_num_threads(8)\n", because="2 times"),
    Form("already done", "import torch\ntorch.set_num_threads(2)\n", because="nothing is left"),
    Form("without torch", "import mine\n", because="does not import torch"),
]  # fmt: skip


@pytest.mark.parametrize("form", THREADS, ids=lambda form: form.name)
def test_threads(form: Form, tmp_path: Path) -> None:
    found = finding("cpu/thread-oversubscription", [setting(None, "torch.get_num_threads()", "16", None, advice="2")])
    lines_of(form, found, "threads", tmp_path)


# ---- double precision

N = "import numpy as np\nimport torch\nfrom torch import nn\n"
DOUBLES = [
    Form("from arithmetic", N + "a = rng.normal(size=3)\nx = torch.from_numpy(a)\n", (("x = torch.from_numpy(a)", "x = torch.from_numpy(a).float()"),)),
    Form("from a chain", N + "a = rng.normal(size=3)\nb = (a - a.mean()) / a.std()\nx = torch.from_numpy(b)  # z\n", (("x = torch.from_numpy(b)  # z", "x = torch.from_numpy(b).float()  # z"),)),
    Form("to a device", N + "x = torch.from_numpy(np.random.rand(3)).to(device)\n", because="no NumPy array"),
    Form("converted by NumPy", N + "a = rng.normal(size=3).astype('float32')\nx = torch.from_numpy(a)\n", because="no NumPy array"),
    Form("converted by torch", N + "x = torch.from_numpy(rng.normal(size=3)).float()\n", because="no NumPy array"),
    Form("whole numbers", N + "a = rng.integers(0, 5, size=3)\nx = torch.from_numpy(a)\n", because="no NumPy array"),
    Form("unknown", N + "x = torch.from_numpy(np.load('a.npy'))\n", because="no NumPy array"),
    Form("alias", "from torch import from_numpy as share\nimport numpy as np\nx = share(np.random.randn(3))\n", (("x = share(np.random.randn(3))", "x = share(np.random.randn(3)).float()"),)),
    Form(
        "the model too",
        N + "x = torch.from_numpy(rng.random(3))\nm = nn.Sequential(\n    nn.Linear(3, 3),\n).double()\n",
        (("x = torch.from_numpy(rng.random(3))", "x = torch.from_numpy(rng.random(3)).float()"), (").double()", ")")),
    ),
    Form("a class of the file", N + "class M(nn.Module):\n    pass\nm = M().double()\n", (("m = M().double()", "m = M()"),)),
    Form("inside a class", N + "class D:\n    def __init__(self):\n        self.x = torch.from_numpy(np.random.randn(3))\n", (("        self.x = torch.from_numpy(np.random.randn(3))", "        self.x = torch.from_numpy(np.random.randn(3)).float()"),)),
    Form("a tensor in double", N + "y = x.double()\n", because="no NumPy array"),
    Form("a result of something else", N + "y = solve(x).double()\n", because="no NumPy array"),
]  # fmt: skip


@pytest.mark.parametrize("form", DOUBLES, ids=lambda form: form.name)
def test_double_precision(form: Form, tmp_path: Path) -> None:
    lines_of(form, finding("cpu/float64", line=1), "float32", tmp_path)


# ---- switches

ANOMALY = [
    Form("call", "import torch\ntorch.autograd.set_detect_anomaly(True)\n", (("torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"),)),
    Form("alias", "from torch import autograd as ag\nag.set_detect_anomaly(True)  # nan\n", (("ag.set_detect_anomaly(True)  # nan", "ag.set_detect_anomaly(False)  # nan"),)),
    Form("function", "from torch.autograd import set_detect_anomaly\nset_detect_anomaly(True)\n", (("set_detect_anomaly(True)", "set_detect_anomaly(False)"),)),
    Form("keyword", "import torch\ntorch.autograd.set_detect_anomaly(mode=True)\n", (("torch.autograd.set_detect_anomaly(mode=True)", "torch.autograd.set_detect_anomaly(mode=False)"),)),
    Form("block", "import torch\nwith torch.autograd.detect_anomaly():\n    f()\n", (("with torch.autograd.detect_anomaly():", "with torch.autograd.set_detect_anomaly(False):"),)),
    Form("block with an argument", "import torch\nwith torch.autograd.detect_anomaly(check_nan=True):\n    f()\n", (("with torch.autograd.detect_anomaly(check_nan=True):", "with torch.autograd.set_detect_anomaly(False):"),)),
    Form("block of the switch", "import torch\nwith torch.autograd.set_detect_anomaly(True), y:\n    f()\n", (("with torch.autograd.set_detect_anomaly(True), y:", "with torch.autograd.set_detect_anomaly(False), y:"),)),
    Form("inside a class", "import torch\nclass T:\n    def fit(self):\n        with torch.autograd.detect_anomaly():\n            f()\n", (("        with torch.autograd.detect_anomaly():", "        with torch.autograd.set_detect_anomaly(False):"),)),
    Form("by a flag", "import torch\ntorch.autograd.set_detect_anomaly(args.debug)\n", because="no call"),
    Form("already done", "import torch\ntorch.autograd.set_detect_anomaly(False)\n", because="no call"),
    Form("another function", "from mine import set_detect_anomaly\nset_detect_anomaly(True)\n", because="no call"),
]  # fmt: skip


@pytest.mark.parametrize("form", ANOMALY, ids=lambda form: form.name)
def test_anomaly_detection(form: Form, tmp_path: Path) -> None:
    lines_of(form, finding("sync/debug-api", line=1), "anomaly-off", tmp_path)


BENCHMARK = [
    Form("not set", "import torch\n\nx = 1\n", (("import torch", "import torch"), ("", ""), ("", "torch.backends.cudnn.benchmark = True"))),
    Form("alias", "import torch as t\nx = 1\n", (("import torch as t", "import torch as t"), ("", ""), ("", "t.backends.cudnn.benchmark = True"))),
    Form("off", "import torch\ntorch.backends.cudnn.benchmark = False  # slow\n", (("torch.backends.cudnn.benchmark = False  # slow", "torch.backends.cudnn.benchmark = True  # slow"),)),
    Form("off by an alias", "from torch.backends import cudnn\ncudnn.benchmark = False\n", (("cudnn.benchmark = False", "cudnn.benchmark = True"),)),
    Form("in a function", "import torch\ndef main():\n    torch.backends.cudnn.benchmark = False\n", (("    torch.backends.cudnn.benchmark = False", "    torch.backends.cudnn.benchmark = True"),)),
    Form("on", "import torch\ntorch.backends.cudnn.benchmark = True\n", because="is True"),
    Form("by a flag", "import torch\ntorch.backends.cudnn.benchmark = args.fast\n", because="is args.fast"),
    Form("twice", "import torch\ntorch.backends.cudnn.benchmark = False\ntorch.backends.cudnn.benchmark = False\n", because="2 times"),
    Form("deterministic", "import torch\ntorch.backends.cudnn.deterministic = True\n", because="determinism"),
    Form("without torch", "import mine\n", because="does not import torch"),
    Form("torch by a part", "from torch import nn\n", because="does not import torch"),
]  # fmt: skip


@pytest.mark.parametrize("form", BENCHMARK, ids=lambda form: form.name)
def test_cudnn_benchmark(form: Form, tmp_path: Path) -> None:
    lines_of(form, finding("kernels/cudnn-autotune-off", line=1), "cudnn-benchmark", tmp_path)


TF32 = [
    Form("not set", "import torch\n\nx = 1\n", (("import torch", "import torch"), ("", ""), ("", 'torch.set_float32_matmul_precision("high")'))),
    Form("highest", "import torch\ntorch.set_float32_matmul_precision('highest')\n", (("torch.set_float32_matmul_precision('highest')", "torch.set_float32_matmul_precision('high')"),)),
    Form("alias", "import torch as t\nt.set_float32_matmul_precision('highest')  # x\n", (("t.set_float32_matmul_precision('highest')  # x", "t.set_float32_matmul_precision('high')  # x"),)),
    Form("in a function", "import torch\ndef f():\n    torch.set_float32_matmul_precision('highest')\n", (("    torch.set_float32_matmul_precision('highest')", "    torch.set_float32_matmul_precision('high')"),)),
    Form("high", "import torch\ntorch.set_float32_matmul_precision('high')\n", because="is set at"),
    Form("medium", "import torch\ntorch.set_float32_matmul_precision('medium')\n", because="is set at"),
    Form("by a name", "import torch\ntorch.set_float32_matmul_precision(args.p)\n", because="is set at"),
    Form("twice", "import torch\ntorch.set_float32_matmul_precision('highest')\ntorch.set_float32_matmul_precision('highest')\n", because="is set at"),
    Form("the older switch", "import torch\ntorch.backends.cuda.matmul.allow_tf32 = False\n", because="another way"),
    Form("without torch", "import mine\n", because="does not import torch"),
]  # fmt: skip


@pytest.mark.parametrize("form", TF32, ids=lambda form: form.name)
def test_tf32(form: Form, tmp_path: Path) -> None:
    lines_of(form, finding("precision/tf32-disabled", line=1), "tf32", tmp_path)


def test_line_ends_and_a_missing_last_one_stay(tmp_path: Path) -> None:
    text = "import torch\r\nopt = torch.optim.AdamW(\r\n    ps,\r\n    lr=1,\r\n)\r\nx = 'ä'"
    found = finding("cpu/unfused-optimizer", [setting("AdamW", "fused", "None", 2)])
    made = outcome("fused-optimizer", request(tmp_path, text, found))
    assert not isinstance(made, str)
    assert made[0].after == text.replace("    lr=1,\r\n", "    lr=1,\r\n    fused=True,\r\n")
