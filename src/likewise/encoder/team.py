"""Encoders whose work a team does: what is computed with one goes to several processes or to a cluster.

Functions that compute on many texts cut them into windows and let ``done_by_team`` do them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice
from typing import Any

from likewise.encoder.encoder import Encoded, Encoder, Size, encode_window
from likewise.encoder.pooling import PoolingConfig
from likewise.encoder.workers import ALONE, Done, Processes, Task, Team, Window
from likewise.progress import Progress, Ticker


@dataclass(frozen=True, eq=False, init=False, repr=False)
class TeamEncoder(Encoder):
    """An encoder with a team, which it keeps when its pooling changes."""

    team: Team = ALONE

    def encoded_windows(
        self, variants: Sequence[Encoder], windows: Iterable[Sequence[str]], prompt: str, size: Size, ticker: Ticker
    ) -> Iterator[list[Encoded]]:
        """The vectors of each window, by the team."""
        task = EncodeVariants(tuple(one.pooling_config for one in variants), prompt, size)
        return (found for _, found in done_by_team(self, task, windows, ticker))


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


def team_of(encoder: Encoder, workers: int | Team | None = None) -> Team:
    """The given workers, or else the encoder's own team; without one, this process."""
    if workers is not None:
        return Processes(workers) if isinstance(workers, int) else workers
    return encoder.team if isinstance(encoder, TeamEncoder) else ALONE


def done_by_team(
    encoder: Encoder, task: Task[Window, Done], windows: Iterable[Window], ticker: Ticker
) -> Generator[tuple[Window, Done]]:
    """Each window with the task's result, in order; a single window is done here, since a team takes seconds to start.

    Windows are cut by position alone, so the results are the same for every team.
    """
    stream = iter(windows)
    first = list(islice(stream, 2))
    if len(first) > 1:
        yield from team_of(encoder).run(encoder, task, chain(first, stream), ticker)
    for window in first if len(first) == 1 else ():
        yield window, task(encoder, window, ticker.part())
