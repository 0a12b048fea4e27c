"""Facts of the root: those that are allowed, and none that names a user or a host."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.reading import dump, event, mixture, read, trace_of

from advisor.frames import SCHEMAS

SECRETS = ["alice-the-user", "node17.secret.example", "sk-token-12345", "/home/alice-the-user/models"]
LEAKY = {
    "host_name": SECRETS[1],
    "user": SECRETS[0],
    "USER": SECRETS[0],
    "metadata": {"environment": {"HOME": SECRETS[3], "API_TOKEN": SECRETS[2]}},
    "PWD": SECRETS[3],
    "trace_id": SECRETS[2],
    "traceName": SECRETS[3] + "/t.json",
    "INFO": [f"started by {SECRETS[0]}"],
    "distributedInfo": {
        "backend": "nccl",
        "rank": 3,
        "world_size": 8,
        "pg_config": [{"pg_desc": SECRETS[1]}],
        "host": SECRETS[1],
    },
    "record_shapes": 1,
    "with_stack": 1,
    "profile_memory": 0,
    "cuda_runtime_version": 12040,
    "baseTimeNanoseconds": 1_718_000_000_000_000_000,
}


@pytest.mark.parametrize("damage", ["", '"Z": N/A,', '"Z": "C:\\Users\\alice-the-user", "Y": "say "hi"",', '"Z": [1,,'])
def test_only_what_is_allowed_leaves_the_root(damage: str) -> None:
    process = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": SECRETS[1]}}
    labels = {"ph": "M", "name": "process_labels", "pid": 1, "args": {"labels": SECRETS[0]}}
    text = dump([process, labels, *mixture(3)], **LEAKY).replace('"schemaVersion"', damage + '"schemaVersion"', 1)
    trace = trace_of(text)
    told = repr(trace.metadata) + repr(trace.quality) + repr(trace.features)
    told += "".join(trace.frame(name).to_csv() for name in SCHEMAS)
    assert [secret for secret in SECRETS if secret in told] == []
    if "[1,," not in damage:
        meta = trace.metadata
        assert (meta.rank, meta.world_size, meta.backend) == (3, 8, "nccl")
        assert (meta.record_shapes, meta.with_stack, meta.profile_memory, meta.with_modules) == (
            True,
            True,
            False,
            None,
        )
        assert (meta.cuda_runtime, meta.base_ns) == (12040, 1_718_000_000_000_000_000)
        assert meta.devices[0].sms == 108


def test_damage_is_told_without_what_the_event_says() -> None:
    broken = '{"ph":"X","cat":"python_function","name":::"/home/alice-the-user/x.py(1): f","ts":1,"dur":1}'
    text = dump([event("a"), event("HERE"), event("b")]).replace(json.dumps(event("HERE")), broken)
    recorded = read(text)
    assert [code for code, _ in recorded.notes] == ["skipped"]
    assert "alice" not in repr(recorded.notes)


@pytest.mark.parametrize(
    ("root", "rank", "world"),
    [
        ({}, None, None),
        ({"distributedInfo": {"rank": 0, "world_size": 1}}, 0, 1),
        ({"distributedInfo": [{"rank": 2, "world_size": 4}]}, 2, 4),
        ({"distributedInfo": [{"rank": 0}, {"rank": 1}]}, None, None),
        ({"distributedInfo": "none"}, None, None),
        ({"distributedInfo": {"rank": "5", "world_size": "8"}}, 5, 8),
        ({"distributedInfo": {"rank": [1], "world_size": 10**400}}, None, None),
    ],
)
def test_ranks(root: dict[str, Any], rank: int | None, world: int | None) -> None:
    metadata = read(dump([event()], **root)).metadata
    assert (metadata.rank, metadata.world_size) == (rank, world)


@pytest.mark.parametrize(
    "devices", [None, 5, "x", [], {}, [1, "a", None], [{}], [{"id": "x", "name": 5, "computeMajor": 10**400}]]
)
def test_odd_device_properties(devices: Any) -> None:
    assert all(
        d.name is None and d.capability is None
        for d in read(dump([event()], deviceProperties=devices)).metadata.devices
    )


def test_amd_reports_a_compute_capability_that_is_none() -> None:
    devices = [{"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "numSms": 304}]
    kernel = event("k", "kernel", pid=0, args={"device": 0, "stream": 0, "correlation": 1})
    trace = trace_of(dump([event(), kernel], deviceProperties=devices))
    facts = trace.frame("devices").iloc[0]
    assert facts["vendor"] == "amd"
    assert str(facts["capability"]) == "<NA>"
