"""Names of kernels that communicate: collectives of libraries, reductions of inference engines, exchanges between experts.

NCCL and its like on other devices, all-reduces over peer memory (vLLM, SGLang, TensorRT-LLM, FlashInfer, AITER, PyTorch's
symmetric memory), expert parallelism (DeepEP, pplx, MORI), one-sided transfers (NVSHMEM, rocSHMEM). Many kernels of one GPU
have words of these in their names: the sum of a block's threads is an all-reduce too, split attention is combined, CUB
dispatches. What communicates is told by its library, or by a word for many GPUs that stands in the function's own name.
"""

from __future__ import annotations

import re
from functools import lru_cache

from advisor.regex import regex

_MOST = 4000
# Libraries whose every kernel communicates; a word that begins with the library's name, so that a kernel of one's own that
# merely holds it is none.
_LIBRARY = regex(
    r"\b(?:nccl|rccl|hccl|cncl|mccl|eccl|bkcl|flagcx)(?:[A-Z_]|\b)|\b(?:NCCL|RCCL|HCCL|MCCL)"
    r"|oneccl|\bccl::|\bhcom_|mscclpp|\bmsccl|nvshmem|rocshmem|\broc_shmem|userbuffers_|\bpplx::|\bmori::"
    r"|multimem_(?:all|reduce|one)|cross_device_(?:reduce|barrier)|quickreduce::|\bnvls_|_nvls_"
    r"|(?:\b|_ZN?\d*)deep_ep(?!\w*::layout)"
)
# Each name that _LIBRARY finds holds one of these, whatever its case; to look for them is a tenth of the work.
_IN_LIBRARY = (
    "ccl", "cncl", "bkcl", "flagcx", "hcom_", "shmem", "userbuffers_", "pplx::", "mori::", "multimem_", "cross_device_",
    "quickreduce::", "nvls_", "deep_ep",
)  # fmt: skip
# In a function's own name, of whatever library. Not of the threads of one warp, block or cluster.
_MANY = regex(
    r"(?<!warp)(?<!warp_)(?<!block)(?<!block_)(?<!quad_)(?<!group_)(?<!cluster_)(?<!cta_)(?<!thread_)(?<!simd_)"
    r"(?:all_?reduce|reduce_?scatter(?!_add)|all_?gather|all_?to_?all|moe_?a2a(?:dispatch|combine|prepare)|one_?shot_?reduce"
    r"|(?<![a-z])ep_?(?:dispatch|combine)_?(?:intra|inter|low_?latency|kernel))",
    re.IGNORECASE,
)
# Inductor names a kernel after all operators around it: one that adds to the result of a collective is none.
_FUSED = regex(r"^triton_(?:poi|red|per|tem|for)_")


@lru_cache(maxsize=16384)
def communicates(name: str) -> bool:
    """Tell whether the kernel of this name exchanges data with other GPUs."""
    name = name[:_MOST]
    if _FUSED.match(name):
        return False
    lower = name.lower()
    of_library = any(word in lower for word in _IN_LIBRARY) and _LIBRARY.search(name) is not None
    return of_library or _MANY.search(function_of(name)) is not None


def without_anonymous(name: str) -> str:
    """Leave out of a C++ name the namespace that has no name, which is two words in brackets."""
    return name.replace("(anonymous namespace)::", "")


def function_of(name: str) -> str:
    """The function's own name in a demangled one: without its return type, template arguments and parameters."""
    head = without_anonymous(name).removeprefix("void ")
    ends = [at for at in (head.find("<"), head.find("(")) if at > 0]
    return head[: min(ends)] if ends else head
