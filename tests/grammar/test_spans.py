"""Words by letters: the quick way through ASCII gives what the letter-by-letter one gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from likewise.grammar.spans import _joined_spans, word_spans


@given(st.text(alphabet="ab1_'.,- !\n\x1f\x00", max_size=24))
def test_ascii_words_are_those_of_any_script(text: str) -> None:
    assert word_spans(text) == _joined_spans(text)
