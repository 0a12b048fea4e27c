"""The event schema of every dialect, as msgspec structs that skip what no frame needs.

Fields are declared in the order in which Kineto writes them, which is also the fastest order to decode. Numbers are
typed loosely (``int | float | str | None``): ROCm writes ``bytes`` and ``stream`` as strings, legacy exporters omit
what they like. A column is made strict when it becomes an array.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec
from msgspec import Raw, Struct, field

Number = int | float | str | None
Id = int | float | str | None
NO_TEXT = Raw(b"")
CALL_STACK = "Call stack"
PYTHON_BEFORE = "Python before"
WRITTEN_BEFORE = "Written before"
"""Arguments that `advisor record` writes beside the stack of an operator: that of the Python before it, if it took long; and
what of it wrote files, which begins with the part, the length, and the call (:func:`advisor.timeline.writes.note`).
"""


class Args(Struct, gc=False):
    """Fields of ``args`` that are read."""

    external: Number = field(default=None, name="External id")
    device: Number = None
    stream: Number = None
    correlation: Number = None
    bytes: Number = None
    registers: Number = field(default=None, name="registers per thread")
    shared: Number = field(default=None, name="shared memory")
    blocks_per_sm: Number = field(default=None, name="blocks per SM")
    warps_per_sm: Number = field(default=None, name="warps per SM")
    grid: Raw = NO_TEXT
    block: Raw = NO_TEXT
    occupancy: Number = field(default=None, name="est. achieved occupancy %")
    sequence: Number = field(default=None, name="Sequence number")
    forward_thread: Id = field(default=None, name="Fwd thread id")
    index: Number = field(default=None, name="Ev Idx")
    types: Raw = field(default=NO_TEXT, name="Input type")
    dims: Raw = field(default=NO_TEXT, name="Input Dims")
    dims_old: Raw = field(default=NO_TEXT, name="Input dims")
    strides: Raw = field(default=NO_TEXT, name="Input Strides")
    concrete: Raw = field(default=NO_TEXT, name="Concrete Inputs")
    stack: str | None = field(default=None, name=CALL_STACK)
    python_before: str | None = field(default=None, name=PYTHON_BEFORE)
    written_before: str | None = field(default=None, name=WRITTEN_BEFORE)
    stack_trace: str | None = None  # of the model's source, on operators of a compiled graph
    kernel_file: str | None = None  # of the code that Inductor generated
    kernel_kwargs: str | None = None  # sizes that it chose for the code
    reserved: Number = field(default=None, name="Total Reserved")
    allocated: Number = field(default=None, name="Total Allocated")
    memory_bytes: Number = field(default=None, name="Bytes")
    address: Number = field(default=None, name="Addr")
    device_id: Number = field(default=None, name="Device Id")
    device_type: Number = field(default=None, name="Device Type")
    collective: str | None = field(default=None, name="Collective name")
    comm_dtype: str | None = field(default=None, name="dtype")
    in_elements: Number = field(default=None, name="In msg nelems")
    out_elements: Number = field(default=None, name="Out msg nelems")
    group_size: Number = field(default=None, name="Group size")
    group_name: str | None = field(default=None, name="Process Group Name")
    group_ranks: Raw = field(default=NO_TEXT, name="Process Group Ranks")
    collective_seq: Number = field(default=None, name="Seq")
    source: Number = field(default=None, name="Src Rank")  # of what a rank receives from one other
    destination: Number = field(default=None, name="Dst Rank")
    wait_stream: Number = field(default=None, name="wait_on_stream")
    kernel: str | None = None  # ROCm's launches say which
    graph_node: Number = field(default=None, name="graph node id")
    annotation: str | None = field(default=None, name="name")  # torch.cuda's annotations of captured kernels


class Event(Struct, gc=False):
    """One trace event."""

    ph: str | None = ""
    cat: str | None = ""
    name: str | None = ""
    pid: Id = None
    tid: Id = None
    ts: Number = None
    dur: Number = None
    args: Args | None = None
    id: Id = None


class Times(Struct, gc=False):
    """Timestamps alone, exact: for files whose numbers a float64 cannot hold."""

    ts: Decimal | None = None
    dur: Decimal | None = None


EVENTS = msgspec.json.Decoder(list[Event])
TIMES = msgspec.json.Decoder(list[Times])
RAWS = msgspec.json.Decoder(list[Raw])
ONE = msgspec.json.Decoder(Event)
ONE_TIME = msgspec.json.Decoder(Times)
ANY = msgspec.json.Decoder(Raw)
FIELDS = msgspec.json.Decoder(dict[str, Raw])

# What decoding can raise; ValidationError, right JSON of wrong types, is a DecodeError too.
BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

# What CUPTI's range profiler measured: a range of kernels, with a value of each hardware counter that was asked for.
COUNTERS = "cuda_profiler_range"

# The category of operators before torch 1.12.
EARLY = "operator"

# Names of categories through the years, lower case -> the group of columns that the event goes to. Those of other accelerators
# than CUDA's and ROCm's are in accelerators.py.
GROUPS = {
    EARLY: "op",
    "cpu_op": "op",
    "user_annotation": "annotation",
    "python_function": "python",
    "runtime": "runtime",
    "driver": "runtime",
    "cuda_runtime": "runtime",
    "cuda_driver": "runtime",
    "hip_runtime": "runtime",
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "memcpy": "copy",
    "gpu_memcpy": "copy",
    "memset": "memset",
    "gpu_memset": "memset",
    "gpu_user_annotation": "gpu_annotation",
    "cpu_instant_event": "instant",
    "overhead": "overhead",
    "cuda_sync": "device_sync",
    "trace": "span",
    "async": "flow",
    "async_gpu": "flow",
    "async_cpu_to_gpu": "flow",
    "ac2g": "flow",
    "fwdbwd": "",
    "forward_backward": "",
    "cuda_event": "",
    COUNTERS: "",
    "collective_comm": "",
    "mtia_counters": "",
    "mtia_insight": "",
    "gpu_pm_counter": "",
    "xpu_scope_profiler": "",
    "hardware_counters": "",
    "external_correlation": "",
}
