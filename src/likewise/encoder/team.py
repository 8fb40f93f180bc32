"""Encoders whose work a team does: what is computed with one goes to several processes or to a cluster.

Whoever computes on many texts cuts them into windows by position alone and asks ``team_of(encoder)`` to do them, so
the results are the same for every team.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from typing import Any

from likewise.encoder.encoder import Encoded, Encoder, Size, encode_window
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.workers import ALONE, Team
from likewise.progress import Progress, Ticker


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TeamEncoder(Encoder):
    """An encoder with a team, which it keeps when its pooling changes."""

    team: Team = ALONE

    def encoded_windows(
        self, variants: Sequence[Encoder], windows: Iterable[Sequence[str]], prompt: str, size: Size, ticker: Ticker
    ) -> Iterator[list[Encoded]]:
        """The vectors of each window, by the team if there is more than one: to start it takes seconds."""
        stream = iter(windows)
        first = list(islice(stream, 2))
        if len(first) < 2:
            yield from super().encoded_windows(variants, first, prompt, size, ticker)
            return
        task = EncodeVariants(tuple(one.pooling_config for one in variants), prompt, size)
        for _, found in self.team.run(self, task, chain(first, stream), ticker):
            yield found


@dataclass(frozen=True)
class EncodeVariants:
    """The task of a worker: the vectors of a window's texts by several poolings."""

    poolings: tuple[PoolingConfig, ...]
    prompt: str
    size: Size

    def __call__(self, encoder: Encoder, window: Sequence[str], progress: Progress | None) -> list[Encoded]:
        """The vectors (n, d) of each pooling."""
        own = encoder.pooling_config
        variants = [encoder if one == own else encoder.with_pooling(**vars(one)) for one in self.poolings]
        return encode_window(variants, window, self.prompt, self.size, progress)


def with_team(encoder: Encoder, team: Team) -> Encoder:
    """The same encoder with a team that works for it."""
    parts: dict[str, Any] = {field.name: getattr(encoder, field.name) for field in fields(Encoder)}
    return TeamEncoder(**parts, team=team)


def team_of(encoder: Encoder) -> Team:
    """The team that works for an encoder; without one, this process."""
    return encoder.team if isinstance(encoder, TeamEncoder) else ALONE
