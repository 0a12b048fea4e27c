"""Proof of distributed/uneven-experts: ranks of a mixture of experts on which it fires, and others on which it does not."""

from advisor.testing import TraceBuilder
from advisor.testing.experts import expert_ranks
from advisor.testing.proof import edge, fires, lacks, quiet
from advisor.testing.workloads import ranks

EVEN = [1.0] * 8
POPULAR = [1.0, 1.0, 1.0, 1.0, 1.0, 1.5, 1.0, 1.0]


# Experts of rank 5 get half as many tokens again and take 3 ms instead of 2: seven of eight ranks wait 1 ms in each of four layers,
# 3.5 ms on average. A layer takes 1 + 0.1 + 3 + 0.1 ms, four of them 16.8, and 0.2 lie between steps: 20.6 %.
@fires(cost_ms=3.5, cost_share=0.206, occurrences=7 * 4 * 4, severity="high", op="record_param_comms")
def experts_of_one_rank_are_popular() -> list[TraceBuilder]:
    return expert_ranks([POPULAR] * 4)


# Shapes are not needed: the exchange says how many tokens there were.
@fires(cost_ms=3.5, severity="high")
def the_same_without_shapes() -> list[TraceBuilder]:
    return expert_ranks([POPULAR] * 4, shapes=False)


# Each layer has another popular rank, so that over the step all compute as long: four times 7 x 1 / 8 ms.
@fires(cost_ms=3.5, severity="high")
def another_rank_in_each_layer() -> list[TraceBuilder]:
    return expert_ranks([[1.5 if rank == layer else 1.0 for rank in range(8)] for layer in range(4)])


# 1.5, 1.25 and six times 1: ranks wait 0, 0.5 and six times 1 ms, 0.8125 on average, in four layers.
@fires(cost_ms=3.25, severity="high")
def two_ranks_have_more_and_the_one_with_most_is_waited_for() -> list[TraceBuilder]:
    return expert_ranks([[1.5, 1.25, *[1.0] * 6]] * 4)


# DeepEP's kernels say no size; their names say what they exchange.
@fires(cost_ms=3.5, severity="high")
def exchanged_by_a_library() -> list[TraceBuilder]:
    return expert_ranks([POPULAR] * 4, library=True)


@quiet
def all_experts_get_as_many_tokens() -> list[TraceBuilder]:
    return expert_ranks([EVEN] * 4)


# As many tokens on each rank, and one that takes half as long again for them: a slow GPU.
@quiet
def one_gpu_is_slower() -> list[TraceBuilder]:
    return expert_ranks([EVEN] * 4, slow=[1.0, 1.5])


# A recommender's tables: the rank with more of them looks up longer, and sends more. No product is in it.
@quiet
def tables_of_embeddings() -> list[TraceBuilder]:
    return expert_ranks(
        [POPULAR] * 4, experts="void split_embedding_codegen_forward_unweighted_kernel", op="fbgemm::lookup"
    )


# Attention over parts of the heads: sequences are longer on one rank, and what is exchanged is as large on each.
@quiet
def heads_that_are_exchanged() -> list[TraceBuilder]:
    return expert_ranks([POPULAR] * 4, experts="flash_fwd_kernel", op="aten::attention", sends_more=False)


# Batches of other lengths with products between exchanges of equal sizes: no tokens were sent where the work is.
@quiet
def products_behind_an_even_exchange() -> list[TraceBuilder]:
    return expert_ranks([POPULAR] * 4, sends_more=False)


@quiet
def a_late_rank_in_all_reduces() -> list[TraceBuilder]:
    return ranks({2: 10_000}, rows={2: 4779})


# Half a layer's 7/8 of the excess: of a step of 4 x (3.2 + 2 x more) + 0.2 ms, 5 % is a mean wait of 0.65 ms and more.
@edge
def a_mean_wait_of_5_percent(over: bool) -> list[TraceBuilder]:
    # 0.1 of 2 ms more: 4 x 0.175 = 0.7 of 13.8 ms, 5.1 %; 0.095: 0.665 of 13.76, 4.8 %.
    return expert_ranks([[1.0] * 7 + [1.1 if over else 1.095]] * 4)


@lacks("ranks")
def one_rank_alone() -> TraceBuilder:
    return expert_ranks([POPULAR] * 4)[0]


@lacks("distributed", verdict="not_applicable")
def a_program_of_one_process() -> TraceBuilder:
    b = TraceBuilder("NVIDIA A100-SXM4-80GB")
    with b.step():
        b.kernel("ampere_sgemm_128x64_tn", us=1_000)
    return b
