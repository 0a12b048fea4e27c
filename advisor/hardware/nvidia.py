"""NVIDIA's data center boards.

TFLOP/s that a data sheet prints only "with sparsity" stand here halved. Rates in fp64 of boards with a token number of fp64
units follow from the units of a multiprocessor (CUDA C++ Programming Guide, throughput of arithmetic instructions).
"""

from __future__ import annotations

from advisor.hardware.rates import Device, Peaks

_VOLTA = "NVIDIA Tesla V100 GPU Architecture white paper; NVIDIA V100 and V100S data sheets"
_TURING = "NVIDIA Turing GPU Architecture white paper, appendix; NVIDIA T4 data sheet"
_AMPERE = "NVIDIA A100 Tensor Core GPU Architecture white paper; NVIDIA A100 data sheets (40 GB, 80 GB)"
_AMPERE_10 = "NVIDIA Ampere GA102 GPU Architecture white paper; NVIDIA {} data sheet"
_ADA = "NVIDIA Ada GPU Architecture white paper; NVIDIA {} data sheet"
_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture white paper; NVIDIA {} data sheet"
_BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief; {}"
_HGX = "NVIDIA HGX platform data sheet, an eighth of eight GPUs"
_NVL72 = "NVIDIA {} NVL72 data sheet, a 72nd of 72 GPUs"

_A100 = Peaks(9.7, 19.5, 19.5, None, 156.0, 312.0, 312.0, int8=624.0)
_H100 = Peaks(33.5, 66.9, 66.9, None, 494.7, 989.4, 989.4, 1978.9, int8=1978.9)
_H800 = _H100._replace(fp64=1.0, fp64_tensor=1.0)
_H100_PCIE = Peaks(25.6, 51.2, 51.2, None, 378.0, 756.0, 756.0, 1513.0, int8=1513.0)
_H100_NVL = Peaks(30.0, 60.0, 60.0, None, 417.5, 835.5, 835.5, 1670.5, int8=1670.5)
_H20 = Peaks(1.0, 1.0, 44.0, None, 74.0, 148.0, 148.0, 296.0, int8=296.0)
_V100_SXM = Peaks(7.8, None, 15.7, fp16=125.0)
_QUADRO = Peaks(0.51, None, 16.3, fp16=130.5, int8=261.0)

DEVICES = (
    Device(
        "V100 SXM", r"V100-(?:SXM[23]|DGXS)(?:-\w+)*", "volta", _VOLTA, _V100_SXM, 80,
        memory=900.0, l2_mib=6, pcie=3, gpu_link=150.0,
    ),
    Device(
        "V100 PCIe", r"V100-PCIE(?:-\w+)*", "volta", _VOLTA, Peaks(7.0, None, 14.0, fp16=112.0), 80,
        memory=900.0, l2_mib=6, pcie=3, gpu_link=0.0,
    ),
    Device(
        "V100S PCIe", r"V100S(?:-\w+)*", "volta", _VOLTA, Peaks(8.2, None, 16.4, fp16=130.0), 80, 32,
        memory=1134.0, l2_mib=6, pcie=3, gpu_link=0.0,
    ),
    Device(
        "T4", r"T4", "t4", _TURING, Peaks(0.25, None, 8.1, fp16=65.0, int8=130.0), 40, 16,
        memory=320.0, l2_mib=4, pcie=3, gpu_link=0.0,
    ),
    Device(
        "TITAN RTX, Quadro RTX 6000", r"TITAN RTX|Quadro RTX 6000", "turing", _TURING, _QUADRO, 72, 24,
        memory=672.0, l2_mib=6, pcie=3, gpu_link=50.0,
    ),
    Device(
        "Quadro RTX 8000", r"Quadro RTX 8000", "turing", _TURING, _QUADRO, 72, 48,
        memory=672.0, l2_mib=6, pcie=3, gpu_link=50.0,
    ),
    Device(
        "A100 SXM 40 GB", r"A100(?:-SXM4?)?(?:-40GB)?|A100-PG509-\d+", "a100", _AMPERE, _A100, 108, 40,
        memory=1555.0, l2_mib=40, pcie=4, gpu_link=300.0,
    ),
    Device(
        "A100 SXM 80 GB", r"A100(?:-SXM4?)?(?:-80GB)?|A100X", "a100", _AMPERE, _A100, 108, 80,
        memory=2039.0, l2_mib=40, pcie=4, gpu_link=300.0,
    ),
    Device(
        "A100 PCIe 40 GB", r"A100-PCIE(?:-40GB)?", "a100-pcie", _AMPERE, _A100, 108, 40,
        memory=1555.0, l2_mib=40, pcie=4, gpu_link=300.0,
    ),
    Device(
        "A100 PCIe 80 GB", r"A100 80GB PCIe|A100-PCIE-80GB", "a100-pcie", _AMPERE, _A100, 108, 80,
        memory=1935.0, l2_mib=40, pcie=4, gpu_link=300.0,
    ),
    Device(
        "A800 SXM 80 GB", r"A800(?:-SXM4)?(?:-80GB)?", "a100", _AMPERE, _A100, 108, 80,
        memory=2039.0, l2_mib=40, pcie=4, gpu_link=200.0,
    ),
    Device(
        "A800 PCIe 80 GB", r"A800 80GB PCIe", "a100-pcie", _AMPERE, _A100, 108, 80,
        memory=1935.0, l2_mib=40, pcie=4, gpu_link=200.0,
    ),
    Device(
        "A30", r"A30", "a100-pcie", "NVIDIA A30 data sheet",
        Peaks(5.2, 10.3, 10.3, None, 82.6, 165.2, 165.2, int8=330.0), 56, 24,
        memory=933.0, l2_mib=24, pcie=4, gpu_link=100.0,
    ),
    Device(
        "A10", r"A10", "ampere", _AMPERE_10.format("A10"),
        Peaks(0.49, None, 31.2, None, 62.5, 125.0, 125.0, int8=250.0), 72, 24,
        memory=600.0, l2_mib=6, pcie=4, gpu_link=0.0,
    ),
    Device(
        "A10G", r"A10G", "ampere", _AMPERE_10.format("A10G"),
        Peaks(0.49, None, 31.5, None, 35.0, 70.0, 70.0, int8=140.0), 80, 24,
        memory=600.0, l2_mib=6, pcie=4, gpu_link=0.0,
    ),
    Device(
        "A16", r"A16", "ampere", _AMPERE_10.format("A16"),
        Peaks(0.07, None, 4.5, None, 9.0, 17.9, 17.9, int8=35.9), 10, 16,
        memory=200.0, pcie=4, gpu_link=0.0, per="one of the board's four GPUs",
    ),
    Device(
        "A2", r"A2", "ampere", _AMPERE_10.format("A2"),
        Peaks(0.07, None, 4.5, None, 9.0, 18.0, 18.0, int8=36.0), 10, 16,
        memory=200.0, pcie=4, lanes=8, gpu_link=0.0,
    ),
    Device(
        "A40", r"A40", "ampere", _AMPERE_10.format("A40"),
        Peaks(0.58, None, 37.4, None, 74.8, 149.7, 149.7, int8=299.3), 84, 48,
        memory=696.0, l2_mib=6, pcie=4, gpu_link=56.25,
    ),
    Device(
        "L4", r"L4", "l4", _ADA.format("L4"),
        Peaks(0.47, None, 30.3, None, 60.6, 121.0, 121.0, 242.5, int8=242.5), 58, 24,
        memory=300.0, l2_mib=48, pcie=4, gpu_link=0.0,
    ),
    Device(
        "L20", r"L20", "ada", _ADA.format("L20"),
        Peaks(0.93, None, 59.8, None, 59.8, 119.5, 119.5, 239.0, int8=239.0), 92, 48,
        memory=864.0, l2_mib=96, pcie=4, gpu_link=0.0,
    ),
    Device(
        "L40", r"L40", "ada", _ADA.format("L40"),
        Peaks(1.41, None, 90.5, None, 90.5, 181.0, 181.0, 362.0, int8=362.0), 142, 48,
        memory=864.0, l2_mib=96, pcie=4, gpu_link=0.0,
    ),
    Device(
        "L40S", r"L40S", "ada", _ADA.format("L40S"),
        Peaks(1.43, None, 91.6, None, 183.2, 362.1, 362.1, 733.0, int8=733.0), 142, 48,
        memory=864.0, l2_mib=96, pcie=4, gpu_link=0.0,
    ),
    Device(
        "H100 SXM", r"H100(?: 80GB HBM3|-SXM5?(?:-\w+)*)?", "hopper", _HOPPER.format("H100"), _H100, 132, 80,
        memory=3352.0, l2_mib=50, pcie=5, gpu_link=450.0,
    ),
    Device(
        "H100 PCIe", r"H100[ -]PCIe", "hopper-pcie", _HOPPER.format("H100 PCIe"),
        _H100_PCIE, 114, 80,
        memory=2039.0, l2_mib=50, pcie=5, gpu_link=300.0,
    ),
    Device(
        "H100 NVL", r"H100 NVL", "hopper-pcie", _HOPPER.format("H100 NVL"), _H100_NVL, 132, 94,
        memory=3938.0, pcie=5, gpu_link=300.0,
    ),
    Device(
        "H800 SXM", r"H800(?:-SXM5?(?:-\w+)*)?", "hopper", _HOPPER.format("H800"), _H800, 132, 80,
        memory=3352.0, l2_mib=50, pcie=5, gpu_link=200.0,
    ),
    Device(
        "H800 PCIe", r"H800[ -]PCIe", "hopper-pcie", _HOPPER.format("H800"),
        _H100_PCIE._replace(fp64=None, fp64_tensor=None), 114, 80,
        memory=2039.0, l2_mib=50, pcie=5, gpu_link=200.0,
    ),
    Device(
        "H200 SXM", r"H200", "hopper", _HOPPER.format("H200"), _H100, 132, 141,
        memory=4800.0, l2_mib=60, pcie=5, gpu_link=450.0,
    ),
    Device(
        "H200 NVL", r"H200 NVL", "hopper-pcie", _HOPPER.format("H200"), _H100_NVL, 132, 141,
        memory=4800.0, pcie=5, gpu_link=450.0,
    ),
    Device(
        "H20 96 GB", r"H20", "hopper-small", _HOPPER.format("H20"), _H20, 78, 96,
        memory=4023.0, l2_mib=60, pcie=5, gpu_link=450.0,
    ),
    Device(
        "H20 141 GB", r"H20(?:-3e)?", "hopper-small", _HOPPER.format("H20"), _H20, 78, 141,
        memory=4800.0, l2_mib=60, pcie=5, gpu_link=450.0,
    ),
    Device(
        "GH200 96 GB", r"GH200(?: (?:480|120)GB)?", "gh200", _HOPPER.format("GH200 Grace Hopper Superchip"), _H100, 132, 96,
        memory=4023.0, l2_mib=60, pcie=0, c2c=450.0, gpu_link=450.0,
    ),
    Device(
        "GH200 144 GB", r"GH200(?: 144GB?(?: HBM3e)?)?", "gh200", _HOPPER.format("GH200 Grace Hopper Superchip"), _H100, 132, 144,
        memory=4900.0, l2_mib=60, pcie=0, c2c=450.0, gpu_link=450.0,
    ),
    Device(
        "B100", r"B100", "blackwell", _BLACKWELL.format(_HGX),
        Peaks(30.0, 30.0, 60.0, None, 900.0, 1750.0, 1750.0, 3500.0, 7000.0, 3500.0), None, 192,
        memory=8000.0, pcie=5, gpu_link=900.0,
    ),
    Device(
        "B200", r"B200", "blackwell", _BLACKWELL.format(_HGX),
        Peaks(37.0, 37.0, 75.0, None, 1125.0, 2250.0, 2250.0, 4500.0, 9000.0, 4500.0), 148, 180,
        memory=8000.0, l2_mib=126, pcie=5, gpu_link=900.0,
    ),
    Device(
        "B300", r"B300", "blackwell", _BLACKWELL.format(_HGX),
        Peaks(1.25, 1.25, 75.0, None, 1125.0, 2250.0, 2250.0, 4500.0, 13500.0, 150.0), None, 288,
        memory=8000.0, pcie=5, gpu_link=900.0,
    ),
    Device(
        "GB200", r"GB200", "blackwell", _BLACKWELL.format(_NVL72.format("GB200")),
        Peaks(40.0, 40.0, 80.0, None, 1250.0, 2500.0, 2500.0, 5000.0, 10000.0, 5000.0), 152, 186,
        memory=8000.0, pcie=0, c2c=450.0, gpu_link=900.0,
    ),
    Device(
        "GB300", r"GB300", "blackwell", _BLACKWELL.format(_NVL72.format("GB300")),
        Peaks(None, None, 80.0, None, 1250.0, 2500.0, 2500.0, 5000.0, 15000.0, 165.0), None, 288,
        memory=8000.0, pcie=0, c2c=450.0, gpu_link=900.0,
    ),
)  # fmt: skip
