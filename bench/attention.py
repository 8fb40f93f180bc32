"""Claim: the autoencoder of ``likewise attention`` learns at least twice as many maps per second as a plain loop over
nn.LSTM that pads its batches.

    python bench/attention.py [--pairs 100] [--model minilm]

All ways train the same model on the same maps, one epoch on one thread, by processor time. The plain loop takes eight
sequences at a time, pads them to the longest and masks the loss. Beside it stands nn.LSTM without padding, one sequence
at a time as here, which shows what padding costs and what is won beyond it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from likewise.attention import AutoencoderSettings, LstmAutoencoder, train_autoencoder, write_maps
from likewise.attention.maps import AttentionMaps
from likewise.data import read_scored_pairs
from likewise.encoder import Encoder
from likewise.errors import DataError

SHARED = Path("../shared/data")
BATCH = 8
ROUNDS = 2


def pairs_at_hand(count: int) -> list[tuple[str, str]]:
    """Pairs of stsb/test drawn at random, else the sample's own."""
    try:
        found = list(read_scored_pairs("stsb/test", data_dir=SHARED))
    except DataError:
        found = list(read_scored_pairs("sample/pairs"))
    places = np.random.default_rng(0).permutation(len(found))[:count]
    return [(found[place].left, found[place].right) for place in places]


def padded_epoch(maps: AttentionMaps, size: int = BATCH) -> None:
    """Batches of sequences in random order, padded to the longest; what is padded does not count in the loss."""
    order = np.random.default_rng(0).permutation(len(maps.lengths))
    model, adam = begun(maps)
    for start in range(0, len(order), size):
        steps = [maps.sequence(int(place)) for place in order[start : start + size]]
        longest = max(each.shape[1] for each in steps)
        padded = torch.cat([torch.nn.functional.pad(each, (0, 0, 0, longest - each.shape[1])) for each in steps])
        mask = torch.cat([torch.arange(longest).lt(each.shape[1]).expand(len(each), -1) for each in steps])
        stepped(adam, ((model(padded) - padded).square() * mask[..., None]).sum() / mask.sum() / maps.heads)


def single_epoch(maps: AttentionMaps) -> None:
    """One sequence at a time, without padding, and nothing else."""
    model, adam = begun(maps)
    for place in np.random.default_rng(0).permutation(len(maps.lengths)):
        stepped(adam, model.loss(maps.sequence(int(place))))


def our_epoch(maps: AttentionMaps) -> None:
    """What ``likewise attention`` runs."""
    train_autoencoder(maps, AutoencoderSettings(epochs=1, held_out=0.0))


def begun(maps: AttentionMaps) -> tuple[LstmAutoencoder, torch.optim.Adam]:
    torch.manual_seed(0)
    model = LstmAutoencoder(maps.heads)
    return model, torch.optim.Adam(model.parameters(), 1e-3)


def stepped(adam: torch.optim.Adam, loss: Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def seconds(ways: Sequence[Callable[[AttentionMaps], None]], maps: AttentionMaps) -> list[float]:
    """The processor time of each way, taken in turns so that a busy machine is fair to all; the best counts."""
    times: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for place, way in enumerate(ways):
            began = time.process_time()
            way(maps)
            times[place].append(time.process_time() - began)
    return [min(each) for each in times]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--pairs", type=int, default=100)
    options.add_argument("--model", default="minilm")
    chosen = options.parse_args()
    encoder = Encoder.load(chosen.model, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        maps = write_maps(encoder, pairs_at_hand(chosen.pairs), Path(folder))
        ours, padded, single = seconds((our_epoch, padded_epoch, single_epoch), maps)
    count = len(maps.lengths) * maps.layers
    print(f"{count} maps of {chosen.model}, {maps.lengths.min()} to {maps.lengths.max()} tokens, one thread")
    for name, took in {"likewise": ours, f"padded, {BATCH} sequences": padded, "one sequence": single}.items():
        print(f"  {name:22} {count / took:7.1f} maps/s   {took / ours:.2f} times ours")
    print(f"ratio against the plain padded loop: {padded / ours:.2f} (claim: at least 2)")


if __name__ == "__main__":
    main()
