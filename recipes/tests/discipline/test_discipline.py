"""The tools find each kind of offender, and a clean step passes."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from fits_xla import (  # noqa: E402
    DYNAMIC_OPERATORS,
    ForbiddenOperator,
    ShapeLedger,
    TooManyShapes,
    forbid_operators,
    trace_full_graph,
)


def clean_step(x, w):
    loss = torch.nn.functional.relu(x @ w).square().mean()
    loss.backward()
    return loss.detach()


OFFENDERS = {
    "aten::nonzero": lambda x: x.nonzero(),
    "aten::masked_select": lambda x: torch.masked_select(x, x > 0),
    "aten::index.Tensor(bool)": lambda x: x[x > 0],
    "aten::_local_scalar_dense": lambda x: x.sum().item(),
    "aten::repeat_interleave.Tensor": lambda x: torch.repeat_interleave((x[0, :2] > 9).long()),
    "aten::_unique2": lambda x: torch.unique(x),
    "aten::_weight_norm_interface": lambda x: torch._weight_norm(x, x[:, :1].abs() + 1, 0),
}


def test_every_operator_on_the_list_has_an_offender() -> None:
    assert OFFENDERS.keys() == DYNAMIC_OPERATORS.keys()


@pytest.mark.parametrize("name", sorted(OFFENDERS))
def test_an_operator_of_data_dependent_shape_is_refused_with_a_remedy(name: str) -> None:
    with pytest.raises(ForbiddenOperator, match=name.split("(")[0]) as refused, forbid_operators():
        OFFENDERS[name](torch.randn(3, 4))
    assert DYNAMIC_OPERATORS[name] in str(refused.value)


def test_a_clean_step_passes_backward_included() -> None:
    w = torch.randn(4, 2, requires_grad=True)
    with forbid_operators():
        clean_step(torch.randn(3, 4), w)
    assert w.grad is not None


def test_an_offender_in_the_backward_pass_is_found() -> None:
    class Sneaky(torch.autograd.Function):
        @staticmethod
        def forward(_ctx, x):
            return x * 2

        @staticmethod
        def backward(_ctx, grad):
            return grad * grad.sum().item()

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(ForbiddenOperator, match="_local_scalar_dense"), forbid_operators():
        Sneaky.apply(x).sum().backward()


def test_indexing_with_numbers_is_allowed() -> None:
    with forbid_operators():
        assert torch.arange(5)[torch.tensor([3, 1])].tolist is not None


def test_a_step_of_one_graph_traces_and_equals_the_plain_one() -> None:
    x = torch.randn(3, 4)
    assert torch.equal(trace_full_graph(lambda v: (v * 2).relu().sum(), x), (x * 2).relu().sum())


def test_a_step_that_reads_a_value_does_not_trace() -> None:
    def checks(v):
        return v if v.sum() > 0 else -v

    with pytest.raises(Exception, match=r"(?i)data-dependent|graph break"):
        trace_full_graph(checks, torch.randn(3))


class TestShapeLedger:
    def test_counts_the_calls_of_each_set_of_shapes(self) -> None:
        ledger = ShapeLedger()
        step = ledger.watch(lambda batch, scale: batch["x"].sum() * scale)
        for rows in (4, 4, 2):
            step({"x": torch.zeros(rows, 3)}, 1.0)
        assert list(ledger.signatures.items()) == [
            (("float32[4, 3]", "float 1.0"), 2),
            (("float32[2, 3]", "float 1.0"), 1),
        ]

    def test_a_python_number_that_changes_is_another_program(self) -> None:
        ledger = ShapeLedger(at_most=1)
        step = ledger.watch(lambda x, rate: x * rate)
        step(torch.zeros(2), 0.1)
        with pytest.raises(TooManyShapes, match=r"float 0\.2.*Pad or drop"):
            step(torch.zeros(2), 0.2)

    def test_a_tensor_whose_value_changes_is_the_same_program(self) -> None:
        ledger = ShapeLedger(at_most=1)
        step = ledger.watch(lambda x, rate: x * rate)
        for rate in (0.1, 0.2):
            step(torch.zeros(2), torch.tensor(rate))
        assert ledger.signatures.total() == 2
