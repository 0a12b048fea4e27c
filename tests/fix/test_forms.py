"""Each edit on ten forms of source and more, in ``forms/``: it becomes what stands there, byte by byte, or it stays.

A form is ``=== name @ part of the line that was recorded``, the source, and ``--- becomes`` with the edited source, or
``--- stays: part of the reason``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from support.fixing import finding, line_of, outcome, request, setting

from advisor.results.analysis import Evidence, Finding, Setting

FORMS = Path(__file__).parent / "forms"
HEAD = "import torch\nfrom torch.utils.data import DataLoader\n\n"


@dataclass(frozen=True)
class Form:
    """A form of source, *after* the edit, or why it stays; *at* is in the line that was recorded."""

    name: str
    at: str
    before: str
    after: str | None
    because: str


def forms(file: str) -> list[Form]:
    """Read the forms of a file."""
    out = []
    for part in re.split(r"^=== ", (FORMS / f"{file}.txt").read_text(), flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        name, _, at = head.partition(" @ ")
        before, mark, rest = re.split(r"^--- (becomes\n|stays: )", body, flags=re.MULTILINE)
        after = rest.rstrip("\n") + "\n" if mark.startswith("becomes") else None
        out.append(Form(name, at, before, after, "" if after else rest.strip()))
    return out


def check(form: Form, edit: str, found: Finding, folder: Path) -> None:
    """Assert that an edit does to *form* what the form says."""
    made = outcome(edit, request(folder, form.before, found))
    if form.after is None:
        assert isinstance(made, str), made
        assert form.because in made
    else:
        assert not isinstance(made, str), made
        assert made[0].after == form.after
        compile(made[0].after, "train.py", "exec")


# Of each file: the edit, the rule, the setting that was recorded at the form's line, and the line where it names none. Without a
# setting the form's line is the finding's place.
TABLES: dict[str, tuple[str, str, Setting | None, str]] = {
    "loader_workers": ("loader-workers", "cpu/loader-wait", setting("DataLoader", "num_workers", "0", 1), "loader = DataLoader"),
    "fused_optimizer": ("fused-optimizer", "cpu/unfused-optimizer", setting("AdamW", "fused", "None", 1), "opt = "),
    "set_to_none": ("set-to-none", "gradient/zeroing-fill", None, ""),
    "dynamic_shapes": ("dynamic-shapes", "compile/recompilation", setting("torch.compile", "dynamic", "False", 1), "m = "),
    "gc_collect": ("gc-collect", "cpu/gc-pause", None, ""),
    "threads": ("threads", "cpu/thread-oversubscription", setting(None, "torch.get_num_threads()", "16", None, "2"), ""),
    "float32": ("float32", "cpu/float64", None, ""),
    "anomaly_off": ("anomaly-off", "sync/debug-api", None, ""),
    "cudnn_benchmark": ("cudnn-benchmark", "kernels/cudnn-autotune-off", None, ""),
    "tf32": ("tf32", "precision/tf32-disabled", None, ""),
    "inference_mode": ("inference-mode", "cpu/grad-enabled", None, ""),
    "fused_attention": ("fused-attention", "cpu/unfused-attention", None, ""),
    "unread_weights": ("unread-weights", "cpu/unfused-attention", None, ""),
    "topk": ("topk", "cpu/full-sort", None, ""),
    "joined_by_numpy": ("joined-by-numpy", "cpu/list-conversion", None, ""),
    "shared_arrays": ("shared-arrays", "cpu/list-conversion", None, ""),
    "kept_result": ("kept-result", "cpu/repeated-preparation", None, ""),
    "fft_convolution": ("fft-convolution", "kernels/long-convolution", None, ""),
    "longest_row": ("longest-row", "cpu/padded-batches", None, ""),
    "quantized_engine": ("quantized-engine", "cpu/quantized-engine", None, ""),
    "no_checkpointing": ("no-checkpointing", "cpu/unneeded-checkpointing", None, ""),
    "one_backward": ("one-backward", "gradient/repeated-backward", None, ""),
    "sparse_embedding": ("sparse-embedding", "gradient/dense-embedding", None, ""),
    "batched_rows": ("batched-rows", "data-loading/rowwise-fetch", None, ""),
    "frozen_layers": ("frozen-layers", "gradient/unfrozen-layers", None, ""),
    "flat_reduction": ("flat-reduction", "cpu/unbucketed-reduction", None, ""),
    "counts_at_once": ("counts-at-once", "cpu/element-loop", None, ""),
    "elements_at_once": ("elements-at-once", "cpu/loader-wait", None, ""),
    "groups_at_once": ("groups-at-once", "cpu/tiny-operators", None, ""),
    "use_cache": ("use-cache", "inference/no-cache", None, ""),
    "layer_before_enlarging": ("layer-before-enlarging", "kernels/layer-on-enlarged", None, ""),
    "solve": ("solve", "cpu/explicit-inverse", None, ""),
    "hardest_at_once": ("hardest-at-once", "cpu/tiny-operators", None, ""),
    "frozen_forward": ("frozen-forward", "gradient/unfrozen-layers", None, ""),
    "detached_output": ("detached-output", "gradient/undetached-output", None, ""),
    "bucket_views": ("bucket-views", "distributed/bucket-copies", None, ""),
    "broadcast_buffers": ("broadcast-buffers", "gpu-idle/buffer-sync", None, ""),
    "validate_args": ("validate-args", "gpu-idle/distribution-checks", None, ""),
    "bias_before_norm": ("bias-before-norm", "kernels/conv-bias-before-bn", None, ""),
    "state_dict_once": ("state-dict-once", "cpu/state-dict-in-loop", None, ""),
    "made_on_device": ("made-on-device", "transfer/cpu-created-tensor", None, ""),
    "no_sync": ("no-sync", "cpu/micro-batch-reduction", None, ""),
    "eval_mode": ("eval-mode", "inference/train-mode", None, ""),
}  # fmt: skip
EACH = [pytest.param(file, form, id=f"{file}: {form.name}") for file in TABLES for form in forms(file)]


def test_each_table_has_ten_forms_and_each_file_is_in_a_table() -> None:
    assert {path.stem for path in FORMS.iterdir()} == set(TABLES)
    for file in TABLES:
        found = forms(file)
        assert len(found) >= 10
        assert any(form.after for form in found)
        assert sum(form.after is None for form in found) >= 3


@pytest.mark.parametrize(("file", "form"), EACH)
def test_a_form_becomes_what_stands_beside_it_or_stays(file: str, form: Form, tmp_path: Path) -> None:
    edit, rule, recorded, default = TABLES[file]
    settings = []
    if recorded is not None:
        line = line_of(form.before, form.at or default) if recorded.line else None
        settings = [setting(recorded.of, recorded.name, recorded.value, line, recorded.advice)]
    place = line_of(form.before, form.at) if form.at and recorded is None else 1
    check(form, edit, finding(rule, settings, line=place), tmp_path)


@pytest.mark.parametrize(
    ("edit", "call"), [("empty-cache", "torch.cuda.empty_cache"), ("synchronize", "torch.cuda.synchronize")]
)
@pytest.mark.parametrize("form", forms("gc_collect"), ids=lambda form: form.name)
def test_other_calls_in_a_loop_go_alike(edit: str, call: str, form: Form, tmp_path: Path) -> None:
    module, _, function = call.rpartition(".")

    def named(text: str) -> str:
        for old, new in (
            ("import gc as g", f"import {module} as g"),
            ("import mine as gc", "import mine as torch"),
            ("from gc import", f"from {module} import"),
            ("import gc", f"import {module}"),
            ("gc.collect", call),
        ):
            text = text.replace(old, new)
        return re.sub(r"\bcollect\b", function, text)

    after = named(form.after) if form.after is not None else None
    check(Form(form.name, "", named(form.before), after, form.because), edit, finding("x/y", line=1), tmp_path)


def test_as_many_workers_as_are_advised_come_before_one(tmp_path: Path) -> None:
    text = HEAD + "loader = DataLoader(data)\n"
    found = finding("data-loading/single-process-loader", [setting("DataLoader", "num_workers", "0", 4, advice="6")])
    made = outcome("loader-workers", request(tmp_path, text, found))
    assert [change.what for change in made if not isinstance(change, str)] == [
        "num_workers=6, persistent_workers=True",
        "num_workers=1, persistent_workers=True",
    ]


def test_without_a_number_from_the_trace_that_of_the_rules_example_comes_first(tmp_path: Path) -> None:
    found = finding("cpu/loader-wait", [setting("DataLoader", "num_workers", "0", 4)])
    shown = msgspec.structs.replace(
        found, fix=msgspec.structs.replace(found.fix, after="DataLoader(data, num_workers=2)")
    )
    made = outcome("loader-workers", request(tmp_path, HEAD + "loader = DataLoader(data)\n", shown))
    assert [change.what.partition(",")[0] for change in made if not isinstance(change, str)] == [
        "num_workers=2", "num_workers=1"
    ]  # fmt: skip


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


def test_line_ends_and_a_missing_last_one_stay(tmp_path: Path) -> None:
    text = "import torch\r\nopt = torch.optim.AdamW(\r\n    ps,\r\n    lr=1,\r\n)\r\nx = 'ä'"
    found = finding("cpu/unfused-optimizer", [setting("AdamW", "fused", "None", 2)])
    made = outcome("fused-optimizer", request(tmp_path, text, found))
    assert not isinstance(made, str)
    assert made[0].after == text.replace("    lr=1,\r\n", "    lr=1,\r\n    fused=True,\r\n")


@pytest.mark.parametrize(("ms", "edited"), [(0.9, False), (2.5, True)])
def test_a_list_that_is_converted_fast_may_be_one_of_numbers(ms: float, edited: bool, tmp_path: Path) -> None:
    found = finding("cpu/list-conversion", line=2)
    seen = msgspec.structs.replace(found, evidence=Evidence(columns=["since_line", "median_ms"], rows=[[2, ms]]))
    made = outcome("shared-arrays", request(tmp_path, "import torch\nx = torch.tensor(values)\n", seen))
    assert isinstance(made, str) is not edited


@pytest.mark.parametrize(("call", "edited"), [("torch.unique(edges, dim=1)", True), ("torch.linalg.qr(edges)", False)])
def test_a_function_that_is_called_several_times_is_kept_where_it_prepares_indices(
    call: str, edited: bool, tmp_path: Path
) -> None:
    text = f"import torch\ndef made(edges):\n    return {call}\ndef step(edges):\n    e = made(edges)\n"
    outcomes = [
        outcome("kept-result", request(tmp_path, text, finding(rule, line=3)))
        for rule in ("cpu/repeated-function", "cpu/repeated-preparation")
    ]
    assert [isinstance(made, str) for made in outcomes] == [not edited, False]


@pytest.mark.parametrize(("shapes", "places"), [("[[8,25000],[],[]]", "[:, :k]"), ("[[25000],[]]", "[:k]")])
def test_recorded_shapes_tell_which_dimension_is_sorted(shapes: str, places: str, tmp_path: Path) -> None:
    found = finding("cpu/full-sort", line=1)
    seen = msgspec.structs.replace(found, evidence=Evidence(columns=["k", "shapes"], rows=[[24, shapes]]))
    made = outcome("topk", request(tmp_path, f"order = scores.argsort(dim=-1){places}\n", seen))
    assert not isinstance(made, str)
    assert made[0].after == "order = scores.topk(k, dim=-1, largest=False).indices\n"


def test_shapes_of_another_dimension_leave_a_sort(tmp_path: Path) -> None:
    found = finding("cpu/full-sort", line=1)
    seen = msgspec.structs.replace(found, evidence=Evidence(columns=["shapes"], rows=[["[[8,8,25000],[],[]]"]]))
    made = outcome("topk", request(tmp_path, "order = scores.argsort(dim=-1)[:, :k]\n", seen))
    assert isinstance(made, str)


@pytest.mark.parametrize(
    ("release", "argument"), [("2.12.1+cu130", "broadcast_buffers"), ("2.13.0", "forward_sync_buffers"), (None, None)]
)
def test_the_broadcast_of_buffers_has_the_name_that_the_recorded_torch_knows(
    release: str | None, argument: str | None, tmp_path: Path
) -> None:
    text = "from torch.nn.parallel import DistributedDataParallel\nm = DistributedDataParallel(net)\n"
    made = outcome("broadcast-buffers", request(tmp_path, text, finding("gpu-idle/buffer-sync"), torch=release))
    if argument is None:
        assert isinstance(made, str)
    else:
        assert not isinstance(made, str)
        assert made[0].after == text.replace("(net)", f"(net, {argument}=False)")
