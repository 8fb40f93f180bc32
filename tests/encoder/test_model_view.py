"""Each activation is its own factor times its input, plus what it is at 0; factors are finite everywhere."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from transformers.activations import ACT2FN

from likewise.encoder.model_view import ACTIVATIONS
from likewise.encoder.pooling import HEAD_ACTIVATIONS

ODD = torch.tensor([0.0, 1e-300, -1e-9, 40, -40], dtype=torch.float64)
PLACES = torch.cat([torch.linspace(-9, 9, 361, dtype=torch.float64), ODD])
KNOWN = {**ACTIVATIONS, **HEAD_ACTIVATIONS}


@pytest.mark.parametrize("name", KNOWN)
def test_factor_times_input_is_the_function(name: str) -> None:
    activation = KNOWN[name]
    found = PLACES * activation.factor(PLACES) + activation.offset
    assert torch.allclose(found, activation(PLACES), atol=1e-14, rtol=1e-13)
    assert activation.factor(PLACES).isfinite().all()


@pytest.mark.parametrize("name", KNOWN)
def test_shift_is_the_value_at_zero(name: str) -> None:
    assert float(KNOWN[name](torch.zeros((), dtype=torch.float64))) == KNOWN[name].offset


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_function_is_hugging_faces(name: str) -> None:
    assert torch.allclose(ACTIVATIONS[name](PLACES), ACT2FN[name](PLACES), atol=1e-14)


@pytest.mark.parametrize("name", HEAD_ACTIVATIONS)
def test_head_function_is_torchs(name: str) -> None:
    assert torch.equal(HEAD_ACTIVATIONS[name](PLACES), getattr(nn, name)()(PLACES))


def test_factors_in_closed_form() -> None:
    one = torch.ones((), dtype=torch.float64)
    normal = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    assert float(KNOWN["gelu"].factor(one)) == pytest.approx(normal, abs=1e-15)
    assert float(KNOWN["silu"].factor(one)) == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-15)
    assert float(KNOWN["gelu_new"].factor(one)) != pytest.approx(normal, abs=1e-6)
    assert KNOWN["relu"].factor(torch.tensor([-1.0, 0.0, 2.0])).tolist() == [0, 0, 1]
    assert float(KNOWN["Tanh"].factor(0 * one)) == 1, "the limit of tanh(z) / z"
    assert float(KNOWN["Sigmoid"].factor(0 * one)) == 0.25, "the limit of (sigmoid(z) - 1/2) / z"
