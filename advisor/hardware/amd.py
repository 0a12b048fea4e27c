"""AMD's Instinct accelerators.

One device of torch is one graphics compute die: of an MI250 or MI250X half the package, and so half of what the data sheet
prints. MI300 and later are one device in their usual mode; a partition has fewer compute units, and no row fits it.
"""

from __future__ import annotations

from advisor.hardware.rates import Device, Peaks

_CDNA = "AMD CDNA architecture white paper; AMD Instinct MI100 data sheet"
_CDNA2 = "AMD CDNA 2 architecture white paper; AMD Instinct {} data sheet"
_CDNA3 = "AMD CDNA 3 architecture white paper; AMD Instinct {} data sheet"
_CDNA4 = "AMD CDNA 4 architecture white paper; AMD Instinct {} data sheet"
_CACHES = "; caches and compute units: AMD GPU specifications, ROCm documentation"

# 104 compute units at 1.7 GHz: an MI210, and a die of an MI250.
_CU_104 = Peaks(22.6, 45.3, 22.6, 45.3, None, 181.0, 181.0, int8=181.0)
_CU_110 = Peaks(23.9, 47.9, 23.9, 47.9, None, 191.5, 191.5, int8=191.5)
_MI300X = Peaks(81.7, 163.4, 163.4, 163.4, 653.7, 1307.4, 1307.4, 2614.9, int8=2614.9)

DEVICES = (
    Device(
        "MI100", r"MI100", "cdna", _CDNA + _CACHES,
        Peaks(11.5, None, 23.1, 46.1, None, 184.6, 92.3, int8=184.6), 120, 32,
        memory=1229.0, l2_mib=8, pcie=4, gpu_link=138.0,
    ),
    Device(
        "MI210", r"MI210", "cdna2", _CDNA2.format("MI210") + _CACHES, _CU_104, 104, 64,
        memory=1638.0, l2_mib=8, pcie=4, gpu_link=150.0,
    ),
    Device(
        "MI250", r"MI250(?:X ?/ ?MI250)?", "cdna2", _CDNA2.format("MI250") + _CACHES, _CU_104, 104, 64,
        memory=1638.0, l2_mib=8, pcie=4, per="one of the package's two dies",
    ),
    Device(
        "MI250X", r"MI250X(?: ?/ ?MI250)?", "cdna2", _CDNA2.format("MI250X") + _CACHES, _CU_110, 110, 64,
        memory=1638.0, l2_mib=8, pcie=4, per="one of the package's two dies",
    ),
    Device(
        "MI300A", r"MI300A", "mi300", _CDNA3.format("MI300A") + _CACHES,
        Peaks(61.3, 122.6, 122.6, 122.6, 490.3, 980.6, 980.6, 1961.2, int8=1961.2), 228, 128,
        memory=5325.0, l2_mib=24, last_level_mib=256, pcie=0,
    ),
    Device(
        "MI300X", r"MI300X", "mi300", _CDNA3.format("MI300X") + _CACHES, _MI300X, 304, 192,
        memory=5325.0, l2_mib=32, last_level_mib=256, pcie=5, gpu_link=448.0,
    ),
    Device(
        "MI325X", r"MI325X", "mi325", _CDNA3.format("MI325X") + _CACHES, _MI300X, 304, 256,
        memory=6000.0, l2_mib=32, last_level_mib=256, pcie=5, gpu_link=448.0,
    ),
    Device(
        "MI350X", r"MI350X", "mi350", _CDNA4.format("MI350X") + _CACHES,
        Peaks(72.1, 72.1, 144.2, 144.2, None, 2306.9, 2306.9, 4613.7, 9227.5, 4613.7), 256, 288,
        memory=8000.0, l2_mib=32, last_level_mib=256, pcie=5, gpu_link=537.6,
    ),
    Device(
        "MI355X", r"MI355X", "mi355", _CDNA4.format("MI355X") + _CACHES,
        Peaks(78.6, 78.6, 157.3, 157.3, None, 2516.6, 2516.6, 5033.2, 10066.3, 5033.2), 256, 288,
        memory=8000.0, l2_mib=32, last_level_mib=256, pcie=5, gpu_link=537.6,
    ),
)  # fmt: skip
