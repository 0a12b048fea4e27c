"""Proof of profile/truncated: traces on which it fires, and traces on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.proof import edge, fires, quiet


def training() -> TraceBuilder:
    b = TraceBuilder()
    for _ in range(4):
        with b.step(), b.op("aten::mm"):
            b.kernel("volta_sgemm_128x64_nn", us=1_000)
    return b


@fires(note="cut off")
def half_a_file() -> bytes:
    text = training().to_bytes()
    return text[: len(text) // 2]


@fires()
def half_a_gzip_file() -> bytes:
    text = training().to_bytes(gz=True)
    return text[: len(text) // 2]


@quiet
def a_whole_file() -> bytes:
    return training().to_bytes()


@quiet
def a_whole_gzip_file() -> bytes:
    return training().to_bytes(gz=True)


@edge
def the_closing_bracket(over: bool) -> bytes:
    text = training().to_bytes().rstrip()
    return text[:-1] if over else text
