"""The words for kernels that were exchanged: what differs between the two is what is said."""

from __future__ import annotations

import pytest

from advisor.gating.division import words

SOFTMAX = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<8, c10::BFloat16, float, {}, Epilogue>(c10::BFloat16*, int)"


def test_a_kernels_name_goes_without_namespaces_that_have_no_name_and_without_arguments() -> None:
    assert words._short(SOFTMAX.format("float")) == "at::native::cunn_SoftMaxForward"
    assert words._short("ampere_sgemm_128x64_tn") == "ampere_sgemm_128x64_tn"


@pytest.mark.parametrize(
    ("name", "parameters"), [(SOFTMAX.format("float"), ["8", "c10::BFloat16", "float", "float", "Epilogue"])]
)
def test_the_parameters_of_its_template(name: str, parameters: list[str]) -> None:
    assert words._template(name) == parameters
    assert words._template("plain") == [""]
