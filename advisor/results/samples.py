"""Per-step samples of a trace, which the gate compares."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import Name, doc
from advisor.results.sites import Sites


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """Layers with weights of one size, in the forward pass."""

    calls: Annotated[float, doc("Calls a step.")]
    weights: Annotated[list[int], doc("Sizes of the weights.")]
    inputs: Annotated[list[list[int]], doc("Sizes of their inputs: the batch comes first; several where they vary.")]


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the program that two recordings must share to be compared; None, or empty, where the trace does not tell."""

    phase: Annotated[Name | None, doc("training or inference; of an engine that serves: prefill, decode, or both.")] = (
        None
    )
    precision: Annotated[Name | None, doc("Format of most of the time in products, convolutions and attention.")] = None
    framework: Annotated[Name | None, doc("What runs the program; None for plain PyTorch too.")] = None
    compiler: Annotated[Name | None, doc("Whose code ran, or eager.")] = None
    batch: Annotated[int | None, doc("Batch size of the DataLoader, as `advisor record` wrote it.")] = None
    weights: Annotated[
        float | None, doc("Values in the weights of all layers that a step calls, each call counted.")
    ] = None
    layers: Annotated[dict[Name, Layer], doc("By operator and size of its weights: the heaviest.")] = {}
    grids: Annotated[
        dict[Name, list[float]], doc("By kernel: calls, and thread blocks of these, a step; the heaviest.")
    ] = {}


class Samples(msgspec.Struct, frozen=True, kw_only=True):
    """Per-step samples, over the steps that the median speaks of; over the window, as one sample, where there are none."""

    steps: Annotated[int, doc("Steps sampled; 0 without steps.")]
    metrics: Annotated[dict[Name, list[float]], doc("By metric: a value a step, in its unit.")]
    rules: Annotated[dict[Name, list[float]], doc("By rule id: the ms of each step that its rows own, where any do.")]
    parts: Annotated[dict[Name, dict[Name, float]], doc("By metric: the heaviest of its parts, a step on average.")]
    work: Annotated[
        Work | None, doc("What was computed, to tell if two recordings are alike; None where it was not kept.")
    ] = None
    sites: Annotated[
        Sites | None, doc("Owners of the typical step by place in the program; None where they were not kept.")
    ] = None
    facts: Annotated[
        dict[Name, bool | int | float | Name | None],
        doc("Settings and other facts that tell whether a fix was applied, by name; None for what is unknown."),
    ] = {}
    rows: Annotated[
        dict[Name, float], doc("By rule id: rows a step that match it, whether it fires on them or not; none where 0.")
    ] = {}
