"""Ground of every input: seeds, the rules that ship, and a sound recording with its analysis and its baselines."""

from __future__ import annotations

import json
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

import advisor
from advisor import rulebook
from advisor.gating import baseline
from advisor.reading.program_settings import KEY, Autocast, Compiled, Loader, Optimizer
from advisor.results.analysis import Analysis
from advisor.testing import TraceBuilder
from fuzz.seeds import ROOT, Root, load

Files = dict[str, bytes]
"""An input: what lies in its folder, by name."""


class World:
    """Things that are made once in a process, most of them on first use."""

    def __init__(self, seeds: list[tuple[str, Root]]) -> None:
        self.seeds = seeds
        self.last: Analysis | None = None
        """The trace that was analyzed before, for comparisons."""

    @classmethod
    def of(cls, folder: Path) -> World:
        """The world of a run: its seeds are in *folder*."""
        return cls(load(folder))

    @cached_property
    def book(self) -> rulebook.Rulebook:
        """The rules that ship."""
        return rulebook.load([rulebook.builtin_rules_dir()])

    @cached_property
    def rules(self) -> list[tuple[str, str]]:
        """Each rule by its stem, as text; the one that `advisor rules new` writes among them, three times."""
        example = (ROOT / "advisor" / "cli" / "example.toml").read_text(encoding="utf-8")
        paths = rulebook.files_in(rulebook.builtin_rules_dir())
        return [(path.stem, path.read_text(encoding="utf-8")) for path in paths] + [("example", example)] * 3

    @cached_property
    def seeds_of(self) -> dict[str, list[Root]]:
        """The traces that prove a rule, by its stem: there it fires, or nearly does."""
        found: dict[str, list[Root]] = {}
        stems = sorted({stem for stem, _ in self.rules}, key=len, reverse=True)
        for name, root in self.seeds:
            case = name.partition(" ")[2]
            stem = next((stem for stem in stems if case.startswith(f"{stem}-")), "")
            found.setdefault(stem, []).append(root)
        return found

    @cached_property
    def recorded(self) -> list[tuple[str, Root]]:
        """The seeds that hold settings of the program; the sound recording among them."""
        sound = ("sound", json.loads(self.trace))
        return [sound, *((name, root) for name, root in self.seeds if isinstance(root.get(KEY), dict))]

    @cached_property
    def trace(self) -> bytes:
        """A sound recording of nine steps, with all settings of its program."""
        b = TraceBuilder("NVIDIA A100-SXM4-80GB", record_shapes=True)
        for number in range(9):
            with b.step(), b.python("train.py(20): main"):
                with b.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us=300 + 7 * number):
                    pass
                b.copy("HtoD", 1 << 20, us=90, pinned=False)
                with b.op("aten::mm", shapes=[[64, 64], [64, 64]]):
                    b.kernel("volta_sgemm_128x64_nn", us=900 + 3 * number)
                    b.kernel("at::native::vectorized_elementwise_kernel", us=40)
                b.item()
        b.ran_with(
            recorder="advisor 0.1.0", torch="2.11.0", cuda="13.0", driver="580.1", cores=16, threads=8,
            loaders=(Loader(workers=0, batch_size=32, file="train.py", line=12),),
            optimizers=(Optimizer(kind="SGD", foreach=False, tensors=62, file="train.py", line=14),),
            autocast=(Autocast("cuda", "bfloat16", "train.py", 20),), compiled=(Compiled(file="train.py", line=22),),
            tf32_matmul=False, tf32_cudnn=True, cudnn_benchmark=False, deterministic=False, steps_by="optimizer",
            backwards_per_step=2.0, unprofiled_step_ms=(1.6, 1.7, 1.65, 1.6), stacks="second pass",
        )  # fmt: skip
        return b.to_bytes()

    @cached_property
    def analysis(self) -> Analysis:
        """The analysis of the sound recording."""
        with tempfile.TemporaryDirectory(prefix="fuzz-sound-") as folder:
            path = Path(folder) / "trace.json"
            path.write_bytes(self.trace)
            return advisor.analyze(advisor.read(str(path)), self.book, views=True, samples=True)

    @cached_property
    def baselines(self) -> list[Any]:
        """Sound baselines of it, as JSON has them: of one run, and of three."""
        one = baseline.make([self.analysis], workload="resnet50")
        return [msgspec.to_builtins(base) for base in (one, baseline.make([self.analysis] * 3), one)]

    @cached_property
    def baseline(self) -> bytes:
        """A sound baseline of it, as it is written."""
        return baseline.dump(baseline.make([self.analysis], workload="resnet50"))

    @cached_property
    def schemas(self) -> dict[str, Any]:
        """Validators of what is written as JSON, by name; none where jsonschema is not installed."""
        try:
            from jsonschema import Draft202012Validator
        except ImportError:
            return {}
        names = ("analysis", "judgement", "baseline")
        return {
            name: Draft202012Validator(json.loads((ROOT / "docs" / f"{name}.schema.json").read_text()))
            for name in names
        }
