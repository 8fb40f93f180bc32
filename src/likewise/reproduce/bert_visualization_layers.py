"""Measures of the layers for the study of BERT's geometry: the corpus, the models, and effects over layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likewise.data import Dataset
from likewise.errors import UsageError
from likewise.geometry import Geometry, GeometrySettings, geometry_of
from likewise.geometry.geometry import ConfidenceBand
from likewise.geometry.occurrences import spans_of_words, word_key
from likewise.metrics import Array, Interval
from likewise.plotting.curves import Series, curve_panels
from likewise.reproduce.controls import untrained
from likewise.reproduce.published import PublishedValue
from likewise.reproduce.study import Context
from likewise.reproduce.verdicts import Control, Verdict, above, below
from likewise.results import Figure

CORPORA = {"en": ("snli/dev", "snli/test"), "zh": ("mstsb/zh_train", "mstsb/zh_dev")}
NAMED = {"en": ("beverage", "go", "school"), "zh": ()}  # the study names words of English only
SAME = 0.5
"""A control shows the same effect if its own is on the claimed side and at least this share of the measured one."""
SAME_NOTE = (
    "Effects over layers are sums of their values; the widths of their intervals are added, so the intervals are wide"
    " rather than narrow. A control shows the same effect if its own is on the claimed side and at least half as large."
)
OF_BERT = "BERT-base-cased, published"
RANDOM = "random weights"


# Corpus


def corpus(context: Context) -> Counter[str]:
    """The chosen texts and how often the files have each: evenly spaced ones, and those with a named word."""
    if context.language not in CORPORA:
        raise UsageError(f"this study has texts of {', '.join(CORPORA)}; leave out --language {context.language}")
    files = [Dataset(name, data_dir=context.data_dir) for name in CORPORA[context.language]]
    counts = Counter(text for file in files for text in file.sentences())
    chosen = spaced(list(counts), context.size(tiny=150, quick=1500, standard=None))
    for word in NAMED[context.language]:
        found = (text for text in counts if has_word(text, word))
        chosen += islice(found, context.size(tiny=8, quick=60, standard=None))
    return Counter({text: counts[text] for text in dict.fromkeys(chosen)})


def spaced(rows: Sequence[Any], count: int | None) -> list[Any]:
    """At most ``count`` rows at equal distances: files are often in the order of their sources.

    >>> spaced(range(10), 3)
    [0, 3, 6]
    """
    return list(rows) if count is None or count >= len(rows) else [rows[i * len(rows) // count] for i in range(count)]


def has_word(text: str, word: str) -> bool:
    """Whether a text has a word, in any case."""
    return any(word_key(text[slice(*span)], folds_case=True) == word for span in spans_of_words(text))


def repeated(counts: Mapping[str, int]) -> list[str]:
    """Each text as often as the files have it; spaces at the end make the copies different texts with equal tokens.

    >>> repeated({"a": 2, "b": 1})
    ['a', 'a ', 'b']
    """
    return [text + " " * copy for text, count in counts.items() for copy in range(count)]


# Models


def settings(context: Context, **changes: Any) -> GeometrySettings:
    """How much is sampled."""
    small: dict[str, Any] = {}
    if context.budget in ("tiny", "quick"):
        points = context.size(tiny=100, quick=500)
        small = {"max_contexts": 60, "sample_rows": context.size(tiny=300, quick=3000), "sample_points": points}
        small |= {"draws": context.size(tiny=50, quick=200), "min_contexts": context.size(tiny=3, quick=5)}
    return GeometrySettings(**(small | changes))


@dataclass(frozen=True)
class _Measurement:
    """What a measurement depends on; items share it."""

    kind: str  # trained, random or repeated
    model: str
    budget: str
    language: str
    data_dir: str
    context: Context = field(compare=False)


def layers(context: Context, kind: str = "trained") -> Geometry:
    """The geometry of the corpus: of the model (trained), with random weights, or with each text repeated."""
    return _layers(_Measurement(kind, context.model, context.budget, context.language, str(context.data_dir), context))


@lru_cache(maxsize=3)
def _layers(one: _Measurement) -> Geometry:
    context, counts = one.context, corpus(one.context)
    encoder = untrained(context.encoder) if one.kind == "random" else context.encoder
    texts = repeated(counts) if one.kind == "repeated" else list(counts)
    words = NAMED[context.language] if one.kind == "trained" else ()
    chosen = settings(context, words=words, corrections=one.kind == "trained")
    return geometry_of(encoder, texts, chosen, "+".join(CORPORA[context.language]), context.progress)


# Effects


def combination(band: ConfidenceBand, weights: Array) -> Interval:
    """The weighted sum of the layers' values; the ends are the sums of the layers' ends, on the wide side."""
    value = float(weights @ band.values)
    up = np.where(weights > 0, band.high - band.values, band.values - band.low)
    down = np.where(weights > 0, band.values - band.low, band.high - band.values)
    return Interval(value, value - float(np.abs(weights) @ down), value + float(np.abs(weights) @ up))


def rise(band: ConfidenceBand, last: int | None = None) -> Interval:
    """How much the least-squares line through the layers rises from the first one to ``last``, or to the end.

    >>> round(rise(ConfidenceBand.without_interval([0.1, 0.2, 0.3])).value, 3)
    0.2
    """
    count = len(band.values) if last is None else last + 1
    positions = np.arange(count) - (count - 1) / 2
    weights = np.zeros(len(band.values))
    weights[:count] = positions / (positions @ positions) * (count - 1)
    return combination(band, weights)


def rise_before_last(band: ConfidenceBand) -> Interval:
    """The rise over all layers but the last."""
    return rise(band, len(band.values) - 2)


def last_step(band: ConfidenceBand) -> Interval:
    """The value of the last layer minus that of the layer before it."""
    weights = np.zeros(len(band.values))
    weights[-2:] = -1.0, 1.0
    return combination(band, weights)


def difference(left: Interval, right: Interval) -> Interval:
    """Left minus right; the widths are added."""
    return Interval(left.value - right.value, left.low - right.high, left.high - right.low)


@dataclass(frozen=True)
class Claim:
    """A published claim that an effect over layers is above or below 0."""

    text: str
    effect: str  # what is measured, in words
    measure: Callable[[ConfidenceBand], Interval]
    is_above: bool = True

    def verdict(
        self, band: ConfidenceBand, control: ConfidenceBand | None, published: ConfidenceBand | None
    ) -> Verdict:
        """The verdict, by the model's band, that of random weights, and the published one for the words."""
        measured, words = self.measure(band), self.effect
        if published is not None:
            words += f"; BERT's own, as published: {self.measure(published).value:+.3f}"
        judge, checked = above if self.is_above else below, None
        if control is not None:
            checked = control_of(RANDOM, self.measure(control), measured, self.is_above)
        return judge(self.text, words, measured, control=checked)


def control_of(name: str, control: Interval, measured: Interval, is_above: bool = True) -> Control:
    """A control, and whether it shows the same effect."""
    side = control.low > 0 if is_above else control.high < 0
    return Control(name, control, side and abs(control.value) >= SAME * abs(measured.value))


# Published curves and figures


def published_band(values: Iterable[PublishedValue], column: str) -> ConfidenceBand:
    """The published values of a column, by layer."""
    return ConfidenceBand.without_interval([one.value for one in values if one.column == column])


def by_layer(columns: Mapping[str, ConfidenceBand]) -> dict[tuple[str, str], object]:
    """The cells of a table with a row for each layer."""
    return {
        (f"layer {layer}", name): interval if np.isfinite(interval.low) else interval.value
        for name, band in columns.items()
        for layer, interval in enumerate(band.intervals)
    }


def layer_figure(title: str, panels: Mapping[str, Mapping[str, ConfidenceBand]], label: str, note: str = "") -> Figure:
    """Titled panels with a line for each band; models of fewer layers end earlier."""

    def draw() -> Any:
        drawn = []
        for name, bands in panels.items():
            length = max(len(band.values) for band in bands.values())
            lines = {line: _padded(band, length) for line, band in bands.items()}
            drawn.append((name, (np.arange(length), lines)))
        return curve_panels(drawn, ("layer", label))[0]

    return Figure(draw, title, note)


def _padded(band: ConfidenceBand, length: int) -> Series:
    ends: list[NDArray[np.float64]] = [
        np.pad(one, (0, length - len(one)), constant_values=np.nan) for one in (band.values, band.low, band.high)
    ]
    return (ends[0], None, None) if np.isnan(ends[1]).all() else (ends[0], ends[1], ends[2])
