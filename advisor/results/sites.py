"""Sites of a program: the places in it that own the time of a step, as two recordings are compared by."""

from __future__ import annotations

from typing import Annotated

import msgspec

from advisor.results.field import FilePath, Name, doc


class Site(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Time of one cause in one place of the program: one kind of kernel of an operator, or one kind of wait.

    Sites own disjoint segments of the ledger, so that their ms add up to the step. What hides behind other work owns nothing.
    """

    cause: Annotated[Name, doc("Cause of the ledger that the time belongs to.")]
    ms: Annotated[float, doc("ms of the typical step that it owns.")]
    phase: Annotated[Name, doc("forward, backward, optimizer, zero_grad, or other; empty where unknown.")] = ""
    module: Annotated[Name, doc("nn.Module around it, below its parents; empty without one.")] = ""
    file: Annotated[FilePath, doc("The user's file; empty where unknown. A baseline keeps its name alone.")] = ""
    function: Annotated[Name, doc("The user's innermost function; empty where unknown.")] = ""
    line: Annotated[int, doc("Line in that file; -1 where unknown.")] = -1
    unit: Annotated[Name, doc("Outermost operator around it: the one that the program or autograd called.")] = ""
    op: Annotated[Name, doc("Innermost operator around it; of a wait, what the host was in.")] = ""
    kernel: Annotated[
        Name, doc("Kernel, copy or memset; in a program on the CPU the operator; of a wait, who held the host.")
    ] = ""
    kind: Annotated[Name, doc("Kind of the kernel, as the frame `kernels` has it; of the operator on the CPU.")] = ""
    shapes: Annotated[Name, doc("Shapes of the operator's inputs; empty where unknown.")] = ""
    dtype: Annotated[Name, doc("Number format; empty where unknown.")] = ""
    calls: Annotated[float, doc("Kernels, copies or operators a step, hidden ones too; of waits, how many.")] = 0.0
    busy_ms: Annotated[float, doc("How long these last, a step on average, hidden or not.")] = 0.0
    mb: Annotated[float | None, doc("MB that copies or collectives move, a step; None where unknown.")] = None
    limit_ms: Annotated[
        float | None, doc("Least ms in which the hardware could do it, a step; None where unknown.")
    ] = None
    samples: Annotated[list[float], doc("ms that it owns in each step; empty where they were not kept.")] = []


class Sites(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All sites of a recording."""

    step_ms: Annotated[float, doc("The typical step, as `analyze` has it: the sites add up to it, with `earlier_ms`.")]
    steps: Annotated[int, doc("Steps that it was taken from; 0 where the recording has none and it is its window.")]
    sites: Annotated[list[Site], doc("The sites, the heaviest first.")]
    earlier_ms: Annotated[float, doc("ms of the step that work owns which was launched before the window.")] = 0.0
    startup_ms: Annotated[float, doc("Start-up in the recording: part of no step.")] = 0.0
    device: Annotated[Name, doc("Name of the device; empty where unknown.")] = ""
    whole: Annotated[bool, doc("Whether no site was left out or merged with others.")] = True
