from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

import likewise.grammar
from likewise.grammar import ParsedText, Word

WORD = Word("dogs", 0, 4, "NOUN", "root", 0, "dog")


def test_words_and_texts_are_frozen_slotted_and_hashable() -> None:
    parsed = ParsedText("dogs", (WORD,))
    for thing, name in ((WORD, "text"), (parsed, "words")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, "cats")
        assert not hasattr(thing, "__dict__")
    assert {WORD, dataclasses.replace(WORD)} == {WORD}
    assert hash(parsed) == hash(ParsedText("dogs", (WORD,)))


def test_a_plain_word_is_nothing_special() -> None:
    assert not (WORD.is_stop or WORD.is_punct or WORD.negates) and WORD.number is None


def test_every_public_name_has_an_example() -> None:
    for name in likewise.grammar.__all__:
        assert ">>>" in (getattr(likewise.grammar, name).__doc__ or ""), name


@pytest.mark.process
def test_importing_the_room_imports_neither_spacy_nor_torch() -> None:
    code = "import sys, likewise.grammar; sys.exit(bool({'spacy', 'torch'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
