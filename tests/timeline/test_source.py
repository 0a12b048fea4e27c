"""Places in the source: whose frame it is, and what of a path may be shown."""

from __future__ import annotations

import pytest

from advisor.privacy import clean_path, scrub
from advisor.timeline.source import LIBRARIES, parse_frame

ROOTS_HOME = "/" + "root"  # of every machine; in a container, where most training runs


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/alice/project/train.py", "project/train.py"),
        ("/Users/alice/project/train.py", "project/train.py"),
        ("C:\\Users\\alice\\project\\train.py", "project/train.py"),
        (f"{ROOTS_HOME}/train.py", "train.py"),
        ("/mnt/home/alice/train.py", "train.py"),
        ("/home/alice/env/lib/python3.11/site-packages/timm/models/vit.py", "timm/models/vit.py"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"),
        ("/usr/lib/python3.11/threading.py", "threading.py"),
        ("train.py", "train.py"),
        ("/var/tmp/torchinductor_alice/ab/cabc.py", "torchinductor/ab/cabc.py"),
        ("/data/cache/torchinductor/ab/cabc.py", "torchinductor/ab/cabc.py"),
        ("project/torchinductor_notes.py", "project/torchinductor_notes.py"),
    ],
)
def test_paths_lose_home_directories_and_everything_up_to_site_packages(path: str, shown: str) -> None:
    assert clean_path(path) == shown


@pytest.mark.parametrize(
    ("frame", "user"),
    [
        ("train.py(54): main", True),
        ("project/models/vit.py(8): forward", True),
        ("/home/alice/project/train.py(8): <module>", True),
        ("test.py(3): main", True),
        ("torch/nn/functional.py(9): linear", False),
        ("transformers/models/bert/modeling_bert.py(812): forward", False),
        ("/home/alice/env/lib/python3.11/site-packages/mylib/x.py(8): f", False),
        ("/opt/pytorch/torch/nn/modules/conv.py(4): forward", False),
        ("threading.py(1032): _bootstrap", False),
        ("/var/tmp/torchinductor_alice/ab/cabc.py(7): call", False),
        ("<ipython-input-3-abc>(2): <module>", True),
    ],
)
def test_whose_frame_it_is(frame: str, user: bool) -> None:
    place = parse_frame(frame)
    assert place is not None
    assert place.user is user


def test_the_recorders_own_frames_are_no_place() -> None:
    assert parse_frame("/venv/lib/python3.11/site-packages/advisor/record/hooks.py(165): step") is None
    assert parse_frame("advisor/record/hooks.py(102): method") is None
    assert parse_frame("site-packages/torch/optim/adam.py(12): step") is not None


def test_what_is_no_frame() -> None:
    assert parse_frame("<built-in method mm of type object at 0x7f>") is None
    assert parse_frame("nn.Module: Linear_0") is None
    assert parse_frame("<frozen importlib._bootstrap>(1): _find") is None
    assert parse_frame("torch/nn/modules/module.py(1501): _call_impl") is None  # on every stack, says nothing


def test_a_users_own_libraries_can_be_named() -> None:
    frame = "ourlib/trainer.py(3): fit"
    assert parse_frame(frame).user  # type: ignore[union-attr]
    assert not parse_frame(frame, LIBRARIES | {"ourlib"}).user  # type: ignore[union-attr]


def test_an_absurd_line_number_stays_a_number() -> None:
    place = parse_frame(f"train.py({'9' * 400}): main")
    assert place is not None
    assert 0 < place.line <= 1 << 30


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/alice/project/train.py(3): main", "project/train.py(3): main"),
        ("load /scratch/alice/data.bin now", "load data.bin now"),
        ("/mnt/nfs/users/alice/run.py(1): f", "run.py(1): f"),
        ("C:\\Users\\alice\\x.py(1): f", "x.py(1): f"),
        ("//host/home/alice/x.py(1): f", "x.py(1): f"),
        ("~alice/x.py(1): f", "x.py(1): f"),
        (f"{ROOTS_HOME}/train.py(1): f", "train.py(1): f"),
        ("aten::homework", "aten::homework"),
        ("/var/tmp/torchinductor_alice/ab/cabc.py(7): call", "/var/tmp/torchinductor/ab/cabc.py(7): call"),
        ("void at::native::user_kernel<float>(float*)", "void at::native::user_kernel<float>(float*)"),
    ],
)
def test_home_directories_leave_every_text(text: str, left: str) -> None:
    assert scrub(text) == left


def test_a_hostile_name_costs_one_pass() -> None:
    assert scrub("/a" * 500_000 + "home").endswith("home")
    assert scrub("/home/x" * 100_000 + "/y") == "y"


def test_a_function_of_a_plumbing_file_that_does_work_is_a_place() -> None:
    place = parse_frame("site-packages/torch/nn/modules/module.py(2143): _save_to_state_dict")
    assert place is not None
    assert (place.file, place.line, place.user) == ("torch/nn/modules/module.py", 2143, False)
