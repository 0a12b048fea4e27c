"""Small traces of programs with known faults, by plain torch.profiler, each beside what was measured without the profiler.

Of each program: wall times of its steps without the profiler, the same without the fault where the file has such a variant,
the recorded steps' wall times, and what is known of it (ms slept, bytes copied, waits a step, the line). ``# fault: NAME``
marks the line.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from gpu_parts.bench import Bench, gz_size

MIB = 1 << 20
ALL = {"record_shapes": True, "profile_memory": True, "with_stack": True}
SHAPES = {"record_shapes": True}
Step = Callable[[], Any]


def line_of(fault: str) -> str:
    """File and number of the line marked with *fault*."""
    lines = Path(__file__).read_text().splitlines()
    mark = "# fault: " + fault
    return next((f"traces.py:{number}" for number, line in enumerate(lines, 1) if line.rstrip().endswith(mark)), "")


def walls(bench: Bench, step: Step, count: int) -> list[float]:
    """Wall ms of each of *count* steps, the device waited for only at the last: the program's own pace."""
    bench.sync()
    times, before = [], time.perf_counter()
    for number in range(count):
        step()
        if number == count - 1:
            bench.sync()
        now = time.perf_counter()
        times.append((now - before) * 1e3)
        before = now
    return times


def pace(bench: Bench, step: Step, count: int) -> dict[str, Any]:
    """Mean ms of a step of a loop that waits for the device at its end only: the median of three loops."""
    loops = [walls(bench, step, count) for _ in range(3)]
    return {"step_ms": median(sum(loop) / count for loop in loops), "loops_ms": [sum(loop) / count for loop in loops]}


def activities(bench: Bench) -> list[Any]:
    """The processor, and the device where there is one."""
    kinds = torch.profiler.ProfilerActivity
    return [kinds.CPU, kinds.CUDA] if bench.gpu else [kinds.CPU]


class Recorder:
    """Records programs into one folder."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.folder = bench.path.parent / "traces"
        self.folder.mkdir(exist_ok=True)

    def keep(self, name: str, truth: dict[str, Any], path: Path) -> dict[str, Any]:
        """Write the truth beside the trace."""
        packed, plain = gz_size(path)
        truth |= {"bytes_gz": packed, "bytes_json": plain, "device": str(self.bench.device), "torch": torch.__version__}
        if self.bench.gpu:
            truth["gpu"] = torch.cuda.get_device_name()
        (self.folder / f"{name}.json").write_text(json.dumps({"trace": path.name, **truth}, indent=1))
        return truth

    def record(
        self,
        name: str,
        build: Callable[..., Step],
        truth: dict[str, Any],
        fault: str = "",
        fixed: dict[str, Any] | None = None,
        steps: int = 3,
        plain_steps: int = 20,
        warm: int = 5,
        **options: Any,
    ) -> None:
        """Time ``build()``'s steps alone, then record *steps* of them; *fixed* are build's arguments for it without the fault."""

        def job() -> dict[str, Any]:
            found: dict[str, Any] = {"options": {**(options or SHAPES)}, "steps": steps, **truth}
            if fault:
                found |= {"fault": fault, "line": line_of(fault)}
            count = self.bench.pick(plain_steps, 3)
            if fixed is not None:
                step = build(**fixed)
                walls(self.bench, step, warm)
                found["without_fault"] = pace(self.bench, step, count)
                found["fixed"] = {key: str(value) for key, value in fixed.items()}
            step = build()
            walls(self.bench, step, warm)
            found["without_profiler"] = pace(self.bench, step, count)
            for label in ("without_profiler", "without_fault"):
                if label in found:
                    found[f"{label}_ms"] = found[label]["step_ms"]
            path = self.folder / f"{name}.json.gz"
            times: list[float] = []
            with torch.profiler.profile(
                activities=activities(self.bench),
                schedule=torch.profiler.schedule(wait=1, warmup=1, active=steps, repeat=1),
                on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
                **(options or SHAPES),
            ) as profiler:
                for _ in range(steps + 2):
                    before = time.perf_counter()
                    step()
                    times.append((time.perf_counter() - before) * 1e3)
                    profiler.step()
            found["recorded_host_ms"] = times[2:]
            return self.keep(name, found, path)

        self.bench.measure(name, job)


class Block(nn.Module):
    """A transformer block with *kv* key and value heads, or attention written by hand."""

    def __init__(self, width: int, heads: int, kv: int = 0, by_hand: bool = False) -> None:
        super().__init__()
        self.heads, self.kv, self.by_hand, self.size = heads, kv or heads, by_hand, width // heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.rest = nn.Linear(width, 2 * self.kv * self.size)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.before(x)
        query = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        key, value = self.rest(y).view(batch, length, 2, self.kv, self.size).permute(2, 0, 3, 1, 4)
        if self.by_hand:
            scores = query @ key.transpose(-1, -2) * self.size**-0.5  # fault: attention_by_hand
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            attended = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
        else:
            attended = functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=self.kv != self.heads
            )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        made: torch.Tensor = x + self.feed(self.after(x))
        return made


def mlp(bench: Bench, width: int, depth: int) -> nn.Sequential:
    """Linear layers with GELU."""
    layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).to(bench.device)


def convnet(channels: int) -> nn.Sequential:
    """Convolutions with batch normalization, three resolutions."""
    parts: list[nn.Module] = []
    before = 3
    for level in (1, 2, 4):
        for stride in (2, 1):
            parts += [
                nn.Conv2d(before, channels * level, 3, stride, 1, bias=False),
                nn.BatchNorm2d(channels * level),
                nn.ReLU(),
            ]
            before = channels * level
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def training(
    bench: Bench,
    model: nn.Module,
    x: torch.Tensor,
    before: Step | None = None,
    between: Callable[[torch.Tensor], Any] | None = None,
    amp: torch.dtype | None = None,
    scale: bool = False,
    **adam: bool,
) -> Step:
    """A training step: *before* runs first, *between* gets the loss before the backward pass."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **(adam or {"foreach": True}))
    scaler = torch.amp.GradScaler(bench.device.type, enabled=scale)

    def step() -> None:
        if before:
            before()
        with torch.autocast(bench.device.type, amp) if amp else nullcontext():
            loss = model(x).square().mean()
        if between:
            between(loss)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def faults(recorder: Recorder) -> None:
    """Training steps with one fault each: a sleep, a wait, copies."""
    bench = recorder.bench
    width, rows = bench.pick((2048, 4096), (32, 16))
    x = torch.randn(rows, width, device=bench.device)

    def slept(sleep: bool = True) -> Step:
        def before() -> None:
            if sleep:
                time.sleep(0.005)  # fault: sleep

        # A wait each step, as a loop that logs its loss has: without it, the queue would hide the sleep.
        return training(bench, mlp(bench, width, 4), x, before, lambda loss: loss.item())

    known = {"slept_ms_a_step": 5.0, "waits_a_step": 1}
    recorder.record("idle_sleep", slept, known, "sleep", {"sleep": False}, **ALL)

    def waiting(wait: bool = True) -> Step:
        def between(loss: torch.Tensor) -> None:
            if wait:
                loss.item()  # fault: item

        return training(
            bench,
            mlp(bench, bench.pick(512, 32), 8),
            torch.randn(64, bench.pick(512, 32), device=bench.device),
            None,
            between,
        )

    recorder.record("item_sync", waiting, {"waits_a_step": 1}, "item", {"wait": False}, **ALL)
    for options, name in ((SHAPES, "item_sync_shapes_only"), ({"record_shapes": False}, "item_sync_no_shapes")):
        recorder.record(name, waiting, {"waits_a_step": 1}, "item", **options)
    if bench.gpu:
        for pinned, blocking in ((False, True), (False, False), (True, True), (True, False)):

            def copied(pinned: bool = pinned, blocking: bool = blocking) -> Step:
                host = torch.randn(16 * MIB, pin_memory=pinned)  # 64 MiB
                there = torch.empty(16 * MIB, device=bench.device)

                def before() -> None:
                    there.copy_(host, non_blocking=not blocking)  # fault: copy

                return training(bench, mlp(bench, 2048, 4), x, before)

            name = f"copy_{'pinned' if pinned else 'pageable'}_{'blocking' if blocking else 'non_blocking'}"
            known = {"bytes_copied_a_step": 64 * MIB, "pinned": pinned, "non_blocking": not blocking}
            recorder.record(name, copied, known, "copy", {"pinned": True, "blocking": False}, **ALL)


def devices(recorder: Recorder) -> None:
    """Programs for a GPU alone: streams that overlap, and a graph."""
    bench = recorder.bench
    side = torch.cuda.Stream()
    spin_ms = median(bench.between(lambda: torch.cuda._sleep(int(2.0 * bench.cycles_per_ms))) for _ in range(9))

    def spinning(parallel: bool = True) -> Step:
        cycles = int(2.0 * bench.cycles_per_ms)

        def step() -> None:
            torch.cuda._sleep(cycles)
            if parallel:
                side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side) if parallel else nullcontext():
                torch.cuda._sleep(cycles)
            torch.cuda._sleep(cycles)
            torch.cuda.current_stream().wait_stream(side)

        return step

    # Three kernels of about 2 ms: the second waits for the first and runs beside the third. The streams join at the step's end.
    known = {"kernels_a_step": 3, "kernel_ms": spin_ms}
    beside = {"overlap_ms_a_step": spin_ms, "busy_ms_a_step": 2 * spin_ms, "sum_ms_a_step": 3 * spin_ms}
    recorder.record("two_streams_spin", spinning, {**known, **beside}, **ALL)
    recorder.record("one_stream_spin", lambda: spinning(False), {**known, "busy_ms_a_step": 3 * spin_ms}, **SHAPES)

    def copying(parallel: bool = True) -> Step:
        host = torch.randn(64 * MIB, pin_memory=True)
        there = torch.empty(64 * MIB, device=bench.device)
        a = torch.randn(8192, 8192, device=bench.device, dtype=torch.bfloat16)

        def step() -> None:
            if parallel:
                side.wait_stream(torch.cuda.current_stream())  # of the step before
            with torch.cuda.stream(side) if parallel else nullcontext():
                there.copy_(host, non_blocking=True)  # fault: copy_in_line
            for _ in range(4):
                a @ a
            torch.cuda.current_stream().wait_stream(side)

        return step

    known = {"bytes_copied_a_step": 256 * MIB, "matmuls_a_step": 4}
    recorder.record("copy_beside_compute", copying, known, **ALL)
    recorder.record(
        "copy_in_line", lambda parallel=False: copying(parallel), known, "copy_in_line", {"parallel": True}, **ALL
    )

    def replayed(graph: bool = True, depth: int = 50) -> Step:
        model, x = mlp(bench, 256, depth).eval().requires_grad_(False), torch.randn(32, 256, device=bench.device)
        for _ in range(3):
            model(x)
        bench.sync()
        if not graph:
            return lambda: model(x)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            model(x)

        def step() -> tuple[nn.Module, torch.Tensor]:
            captured.replay()
            return model, x  # which must live as long as the graph reads them

        return step

    recorder.record("cuda_graph", replayed, {"operators_a_step": 100, "replays_a_step": 1}, **ALL)
    eager = {"operators_a_step": 100, "without_fault_is": "the same kernels in a CUDA graph"}
    recorder.record(
        "launch_bound", lambda graph=False: replayed(graph), eager, "many small launches", {"graph": True}, **ALL
    )


class Slow(Dataset[torch.Tensor]):
    """Samples that take about 1 ms of one core each, in one call."""

    def __init__(self, count: int, width: int) -> None:
        self.count, self.width = count, width

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        hashlib.pbkdf2_hmac("sha256", b"sample", b"", 1500)  # fault: slow_sample
        return torch.full((self.width,), float(index))


def models(recorder: Recorder) -> None:
    """Whole models: mixed precision, layout, attention, optimizers, checkpoints, the loader."""
    bench = recorder.bench
    half = bench.pick(torch.float16, torch.bfloat16)
    pictures, channels, side = bench.pick((64, 64, 128), (2, 4, 16))
    image = torch.randn(pictures, 3, side, side, device=bench.device)

    def pictured(last: bool = True, amp: torch.dtype | None = torch.bfloat16, scale: bool = False) -> Step:
        model, x = convnet(channels).to(bench.device), image
        if last:
            model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
        return training(bench, model, x, amp=amp, scale=scale)

    recorder.record("convnet_channels_last_bf16", pictured, {"layout": "channels_last"}, **ALL)
    recorder.record(
        "convnet_nchw_bf16", lambda last=False: pictured(last), {"layout": "NCHW"}, "layout", {"last": True}, **ALL
    )
    fp32 = lambda amp=None: pictured(False, amp)  # noqa: E731
    recorder.record(
        "convnet_nchw_fp32", fp32, {"layout": "NCHW", "tf32": False}, "fp32", {"amp": torch.bfloat16}, **SHAPES
    )
    recorder.record("convnet_autocast_gradscaler", lambda: pictured(False, half, bench.gpu), {"amp": str(half)}, **ALL)

    width, heads, batch, length = bench.pick((1024, 16, 8, 1024), (32, 4, 2, 16))
    text = torch.randn(batch, length, width, device=bench.device)

    def transformer(kv: int = 0, by_hand: bool = False, amp: torch.dtype | None = torch.bfloat16) -> Step:
        model = nn.Sequential(*[Block(width, heads, kv, by_hand) for _ in range(4)]).to(bench.device)
        return training(bench, model, text, amp=amp)

    known = {"layers": 4, "heads": heads, "tokens": batch * length}
    recorder.record(
        "gqa_training_bf16", lambda: transformer(heads // 4), {**known, "key_value_heads": heads // 4}, **ALL
    )
    by_hand = lambda by_hand=True: transformer(0, by_hand)  # noqa: E731
    recorder.record("attention_by_hand", by_hand, known, "attention_by_hand", {"by_hand": False}, **ALL)
    recorder.record(
        "transformer_fp32",
        lambda amp=None: transformer(0, False, amp),
        known,
        "fp32",
        {"amp": torch.bfloat16},
        **SHAPES,
    )

    class Again(nn.Module):
        def __init__(self, on: bool) -> None:
            super().__init__()
            self.blocks, self.on = nn.ModuleList(Block(width, heads) for _ in range(4)), on

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.on else block(x)  # fault: checkpoint
            return x

    again = lambda on=True: training(bench, Again(on).to(bench.device), text, amp=torch.bfloat16)  # noqa: E731
    recorder.record(
        "checkpointing_bf16",
        again,
        {**known, "blocks_run_forward_a_step": 8},
        "checkpoint",
        {"on": False},
        steps=2,
        **ALL,
    )

    def optimized(**adam: bool) -> Step:
        layers = [nn.Linear(bench.pick(256, 16), bench.pick(256, 16)) for _ in range(bench.pick(100, 10))]
        x = torch.randn(32, bench.pick(256, 16), device=bench.device)
        return training(bench, nn.Sequential(*layers).to(bench.device), x, **adam)

    loop = {"parameters": bench.pick(200, 20), "without_fault_is": "fused=True"}
    recorder.record(
        "optimizer_for_loop",
        lambda **given: optimized(**(given or {"foreach": False})),
        loop,
        "for loop",
        {"fused": True},
        **SHAPES,
    )
    begun = time.perf_counter()
    for index in range(64):
        Slow(64, 8)[index]
    batch_ms = (time.perf_counter() - begun) / 4 * 1e3
    for workers in (0, 2):

        def loaded(workers: int = workers) -> Step:
            rows = 16
            loader = DataLoader(Slow(rows * 400, 1024), batch_size=rows, num_workers=workers, pin_memory=bench.gpu)
            batches = iter(loader)
            inner = mlp(bench, bench.pick(1024, 32), 4)
            optimizer = torch.optim.SGD(inner.parameters(), lr=1e-3)

            def step() -> None:
                x = next(batches).to(bench.device, non_blocking=True)[:, : bench.pick(1024, 32)]
                optimizer.zero_grad()
                inner(x).square().mean().backward()
                optimizer.step()

            return step

        known = {"workers": workers, "loading_ms_a_batch": batch_ms}
        fixed = {"workers": 4} if workers == 0 else None
        recorder.record(
            f"dataloader_workers_{workers}", loaded, known, "slow_sample", fixed, plain_steps=12, warm=3, **ALL
        )


def serving(recorder: Recorder) -> None:
    """Inference: a growing cache, memory that grows, a loop without steps."""
    bench = recorder.bench
    layers, width, heads, batch, start = bench.pick((8, 2048, 16, 8, 512), (2, 32, 4, 1, 8))
    dtype = bench.pick(torch.bfloat16, torch.float32)

    def decoding(growing: bool = True) -> Step:
        size = width // heads
        weights = [torch.randn(width, 3 * width, device=bench.device, dtype=dtype) * 0.02 for _ in range(layers)]
        room = start + 200
        keys = [
            torch.randn(2, batch, heads, room if not growing else start, size, device=bench.device, dtype=dtype)
            for _ in range(layers)
        ]
        state = {"x": torch.randn(batch, 1, width, device=bench.device, dtype=dtype), "at": start}

        @torch.no_grad()
        def step() -> None:
            x = state["x"]
            for layer, weight in enumerate(weights):
                query, key, value = (x @ weight).view(batch, 1, 3, heads, size).permute(2, 0, 3, 1, 4)
                if growing:
                    keys[layer] = torch.cat([keys[layer], torch.stack([key, value])], 3)  # fault: cat_cache
                    cached = keys[layer]
                else:
                    keys[layer][:, :, :, state["at"]] = torch.stack([key, value])[:, :, :, 0]
                    cached = keys[layer][:, :, :, : state["at"] + 1]
                attended = functional.scaled_dot_product_attention(query, cached[0], cached[1])
                x = attended.transpose(1, 2).reshape(batch, 1, width)
            state["x"], state["at"] = x, state["at"] + 1

        return step

    known = {
        "layers": layers,
        "cache_bytes_a_token": 2 * layers * batch * width * torch.empty((), dtype=dtype).element_size(),
    }
    recorder.record(
        "decode_growing_cache", decoding, known, "cat_cache", {"growing": False}, steps=5, plain_steps=20, **ALL
    )

    def growing() -> Step:
        kept: list[torch.Tensor] = []
        model, x = mlp(bench, 64, 2), torch.randn(16, 64, device=bench.device)
        size = bench.pick(16 * MIB, 1024)

        def step() -> None:
            kept.append(torch.empty(size, dtype=torch.uint8, device=bench.device))  # fault: kept
            model(x)

        return step

    recorder.record(
        "memory_growth", growing, {"grows_bytes_a_step": bench.pick(16 * MIB, 1024)}, "kept", steps=6, **ALL
    )

    def endless() -> dict[str, Any]:
        model = nn.Sequential(*[Block(*bench.pick((1024, 16), (32, 4))) for _ in range(4)]).to(bench.device).eval()
        x = torch.randn(*bench.pick((4, 512, 1024), (1, 16, 32)), device=bench.device)

        @torch.no_grad()
        def request() -> None:
            model(x).sum().item()

        walls(bench, request, 5)
        plain = pace(bench, request, 10)
        path = recorder.folder / "inference_no_steps.json.gz"
        with torch.profiler.profile(activities=activities(bench), **SHAPES) as profiler:
            for _ in range(10):
                request()
        profiler.export_chrome_trace(str(path))
        found = {
            "requests": 10,
            "waits_a_request": 1,
            "without_profiler_ms": plain["step_ms"],
            "without_profiler": plain,
            "options": SHAPES,
        }
        return recorder.keep("inference_no_steps", found, path)

    bench.measure("inference_no_steps", endless)


def cold(path: str, device: str) -> None:
    """In a process of its own: record from before the device's first use, with nothing warmed up; print the wall times."""
    bench = object.__new__(Bench)
    bench.gpu, bench.device = device == "cuda", torch.device(device)
    times = []
    with torch.profiler.profile(
        activities=activities(bench),
        schedule=torch.profiler.schedule(wait=0, warmup=0, active=4, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
        **ALL,
    ) as profiler:
        for _ in range(4):
            before = time.perf_counter()
            if not times:  # the first step creates the context, loads the libraries, allocates
                model = mlp(bench, bench.pick(1024, 32), 4)
                x = torch.randn(256, bench.pick(1024, 32), device=device)
                step = training(bench, model, x, None, lambda loss: loss.item())
            step()
            bench.sync()
            times.append((time.perf_counter() - before) * 1e3)
            profiler.step()
    print(json.dumps(times))


def cold_start(recorder: Recorder) -> dict[str, Any]:
    """A first call inside the recorded window."""
    path = recorder.folder / "cold_start.json.gz"
    code = f"from gpu_parts.traces import cold; cold({str(path)!r}, {recorder.bench.device.type!r})"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    times = json.loads(done.stdout.splitlines()[-1])
    return recorder.keep(
        "cold_start",
        {"steps": 4, "recorded_ms": times, "first_over_others_ms": times[0] - median(times[1:]), "options": ALL},
        path,
    )


def compiled(recorder: Recorder) -> None:
    """Inductor: a training step, beside the same in eager mode."""
    bench = recorder.bench
    width = 1024
    text = torch.randn(8, 512, width, device=bench.device)

    def build(compile: bool = True) -> Step:
        model: Any = nn.Sequential(*[Block(width, 16) for _ in range(2)]).to(bench.device)
        return training(bench, torch.compile(model) if compile else model, text, amp=torch.bfloat16)

    recorder.record("compiled_inductor", build, {"layers": 2}, **ALL)
    eager = {"layers": 2, "without_fault_is": "torch.compile"}
    recorder.record(
        "compiled_not", lambda compile=False: build(compile), eager, "not compiled", {"compile": True}, **ALL
    )


def run(bench: Bench) -> None:
    """All of them; what compiles last."""
    recorder = Recorder(bench)
    faults(recorder)
    if bench.gpu:
        devices(recorder)
    serving(recorder)
    models(recorder)
    bench.measure("cold_start", lambda: cold_start(recorder))
    if bench.gpu:
        compiled(recorder)
