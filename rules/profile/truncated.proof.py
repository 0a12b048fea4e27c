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
    whole = training().to_bytes()
    return whole[: len(whole) // 2]


@fires()
def half_a_gzip_file() -> bytes:
    whole = training().to_bytes(gz=True)
    return whole[: len(whole) // 2]


@quiet
def a_whole_file() -> bytes:
    return training().to_bytes()


@quiet
def a_whole_gzip_file() -> bytes:
    return training().to_bytes(gz=True)


@edge
def the_closing_bracket(over: bool) -> bytes:
    whole = training().to_bytes().rstrip()
    return whole[:-1] if over else whole
