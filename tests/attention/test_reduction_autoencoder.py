"""The autoencoder against the equations of an LSTM, its training against a plain loop, and breaks in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.attention.maps import RandomMaps
from likewise.attention.reduction import LstmAutoencoder, TrainingCurve, quick_recurrence, train_autoencoder
from likewise.attention.settings import AutoencoderSettings
from likewise.errors import Cancelled, DataError, UsageError

MAPS = RandomMaps(np.array([3, 4, 5, 4, 6, 3, 5, 4, 3, 6]), layers=2, heads=3)
SMALL = AutoencoderSettings(hidden=4, epochs=3, held_out=0.2)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm(steps: np.ndarray, weights: dict[str, np.ndarray], suffix: str) -> np.ndarray:
    """Hochreiter and Schmidhuber's cell with a forget gate, step by step: (T, in) -> all states (T, hidden)."""
    h = np.zeros(weights[f"weight_hh_l0{suffix}"].shape[1])
    c, states = h.copy(), []
    for x in steps:
        gates = (
            weights[f"weight_ih_l0{suffix}"] @ x + weights[f"bias_ih_l0{suffix}"]
            + weights[f"weight_hh_l0{suffix}"] @ h + weights[f"bias_hh_l0{suffix}"]
        )  # fmt: skip
        i, f, g, o = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return np.array(states)


def both_ways(steps: np.ndarray, weights: dict[str, np.ndarray], directions: int) -> tuple[np.ndarray, np.ndarray]:
    """All states (T, directions * hidden), and the final ones."""
    ways = [lstm(steps, weights, "")]
    finals = [ways[0][-1]]
    if directions == 2:
        back = lstm(steps[::-1], weights, "_reverse")
        ways.append(back[::-1])
        finals.append(back[-1])
    return np.concatenate(ways, 1), np.concatenate(finals)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_points_and_maps_by_the_equations(seed: int, directions: int) -> None:
    torch.manual_seed(seed)
    model = LstmAutoencoder(heads=3, hidden=5, directions=directions, latent=2).double()
    steps = torch.rand(2, 16, 3, dtype=torch.float64)
    named = {name: weight.detach().numpy() for name, weight in model.named_parameters()}
    part = {
        room: {name.partition(".")[2]: weight for name, weight in named.items() if name.startswith(room)}
        for room in ("reader", "writer")
    }
    for row in range(2):
        _, final = both_ways(steps[row].numpy(), part["reader"], directions)
        point = named["to_point.weight"] @ final + named["to_point.bias"]
        assert np.allclose(model.points(steps)[row].detach().numpy(), point, atol=1e-10)
        states, _ = both_ways(np.tile(point, (16, 1)), part["writer"], directions)
        written = states @ named["to_steps.weight"].T + named["to_steps.bias"]
        assert np.allclose(model(steps)[row].detach().numpy(), written, atol=1e-10)


def plainly_trained(settings: AutoencoderSettings, seed: int) -> tuple[LstmAutoencoder, list[float], list[float]]:
    """The same training as one loop, without early stop: every sequence of all layers is a step of Adam."""
    torch.manual_seed(seed)
    model = LstmAutoencoder(MAPS.heads, settings.hidden, settings.directions, settings.latent)
    adam = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    order = np.random.default_rng(seed).permutation(len(MAPS.lengths)).tolist()
    held, seen = order[:2], order[2:]
    train, held_out = [], []
    for epoch in range(settings.epochs):
        losses = []
        for place in np.random.default_rng((seed, epoch)).permutation(np.asarray(seen)).tolist():
            steps = MAPS.sequence(place)
            adam.zero_grad()
            loss = ((model(steps) - steps) ** 2).mean()
            loss.backward()
            adam.step()
            losses.append(loss.item())
        train.append(float(np.mean(losses)))
        with torch.no_grad():
            held_out.append(float(np.mean([model.loss(MAPS.sequence(place)).item() for place in held])))
    return model, train, held_out


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_training_is_a_plain_loop(seed: int) -> None:
    model, train, held_out = plainly_trained(SMALL, seed)
    found = train_autoencoder(MAPS, SMALL, seed)
    assert np.allclose(found.curve.train, train, rtol=1e-5)
    assert np.allclose(found.curve.held_out, held_out, rtol=1e-5)
    assert found.curve.best == 2  # so that the last weights are the best ones
    for name, weight in model.state_dict().items():
        assert torch.allclose(found.model.state_dict()[name], weight, atol=1e-6)


@pytest.mark.parametrize("epochs_before", [1, 2])
def test_a_break_changes_no_bit(epochs_before: int, tmp_path: Path) -> None:
    whole = train_autoencoder(MAPS, SMALL, checkpoint=tmp_path / "whole.pt")
    checkpoint = tmp_path / "broken.pt"
    calls: list[int] = []

    def stop(done: int, total: int | None, note: str) -> None:
        calls.append(done)
        if f"epoch {epochs_before + 1}" in note:
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        _patiently(train_autoencoder, MAPS, SMALL, 0, checkpoint, stop)
    again = train_autoencoder(MAPS, SMALL, checkpoint=checkpoint)
    assert again.curve == whole.curve
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weight)


def _patiently(train: object, *arguments: object) -> None:
    """Have every step told, not only one each tenth of a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
        train(*arguments)  # type: ignore[operator]


def test_points_belong_to_the_best_epoch() -> None:
    found = train_autoencoder(MAPS, SMALL)
    points, loss = found.points(MAPS)
    assert points.shape == (10, 2, 2)
    with torch.no_grad():
        by_hand = found.model.points(MAPS.sequence(4)).numpy()
        losses = [float(((found.model(MAPS.sequence(i)) - MAPS.sequence(i)) ** 2).mean()) for i in range(10)]
    assert np.allclose(points[4], by_hand, atol=1e-6) and loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_learning_lowers_the_loss() -> None:
    found = train_autoencoder(MAPS, AutoencoderSettings(hidden=8, epochs=8, held_out=0.0, learning_rate=1e-2))
    assert found.curve.train[-1] < 0.5 * found.curve.train[0]
    assert found.curve.held_out == found.curve.train  # where nothing is held out, training itself decides


def test_early_stop_waits_its_patience() -> None:
    curve = TrainingCurve((3.0, 2.0, 1.0, 0.5), (3.0, 2.0, 2.5, 2.4))
    assert curve.best == 1
    assert curve.over(epochs=10, patience=2) and not curve.over(epochs=10, patience=3)
    assert curve.over(epochs=4, patience=9) and not TrainingCurve((), ()).over(epochs=1, patience=1)


def test_a_loss_that_is_no_number_names_the_cure() -> None:
    class Broken(RandomMaps):
        def sequence(self, place: int) -> torch.Tensor:
            return super().sequence(place) * float("nan")

    with pytest.raises(DataError, match="lower --learning-rate"):
        train_autoencoder(Broken(MAPS.lengths, 2, 3), SMALL)


def test_threads_and_small_numbers_are_as_before() -> None:
    torch.set_num_threads(2)
    try:
        with pytest.raises(ZeroDivisionError), quick_recurrence():
            assert torch.get_num_threads() == 1
            _ = 1 / 0
        assert torch.get_num_threads() == 2
        # A number too small for the usual form is still one.
        assert float(torch.tensor([1e-30]) * torch.tensor([1e-10])) > 0
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"directions": 3}, "directions is 1 or 2"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"latent": 1}, "latent must be at least 2"),
        ({"learning_rate": 0.0}, "learning-rate lies above 0"),
        ({"held_out": 0.9}, "held-out is a share"),
    ],
)
def test_settings_name_the_cure(changes: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        AutoencoderSettings(**changes)  # type: ignore[arg-type]
