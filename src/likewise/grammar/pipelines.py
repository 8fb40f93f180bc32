"""Pipelines: from a name or a folder to a spaCy pipeline that tags and parses."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from likewise.errors import MissingExtra, ModelError, first_line

if TYPE_CHECKING:
    from spacy.language import Language

VARIABLE = "LIKEWISE_GRAMMAR"
DOWNLOAD = "run: python -m spacy download en_core_web_sm"
GIVE = f"give a folder with --grammar or ${VARIABLE}"
SHOWN_CHARACTERS = 80
TRIAL = "The dog has seen the old man."

ANNOTATIONS = {"POS": "parts of speech", "DEP": "dependency labels"}
"""Annotations that every pipeline must set, by spaCy's name."""


def chosen(name: str | Path | None) -> str:
    """The given name, else ``$LIKEWISE_GRAMMAR``, else the first pipeline that is installed.

    >>> chosen("en_core_web_sm")
    'en_core_web_sm'
    """
    given = os.environ.get(VARIABLE) if name is None else str(name)
    if given or name is not None:
        return given or ""
    found = installed()
    if not found:
        raise ModelError(f"no spaCy pipeline found; {DOWNLOAD}, or {GIVE}")
    return found[0]


def installed() -> list[str]:
    """The names of the installed pipelines."""
    return sorted(_spacy().util.get_installed_models())


def pipeline(name: str) -> Language:
    """Loads a pipeline from a folder or by its installed name, and checks that it tags and parses."""
    require(name)
    folder, spacy = os.path.expanduser(name), _spacy()
    try:
        nlp: Language = spacy.load(Path(folder) if os.path.isdir(folder) else name)
    except Exception as error:  # a broken folder raises many kinds of errors
        raise ModelError(
            f"cannot load the spaCy pipeline {_shown(name)} ({first_line(error)}); {DOWNLOAD}, or {GIVE}"
        ) from error
    _check_annotations(nlp, name)
    return nlp


def require(name: str) -> None:
    """Rejects names that are neither a folder nor an installed pipeline, without loading anything."""
    folder = os.path.expanduser(name)
    # os.path returns False where pathlib raises: too long a name, an unknown user.
    if not os.path.isdir(folder):
        _check_installed(name, folder)


def _spacy() -> ModuleType:
    try:
        import spacy
    except ImportError as error:
        raise MissingExtra("spacy", "grammar") from error
    return spacy


def _check_installed(name: str, folder: str) -> None:
    """Passes only pipeline names to spaCy, which would import any package of that name."""
    if os.path.isfile(folder):
        raise ModelError(f"{_shown(name)} is a file; give the folder of a spaCy pipeline")
    is_path = Path(name).name != name or name.startswith(("~", "."))
    here = [] if is_path else installed()
    if name not in here:
        kind = "folder" if is_path else "spaCy pipeline"
        offer = f"installed: {', '.join(here)}; " if here else ""
        raise ModelError(f"no {kind} {_shown(name)}; {offer}{DOWNLOAD}, or {GIVE}")


def _check_annotations(nlp: Language, name: str) -> None:
    """Rejects pipelines without tagger or parser: their empty labels would make every count silently wrong."""
    try:
        doc = nlp(TRIAL)
    except Exception as error:  # an untrained component, or one without its data
        raise ModelError(
            f"the spaCy pipeline {_shown(name)} fails on a sentence ({first_line(error)}); {DOWNLOAD}, or {GIVE}"
        ) from error
    lacking = [meaning for key, meaning in ANNOTATIONS.items() if not doc.has_annotation(key)]
    if lacking:
        raise ModelError(
            f"the spaCy pipeline {_shown(name)} sets no {' and no '.join(lacking)}; "
            f"use one with a tagger and a parser, such as en_core_web_sm"
        )


def _shown(name: str) -> str:
    """A name for error messages: short and on one line."""
    return repr(name[:SHOWN_CHARACTERS]) + ("..." if len(name) > SHOWN_CHARACTERS else "")
