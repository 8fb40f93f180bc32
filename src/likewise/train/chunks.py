"""Chunks: a step's texts cut into groups of like length, so that little of attention is spent on padding."""

from __future__ import annotations

from collections.abc import Sequence

CHUNK_COST = 300
"""What a group costs beside its tokens, in tokens; measured with the bundled model, from 30 to 1,000."""


def chunks(lengths: Sequence[int], cost: int = CHUNK_COST) -> list[list[int]]:
    """Indices of texts, in groups for which padded tokens and the cost of each group are the least together.

    >>> chunks([5, 100, 6, 90], cost=10)
    [[0, 2], [3, 1]]
    """
    order = sorted(range(len(lengths)), key=lambda index: (lengths[index], index))
    # Cuts are made only between different lengths: one within a length costs a group and saves nothing.
    sizes = [lengths[index] for index in order]
    cuts = [index for index in range(len(order)) if index == 0 or sizes[index] > sizes[index - 1]] + [len(order)]
    best, begins = [0], [0]  # up to each cut: the least cost, and the cut at which its last group begins
    for number, end in enumerate(cuts[1:], start=1):
        tries = ((best[early] + cost + (end - cuts[early]) * sizes[end - 1], early) for early in range(number))
        found = min(tries)
        best.append(found[0])
        begins.append(found[1])
    made: list[list[int]] = []
    number = len(cuts) - 1
    while number:
        made.append(order[cuts[begins[number]] : cuts[number]])
        number = begins[number]
    return made[::-1]
