"""Time in which the GPU waits for the CPU, divided by what the CPU does meanwhile; without a GPU, that of the CPU by line."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from advisor.results.field import CodeLine, Name, doc


class HostTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of the launching thread in one part of the program, while the GPU waits for it; without a GPU, of one line."""

    where: Annotated[
        CodeLine,
        doc(
            "What it does: a phase of training, the innermost function that is neither torch's nor the standard library's, a range "
            "that the program marks, or the outermost operator, whichever is known first; of a function that is next to all of it "
            "the innermost ranges in it. Empty between these, and for the others. "
            "Without a GPU the user's line that called it."
        ),
    ]
    kind: Annotated[
        Literal["phase", "function", "range", "operator", "between", "line", "others"],
        doc("Which of these `where` names; `others` sums up parts of less than a 200th."),
    ]
    ms: Annotated[float, doc("Of the step (of the window without steps) in ms.")]
    share: Annotated[
        float,
        doc("That, of all time in which the GPU waits for Python, operators and launches; without a GPU, of the step."),
    ]
    inside: Annotated[
        Name | None,
        doc(
            "The function of the standard library that a function spends most of this in, as inspect.signature; None for none."
        ),
    ] = None


class HostSplit(msgspec.Struct, frozen=True, kw_only=True):
    """Time in which the GPU waits for the CPU, by what the launching thread is in: Python, operators, calls, nothing recorded."""

    python_ms: Annotated[
        float,
        doc(
            "In Python frames, compiled regions, and autograd functions that are written in Python, without the operators and "
            "calls inside of them. Of the step (of the window without steps) in ms, as all of these."
        ),
    ]
    operator_ms: Annotated[float, doc("In operators and nodes of autograd's graph, without the calls inside of them.")]
    launch_ms: Annotated[float, doc("In calls of the runtime and the driver, launches above all.")]
    between_ms: Annotated[
        float,
        doc("In no recorded event but ranges and steps: without stacks that is the Python between the operators."),
    ]

    @property
    def outside_ms(self) -> float:
        """All that lies between operators."""
        return self.python_ms + self.between_ms
