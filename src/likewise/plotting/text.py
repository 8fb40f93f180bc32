"""Texts: safe to print, shortened, numbers with few decimals, unique labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}

BREAKS = dict.fromkeys((10, 0x2028, 0x2029), "\N{RETURN SYMBOL}") | {9: "\N{RIGHTWARDS ARROW TO BAR}"}
# Direction controls would reverse the text around a label; lone surrogates cannot be written to a file.
UNFIT = dict.fromkeys(
    (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000)), "\N{REPLACEMENT CHARACTER}"
)


def printable(text: str) -> str:
    """A text without control characters, which could control a terminal and which XML forbids.

    >>> printable("\\x1b[31mred")
    '\\ufffd[31mred'
    """
    return text.translate(CONTROLS | UNFIT)


def one_line(text: str) -> str:
    """A label on one line: control characters replaced, line breaks and blanks made visible.

    >>> one_line("a\\nb"), one_line(" ")
    ('a⏎b', '␣')
    """
    line = printable(text).translate(BREAKS)
    return line if line.strip() else "\N{OPEN BOX}" * max(1, len(line))


def shortened(text: str, characters: int) -> str:
    """At most ``characters`` characters of a text; an ellipsis marks a cut.

    >>> shortened("hospital", 5)
    'hosp…'
    """
    return text if len(text) <= characters else text[: max(0, characters - 1)] + "…"


def marked_words(text: str, words: Sequence[tuple[int, int, float]]) -> Iterator[tuple[str, float | None]]:
    """A text in pieces: words (start, end, share) with their share, the pieces between them with None.

    >>> list(marked_words("a cat", [(2, 5, 0.4)]))
    [('a ', None), ('cat', 0.4), ('', None)]
    """
    done = 0
    for start, end, share in sorted(words):
        if done <= start < end:  # of several tokens of one character, the first has the colour
            yield text[done:start], None
            yield text[start:end], share
            done = end
    yield text[done:], None


def brief(value: float, scale: float, sign: str = "-") -> str:
    """A number with as few decimals as ``scale``, the largest magnitude, needs; ``sign`` "+" shows plus signs.

    >>> brief(0.123, 0.5), brief(0.00123, 0.005), brief(-1e-9, 1.0)
    ('0.12', '0.0012', '0.00')
    """
    decimals = 2 if scale >= 0.1 else 3 if scale >= 0.01 else 4
    return f"{round(value, decimals) + 0.0:{sign}.{decimals}f}"


def unique_labels(paths: Sequence[str]) -> list[str]:
    """Short names of models: as many last path parts as make them unique; equal ones are numbered.

    >>> unique_labels(["models/e5", "minilm"]), unique_labels(["/runs/a/e5", "/runs/b/e5"]), unique_labels(["e5", "e5"])
    (['e5', 'minilm'], ['a/e5', 'b/e5'], ['e5', 'e5 (2)'])
    """
    deepest = max((len(PurePath(path).parts) for path in paths), default=1)
    short = ([_ending(path, depth) for path in paths] for depth in range(1, deepest))
    names = next((found for found in short if len(set(found)) == len(set(paths))), list(paths))
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        names[index] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return names


def _ending(path: str, depth: int) -> str:
    """The last parts of a path."""
    return "/".join(PurePath(path).parts[-depth:]) or path
