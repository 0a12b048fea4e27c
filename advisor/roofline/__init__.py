"""The limits of the hardware: arithmetic and least bytes of an operator, by the shapes that the trace recorded.

``families.work(signature, hints)`` is the work of one call: FLOPs, bytes, number format, and what is missing; a family of operators
in each file beside it. ``recording.modelled(recording)`` reads each distinct signature once and says which operator owns each
kernel's work; ``recording.divided`` gives FLOPs and bytes per operator, none of it twice.
"""
