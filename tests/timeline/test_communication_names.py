"""Kernels that communicate, by the names of many libraries, and kernels of one GPU whose names hold the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor import trace
from advisor.frames.collectives import _KINDS, kind
from advisor.testing import TraceBuilder
from advisor.timeline.communication_names import communicates
from advisor.timeline.kernel_names import classify

COMMUNICATION = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "rcclGenericKernel(ncclDevComm*)",
    "hcclAllReduceKernel",
    "hcom_allReduce__123_0",
    "oneccl_allreduce_pcie",
    "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, long*)",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*, float*)",
    "void deep_ep::intranode::notify_dispatch<8>(int const*, int*)",
    "void deep_ep::intranode::cached_notify_combine<8>(void**, int*)",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*)",
    "_ZN7deep_ep12internode_ll7combineILb0ELi7168EEEvPvS1_",
    "void pplx::a2a::dispatchKernel<8>(void*)",
    "mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>",
    "EpCombineIntraNodeKernel_bf16_nop2p",
    "void nvshmemi_transfer_put<1>(void*, int)",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
    "void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>(aiter::RankData*)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>, __half>(__half const*)",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 2>(c10::BFloat16**)",
    "one_shot_all_reduce_kernel",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(Pattern)1, __nv_bfloat16, 8>(Params)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__nv_bfloat16, 8, true>(AllReduceParams)",
    "void tensorrt_llm::kernels::moe_comm::moeA2ADispatchKernel<8>(Params)",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8",
]
ONE_GPU = [
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float> > >(ReduceOp)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 4, at::native::_cuda_scatter_gather_internal_kernel<true, float> >()",
    "void pytorch_flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>, 4, 4, true>(Params)",
    "void combine_attn_seqk_parallel_splitKV<float>(Params)",
    "void cub::DeviceReduceByKeyKernel<cub::DispatchReduceByKey<long*, long*> >(long*)",
    "void (anonymous namespace)::groupnorm_kernel_dispatch_down<__hip_bfloat16, 1024u>(unsigned int)",
    "triton_poi_fused_add_all_reduce_4",
    "triton_red_fused_all_gather_into_tensor_mean_1",
    "void oneflow::BlockAllReduceSoftmax<float>(float*)",
    "void softmax_warp_all_reduce<float>(float*)",
    "void paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128>(__hip_bfloat16*)",
    "splitKreduce_kernel<32, 16, int, float, float, float, float, true, false, false>(cublasSplitKParams<float>)",
    "void my_kernel<AllReduceParams>(AllReduceParams)",
    "void moe_permute_dispatch_kernel<float>(float*)",
    "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*, int*)",
    "void at::native::type_specialized_broadcast_kernel_launcher<1>()",
    "mynccl_helper",
    "step_dispatch_kernel",
]


@pytest.mark.parametrize("name", COMMUNICATION)
def test_a_kernel_that_communicates(name: str) -> None:
    assert communicates(name)
    assert classify(name, "nvidia").kind == "communication"


@pytest.mark.parametrize("name", ONE_GPU)
def test_a_kernel_of_one_gpu(name: str) -> None:
    assert not communicates(name)
    assert classify(name, "nvidia").kind != "communication"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (COMMUNICATION[6], "all_to_all"),
        (COMMUNICATION[7], "all_to_all"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>()", "all_reduce"),
        ("one_shot_all_reduce_kernel", "all_reduce"),
    ],
)
def test_what_it_exchanges(name: str, expected: str) -> None:
    assert _KINDS[kind("", "", name)][0] == expected


def test_tokens_on_their_way_to_experts_are_communication(tmp_path: Path) -> None:
    # Dispatch [8, 108), an expert's product [114, 314) behind it on another stream, and the results' way back [322, 372).
    b = TraceBuilder("NVIDIA H100 80GB HBM3", rank=0, world_size=8)
    with b.step():
        there = b.kernel(COMMUNICATION[6], us=100, stream=20)
        product = b.kernel("nvjet_tst_128x128_64x6_1x2_h_bz_TNT", us=200, stream=7, after=[there])
        b.kernel(COMMUNICATION[7], us=50, stream=20, after=[product])
        b.sync("cudaDeviceSynchronize")
    found = trace.read(str(b.write(tmp_path / "t.json")))
    causes = found.ledger.by_cause()
    assert (causes["communication"], causes["compute"]) == (150_000, 200_000)
    assert found.collectives["kind"].tolist() == ["all_to_all", "all_to_all"]
    assert found.collectives["exposed_ns"].tolist() == [100_000, 50_000]


def test_an_all_reduce_of_an_engine_on_amd(tmp_path: Path) -> None:
    # Beside a product [8, 108) the reduction [14, 134) of 120 us: 26 us of it are exposed.
    b = TraceBuilder("AMD Instinct MI300X", rank=1, world_size=2)
    with b.step():
        b.kernel("Cijk_Ailk_Bljk_BBS_BH_MT128x128", us=100, stream=0)
        b.kernel("void aiter::cross_device_reduce_2stage<__hip_bfloat16, 8>()", us=120, stream=1)
        b.sync("cudaDeviceSynchronize")
    found = trace.read(str(b.write(tmp_path / "t.json")))
    assert found.ledger.by_cause()["communication"] == 26_000
    assert found.collectives["kind"].tolist() == ["all_reduce"]
