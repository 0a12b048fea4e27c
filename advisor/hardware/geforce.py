"""NVIDIA's GeForce and workstation boards.

Boards of one architecture differ in clock and number of multiprocessors; how fast one type is beside another is the same in
all of them, so that a row has the rate in fp32 that the maker prints, and the rest follows from the architecture.
"""

from __future__ import annotations

from typing import NamedTuple

from advisor.hardware.rates import Device, Peaks

_TURING = "NVIDIA Turing GPU Architecture white paper, appendix (Founders Edition clocks); GeForce RTX 20 series specifications"
_AMPERE = "NVIDIA Ampere GA102 GPU Architecture white paper, appendix; {} specifications"
_ADA = "NVIDIA Ada GPU Architecture white paper, appendix; {} specifications"
_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture white paper, appendix; GeForce RTX 50 series specifications"


class _Series(NamedTuple):
    """Boards of one architecture and market: rates over that of fp32, with sums of 16-bit products in fp32."""

    family: str
    source: str
    pcie: int
    fp64: float
    half: float
    int8: float
    tf32: float | None = None
    fp8: float | None = None
    fp4: float | None = None
    bf16: bool = True

    def peaks(self, fp32: float) -> Peaks:
        """All peak rates of a board from its rate in fp32."""

        def rate(times: float | None) -> float | None:
            return None if times is None else round(fp32 * times, 2)

        half = rate(self.half)
        return Peaks(
            fp64=rate(self.fp64), fp32=fp32, tf32=rate(self.tf32), fp16=half, bf16=half if self.bf16 else None,
            fp8=rate(self.fp8), fp4=rate(self.fp4), int8=rate(self.int8),
        )  # fmt: skip


# fp8 with fast accumulation, of which torch's _scaled_mm can make use, is twice as fast as with sums in fp32.
_RTX_20 = _Series("geforce", _TURING, 3, 1 / 32, 4, 16, bf16=False)
_RTX_30 = _Series("geforce", _AMPERE.format("GeForce RTX 30 series"), 4, 1 / 64, 2, 8, tf32=1)
_RTX_40 = _Series("geforce", _ADA.format("GeForce RTX 40 series"), 4, 1 / 64, 2, 8, tf32=1, fp8=8)
_RTX_50 = _Series("geforce", _BLACKWELL, 5, 1 / 64, 2, 8, tf32=1, fp8=8, fp4=16)
_RTX_A = _Series("ampere", _AMPERE.format("NVIDIA RTX A series data sheets"), 4, 1 / 64, 4, 8, tf32=2)
_RTX_ADA = _Series("ada", _ADA.format("NVIDIA RTX Ada Generation data sheets"), 4, 1 / 64, 4, 8, tf32=2, fp8=8)

# Boards of another make that bear the name of one, and what a longer name adds.
_OTHERS = r"(?! ?(?:Ti|SUPER|D|Laptop|Mobile|with Max-Q|Max-Q|Ada)\b)"


class _Board(NamedTuple):
    """A board: multiprocessors, GiB and GB/s of memory, TFLOP/s in fp32, MiB of L2."""

    name: str
    sms: int
    gib: float
    memory: float
    fp32: float
    l2_mib: float | None
    lanes: int = 16
    gpu_link: float | None = 0.0


_BOARDS: tuple[tuple[_Series, tuple[_Board, ...]], ...] = (
    (
        _RTX_20,
        (
            _Board("RTX 2080 Ti", 68, 11, 616, 14.2, 5.5, gpu_link=50.0),
            _Board("RTX 2080 SUPER", 48, 8, 496, 11.2, 4, gpu_link=25.0),
            _Board("RTX 2080", 46, 8, 448, 10.6, 4, gpu_link=25.0),
            _Board("RTX 2070 SUPER", 40, 8, 448, 9.1, 4, gpu_link=25.0),
            _Board("RTX 2070", 36, 8, 448, 7.9, 4),
            _Board("RTX 2060 SUPER", 34, 8, 448, 7.2, 4),
            _Board("RTX 2060", 30, 6, 336, 6.5, 3),
        ),
    ),
    (
        _RTX_30,
        (
            _Board("RTX 3090 Ti", 84, 24, 1008, 40.0, 6, gpu_link=None),
            _Board("RTX 3090", 82, 24, 936, 35.6, 6, gpu_link=56.25),
            _Board("RTX 3080 Ti", 80, 12, 912, 34.1, 6),
            _Board("RTX 3080", 68, 10, 760, 29.8, 5),
            _Board("RTX 3080", 70, 12, 912, 30.6, 6),
            _Board("RTX 3070 Ti", 48, 8, 608, 21.7, 4),
            _Board("RTX 3070", 46, 8, 448, 20.3, 4),
            _Board("RTX 3060 Ti", 38, 8, 448, 16.2, 4),
            _Board("RTX 3060", 28, 12, 360, 12.7, 3),
            _Board("RTX 3050", 20, 8, 224, 9.1, 2, lanes=8),
        ),
    ),
    (
        _RTX_40,
        (
            _Board("RTX 4090", 128, 24, 1008, 82.6, 72),
            _Board("RTX 4090 D", 114, 24, 1008, 73.5, 72),
            _Board("RTX 4080 SUPER", 80, 16, 736, 52.2, 64),
            _Board("RTX 4080", 76, 16, 717, 48.7, 64),
            _Board("RTX 4070 Ti SUPER", 66, 16, 672, 44.1, 48),
            _Board("RTX 4070 Ti", 60, 12, 504, 40.1, 48),
            _Board("RTX 4070 SUPER", 56, 12, 504, 35.5, 48),
            _Board("RTX 4070", 46, 12, 504, 29.1, 36),
            _Board("RTX 4060 Ti", 34, 8, 288, 22.1, 32, lanes=8),
            _Board("RTX 4060 Ti", 34, 16, 288, 22.1, 32, lanes=8),
            _Board("RTX 4060", 24, 8, 272, 15.1, 24, lanes=8),
        ),
    ),
    (
        _RTX_50,
        (
            _Board("RTX 5090", 170, 32, 1792, 104.8, 96),
            _Board("RTX 5080", 84, 16, 960, 56.3, 64),
            _Board("RTX 5070 Ti", 70, 16, 896, 43.9, 48),
            _Board("RTX 5070", 48, 12, 672, 30.9, 48),
            _Board("RTX 5060 Ti", 36, 8, 448, 23.7, 32, lanes=8),
            _Board("RTX 5060 Ti", 36, 16, 448, 23.7, 32, lanes=8),
            _Board("RTX 5060", 30, 8, 448, 19.2, None, lanes=8),
        ),
    ),
    (
        _RTX_A,
        (
            _Board("RTX A6000", 84, 48, 768, 38.7, 6, gpu_link=56.25),
            _Board("RTX A5500", 80, 24, 768, 34.1, 6, gpu_link=56.25),
            _Board("RTX A5000", 64, 24, 768, 27.8, 6, gpu_link=56.25),
            _Board("RTX A4500", 56, 20, 640, 23.7, 6, gpu_link=56.25),
            _Board("RTX A4000", 48, 16, 448, 19.2, 4),
            _Board("RTX A2000", 26, 6, 288, 8.0, 3),
            _Board("RTX A2000 12GB", 26, 12, 288, 8.0, 3),
        ),
    ),
    (
        _RTX_ADA,
        (
            _Board("RTX 6000 Ada Generation", 142, 48, 960, 91.1, 96),
            _Board("RTX 5000 Ada Generation", 100, 32, 576, 65.3, 72),
            _Board("RTX 4500 Ada Generation", 60, 24, 432, 39.6, 48),
            _Board("RTX 4000 Ada Generation", 48, 20, 360, 26.7, 48),
            _Board("RTX 2000 Ada Generation", 22, 16, 224, 12.0, 12, lanes=8),
        ),
    ),
)  # fmt: skip


def _devices() -> tuple[Device, ...]:
    return tuple(
        Device(
            board.name, board.name.replace(" Generation", "(?: Generation)?") + _OTHERS, series.family, series.source,
            series.peaks(board.fp32), board.sms, board.gib, float(board.memory), board.l2_mib,
            pcie=series.pcie, lanes=board.lanes, gpu_link=board.gpu_link,
        )
        for series, boards in _BOARDS
        for board in boards
    )  # fmt: skip


DEVICES = _devices()
