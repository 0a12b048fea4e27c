"""The limits of the hardware: arithmetic and least bytes of an operator, by the shapes that the trace recorded.

``families.work`` is the work of one signature, a family of operators in each file beside it. ``recording.modelled`` finds the
signatures of a recording, each once, and says which operator owns the work of each kernel.
"""
