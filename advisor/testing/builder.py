"""Builds a trace from a few readable calls, in the layout that Kineto writes; for tests of rules, and for samples.

The host has a cursor on each thread: what is called there takes its time and moves the cursor on. Each stream of the
GPU has a clock: work starts when its launch has returned and the stream is free. All times are exact, in ns; the same
calls give the same bytes. What a method returns says when it happened, so that a test can work out what to expect::

    b = TraceBuilder()
    with b.step():
        with b.loader(ms=20):
            pass
        b.copy("HtoD", nbytes=19_267_584, us=1650)
        with b.python("train.py(54): train"), b.module("Conv2d_0"), b.op("aten::conv2d", seq=1):
            kernel = b.kernel("volta_sgemm_128x64_nn", us=90)
        b.sync()
    b.write("x.json.gz")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from msgspec import to_builtins

from advisor.reading.program_settings import KEY, Recorded
from advisor.testing import layout
from advisor.testing.devices import Device, device_named
from advisor.testing.host import HostSide
from advisor.testing.layout import Event, Verbatim
from advisor.testing.names import CBID, COLLECTIVES, ELEMENTS, STAGED_BYTES, bandwidth, copy_name, distributed
from advisor.testing.timeline import Micros, Span, Timeline, Work, ns, ns_of

Size = tuple[int, int, int]


class TraceBuilder(HostSide):
    """One trace of one process.

    *device* names the GPU (None: a machine without one); facts of known GPUs are filled in, and what is given here
    overrides them. *record_shapes*, *with_stack* and *profile_memory* switch off what a recording without them lacks,
    whatever is called. *dialect* is "kineto" (of today) or "2021". *host_us*, *latency_us* and *gap_us* are what a
    launch takes, what passes from its return to the start of the work, and what lies between two pieces of work.
    """

    def __init__(
        self,
        device: str | None = "Tesla V100-SXM2-16GB",
        *,
        devices: int = 1,
        vendor: str | None = None,
        capability: tuple[int, int] | None = None,
        memory_gb: float | None = None,
        memory_bytes: int | None = None,
        sms: int | None = None,
        dialect: str = "kineto",
        list_root: bool = False,
        record_shapes: bool = True,
        with_stack: bool = True,
        profile_memory: bool = True,
        rank: int | None = None,
        world_size: int = 1,
        backend: str = "nccl",
        first_step: int = 0,
        pid: int = 4000,
        base_ns: int = 1_685_577_600_000_000_000,
        start_us: Micros = 1_000_000,
        host_us: Micros = 6,
        latency_us: Micros = 2,
        gap_us: Micros = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        if dialect not in ("kineto", "2021"):
            raise ValueError(f"no dialect {dialect!r}: 'kineto' or '2021'")
        if memory_gb is not None:
            memory_bytes = int(memory_gb * (1 << 30))
        gpu = None
        if device is not None:
            gpu = device_named(device, vendor=vendor, capability=capability, memory_bytes=memory_bytes, sms=sms)
        features = {"record_shapes": record_shapes, "with_stack": with_stack, "profile_memory": profile_memory}
        hip = gpu is not None and gpu.vendor == "amd"
        super().__init__(Timeline(pid), features=features, hip=hip, first_step=first_step)
        self._gpu = gpu
        self._devices = devices
        self._host_ns, self._latency_ns, self._gap_ns = ns(host_us), ns(latency_us), ns(gap_us)
        self._clock = layout.Clock(base_ns, ns(start_us), dialect == "2021")
        self._list_root = list_root
        self._metadata = dict(metadata or {})
        self._world_size = world_size
        if rank is not None:
            self._metadata.setdefault("distributedInfo", distributed(backend, rank, world_size))

    # ---- GPU work

    def kernel(
        self,
        name: str,
        us: Micros | None = None,
        *,
        ms: Micros | None = None,
        stream: int = 7,
        device: int = 0,
        host_us: Micros | None = None,
        driver: bool = False,
        launched: bool = True,
        at_us: Micros | None = None,
        after: Sequence[Span] = (),
        grid: Size = (1024, 1, 1),
        block: Size = (256, 1, 1),
        registers: int = 32,
        shared: int = 0,
        args: Mapping[str, Any] | None = None,
    ) -> Work:
        """Add a kernel and its launch. With *launched* false it was launched before the recording; *driver* makes the
        launch a driver call, as cuBLAS and Triton do; *at_us* sets the start, *after* what it waits for."""
        facts = self._kernel_facts(grid, block, registers, shared)
        call = None
        if launched:
            name_of_call = "cuLaunchKernel" if driver else "cudaLaunchKernel"
            extra = (
                {"kernel": name, "grid": list(grid), "block": list(block), "shared memory": shared} if self._hip else {}
            )
            call = self._call(name_of_call, host_us, extra, driver=driver)
        span = self._span(ns(us, ms), call, device, stream, at_us, after)
        return self._line.work(
            "kernel", name, span, device, stream, self._place(device, stream) | facts | dict(args or {}), call
        )

    def graph(
        self,
        kernels: Sequence[tuple[str, Micros]],
        *,
        stream: int = 7,
        device: int = 0,
        host_us: Micros | None = None,
        after: Sequence[Span] = (),
    ) -> list[Work]:
        """Add a captured graph: one launch, one correlation, many kernels; *after* is what it waits for."""
        call = self._call("cudaGraphLaunch", host_us, {})
        works = []
        for node, (name, us) in enumerate(kernels):
            span = self._span(ns(us), call, device, stream, None, after)
            facts = self._place(device, stream) | self._kernel_facts((1024, 1, 1), (256, 1, 1), 32, 0)
            works.append(
                self._line.work("kernel", name, span, device, stream, facts | {"graph node id": node + 1}, call)
            )
        return works

    def copy(
        self,
        direction: str,
        nbytes: int,
        us: Micros | None = None,
        *,
        gbps: float | None = None,
        pinned: bool = False,
        blocking: bool | None = None,
        op: str | Sequence[str] | None = "aten::copy_",
        stream: int = 7,
        device: int = 0,
        peer: int = 0,
        host_us: Micros | None = None,
        latency_us: Micros | None = None,
        at_us: Micros | None = None,
        after: Sequence[Span] = (),
    ) -> Work:
        """Add a copy: "HtoD", "DtoH", "DtoD" or "PtoP" (to *peer*), for so many us or at so many GB/s.

        Copies of pageable memory block unless told otherwise: the call of a large one returns when it is done, and a
        cudaStreamSynchronize follows, as in torch. Blocking copies of pinned memory wait in that synchronize.
        """
        length = ns(us) if gbps is None else round(nbytes / gbps)
        hosts = direction in ("HtoD", "DtoH")
        blocking = (hosts and not pinned) if blocking is None else blocking
        names = (op,) if isinstance(op, str) else tuple(op or ())
        with ExitStack() as stack:
            for name in names:
                stack.enter_context(self.op(name))
            one_call = self._hip and blocking
            call = self._call("hipMemcpyWithStream" if one_call else "cudaMemcpyAsync", host_us, {})
            span = self._span(length, call, device, stream, at_us, after, latency_us)
            if one_call or (hosts and not pinned and blocking and (direction == "DtoH" or nbytes > STAGED_BYTES)):
                call.end_ns = max(call.end_ns, span.end_ns)
                self._line.advance(call.end_ns)
            place = self._place(device, stream)
            if direction == "PtoP":
                place = {"fromDevice": device, "inDevice": device, "toDevice": peer, "stream": stream}
            facts = place | {"bytes": nbytes} | bandwidth(nbytes, length)
            work = self._line.work("gpu_memcpy", copy_name(direction, pinned), span, device, stream, facts, call)
            if blocking and not one_call:
                self.sync(stream=stream, device=device)
        return work

    def memset(
        self,
        nbytes: int,
        us: Micros,
        *,
        stream: int = 7,
        device: int = 0,
        host_us: Micros | None = None,
        at_us: Micros | None = None,
    ) -> Work:
        """Add a fill of device memory by the copy engine."""
        call = self._call("cudaMemsetAsync", host_us, {})
        span = self._span(ns(us), call, device, stream, at_us, ())
        facts = self._place(device, stream) | {"bytes": nbytes} | bandwidth(nbytes, span.dur_ns)
        return self._line.work("gpu_memset", "Memset (Device)", span, device, stream, facts, call)

    def collective(
        self,
        kind: str,
        nbytes: int,
        us: Micros,
        *,
        dtype: str = "Float",
        stream: int = 20,
        device: int = 0,
        group_size: int | None = None,
        group: str = "0",
        group_ranks: Sequence[int] = (),
        host_us: Micros | None = None,
        at_us: Micros | None = None,
        after: Sequence[Span] = (),
    ) -> Work:
        """Add a collective of NCCL (or RCCL) on a stream of its own: ``record_param_comms``, ``nccl:kind`` and the kernel.
        *kind*: all_reduce, all_gather, reduce_scatter, broadcast, all_to_all. *group_ranks*: the group's, else from 0 on."""
        collective_name, kernel = COLLECTIVES[kind]
        width, short = ELEMENTS[dtype]
        members = list(group_ranks or range(group_size or self._world_size))
        ranks = len(members)
        count = nbytes // width
        wider = {"all_gather": ranks, "reduce_scatter": 1 / ranks}.get(kind, 1)
        message = {
            "Collective name": collective_name,
            "dtype": dtype,
            "In msg nelems": count,
            "Out msg nelems": int(count * wider),
            "In split size": "[]",
            "Out split size": "[]",
            "Global rank start": members[0],
            "Global rank stride": 1,
            "Group size": ranks,
            "Process Group Name": group,
            "Process Group Description": "default_pg",
            "Process Group Ranks": str(members),
        }
        with self.op("record_param_comms", args=message), self.annotation(f"nccl:{kind}"):
            name = f"ncclDevKernel_{kernel}_{short}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            call = self._call("cudaLaunchKernelExC", host_us, {})
            span = self._span(ns(us), call, device, stream, at_us, after)
            facts = self._place(device, stream) | self._kernel_facts((24, 1, 1), (544, 1, 1), 96, 0)
            return self._line.work("kernel", name, span, device, stream, facts | message, call)

    # ---- calls that launch nothing

    def sync(
        self,
        name: str = "cudaStreamSynchronize",
        *,
        stream: int = 7,
        device: int = 0,
        after: Sequence[Span] | None = None,
        us: Micros = 4,
    ) -> Span:
        """Wait until the stream has run dry; the whole device for cudaDeviceSynchronize, *after* alone for an event.
        It takes *us* at least."""
        if after is not None:
            until = max((span.end_ns for span in after), default=0)
        else:
            until = self._line.free_ns(device, None if "Device" in name else stream)
        start = self.now_ns
        self._call_until(name, max(start + ns(us), until))
        return Span(start, self.now_ns)

    def item(self, *, dtype: str = "float", stream: int = 7, device: int = 0) -> Work:
        """Add a ``tensor.item()``: a scalar read back, for which the host waits."""
        with self.op("aten::item", shapes=[[]], dtypes=[dtype]):
            op = "aten::_local_scalar_dense"
            return self.copy(
                "DtoH", 8 if "long" in dtype or dtype == "double" else 4, 1, op=op, stream=stream, device=device
            )

    def malloc(self, nbytes: int, us: Micros, *, device: int = 0) -> Span:
        """Add a cudaMalloc: the caching allocator reserves more."""
        start = self.now_ns
        self._call_until("cudaMalloc", start + ns(us))
        self.reserved[device] = self.reserved.get(device, 0) + nbytes
        return Span(start, self.now_ns)

    def free(self, nbytes: int, us: Micros, *, device: int = 0) -> Span:
        """Add a cudaFree. It waits until the device has run dry."""
        start = self.now_ns
        self._call_until("cudaFree", max(start, self._line.free_ns(device)) + ns(us))
        self.reserved[device] = max(self.reserved.get(device, 0) - nbytes, 0)
        return Span(start, self.now_ns)

    def call(self, name: str, us: Micros, *, driver: bool = False, args: Mapping[str, Any] | None = None) -> Span:
        """Add any other runtime or driver call, by its CUDA or HIP name."""
        event = self._call(name, us, dict(args or {}), driver=driver)
        return Span(event.start_ns, event.end_ns)

    # ---- anything else

    def ran_with(self, **settings: Any) -> Self:
        """Set the settings of the program, as ``advisor record`` writes them: fields of ``Recorded``. Return the builder."""
        self._metadata[KEY] = to_builtins(Recorded(**settings))
        return self

    def event(self, fields: Mapping[str, Any], *, us: Micros | None = None, at_us: Micros | None = None) -> Span:
        """Add an event as it stands. A missing ``ts`` is filled in (the cursor, or *at_us*), ``dur`` where *us* is given."""
        start = self.now_ns if at_us is None else ns_of(at_us, 1000)
        length = None if us is None else ns(us)
        self._line.events.append(Verbatim(dict(fields), None if "ts" in fields else start, length))
        return Span(start, start + (length or 0))

    # ---- writing

    def to_json(self) -> str:
        """Return the trace as text."""
        metadata: dict[str, Any] = {}
        if not self._clock.old:
            metadata = {key: 1 for key, on in self._features.items() if on}
            if self._gpu is not None:
                metadata["hip_runtime_version" if self._hip else "cuda_runtime_version"] = (
                    60_443_483 if self._hip else 12_040
                )
        properties = [self._gpu.properties(number) for number in range(self._devices)] if self._gpu else None
        root = layout.Root(properties, metadata | self._metadata, self._line.pid, "trace.json", self._list_root)
        return layout.text(self._line.events, self._clock, root, self._line.end_ns)

    def to_bytes(self, *, gz: bool = False) -> bytes:
        """Return the trace as UTF-8, gzipped with *gz*."""
        data = self.to_json().encode()
        return layout.gzipped(data) if gz else data

    def write(self, path: str | Path) -> Path:
        """Write the trace; gzipped where the name ends in ``.gz``."""
        path = Path(path)
        path.write_bytes(self.to_bytes(gz=path.suffix == ".gz"))
        return path

    # ---- between the two

    def _device(self) -> Device:
        if self._gpu is None:
            raise ValueError("this trace has no GPU: TraceBuilder(device=…) names one")
        return self._gpu

    def _call(self, name: str, us: Micros | None, args: dict[str, Any], *, driver: bool = False) -> Event:
        return self._call_until(name, self.now_ns + (self._host_ns if us is None else ns(us)), args, driver=driver)

    def _call_until(self, name: str, end_ns: int, args: dict[str, Any] | None = None, *, driver: bool = False) -> Event:
        number = {"cid": 107} if self._hip else {"cbid": CBID.get(name, 0)}
        if self._hip:
            name = "hipModuleLaunchKernel" if name == "cuLaunchKernel" else name.replace("cuda", "hip")
        return self._line.call(name, end_ns, number | (args or {}), driver=driver and not self._hip)

    def _span(
        self,
        length_ns: int,
        call: Event | None,
        device: int,
        stream: int,
        at_us: Micros | None,
        after: Sequence[Span],
        latency_us: Micros | None = None,
    ) -> Span:
        self._device()
        if at_us is not None:
            start = ns_of(at_us, 1000)
        else:
            free = self._line.streams.get((device, stream))
            latency = self._latency_ns if latency_us is None else ns(latency_us)
            ready = [span.end_ns for span in after]
            ready += [] if call is None else [call.end_ns + latency]
            ready += [] if free is None else [free + self._gap_ns]
            start = max(ready, default=0)
        return Span(start, start + length_ns)

    def _place(self, device: int, stream: int) -> dict[str, Any]:
        return {"device": device, "stream": stream} if self._hip else {"device": device, "context": 1, "stream": stream}

    def _kernel_facts(self, grid: Size, block: Size, registers: int, shared: int) -> dict[str, Any]:
        gpu = self._device()
        if self._hip:
            return {"kind": "Dispatch Kernel", "grid": list(grid), "block": list(block)}
        return {"queued": 0, **gpu.launch_facts(grid, block, registers, shared)}
