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
"""What every pipeline must set, by spaCy's name for it."""


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
    """The pipeline in a folder or of an installed name, known to tag and to parse."""
    require(name)
    folder, spacy = os.path.expanduser(name), _spacy()
    try:
        nlp: Language = spacy.load(Path(folder) if os.path.isdir(folder) else name)
    except Exception as error:  # a broken folder fails in as many ways as it has files
        raise ModelError(
            f"cannot load the spaCy pipeline {_shown(name)} ({first_line(error)}); {DOWNLOAD}, or {GIVE}"
        ) from error
    _check_annotations(nlp, name)
    return nlp


def require(name: str) -> None:
    """Refuse what is neither a folder nor an installed pipeline; nothing is loaded."""
    folder = os.path.expanduser(name)
    # os.path answers False where pathlib raises: a name that is too long, a user that is not there.
    if not os.path.isdir(folder):
        _check_installed(name, folder)


def _spacy() -> ModuleType:
    try:
        import spacy
    except ImportError as error:
        raise MissingExtra("spacy", "grammar") from error
    return spacy


def _check_installed(name: str, folder: str) -> None:
    """Only a pipeline's name goes on to spaCy, which would import any package that is called so."""
    if os.path.isfile(folder):
        raise ModelError(f"{_shown(name)} is a file; give the folder of a spaCy pipeline")
    is_path = Path(name).name != name or name.startswith(("~", "."))
    here = [] if is_path else installed()
    if name not in here:
        kind = "folder" if is_path else "spaCy pipeline"
        offer = f"installed: {', '.join(here)}; " if here else ""
        raise ModelError(f"no {kind} {_shown(name)}; {offer}{DOWNLOAD}, or {GIVE}")


def _check_annotations(nlp: Language, name: str) -> None:
    """A pipeline without tagger or parser leaves empty labels, on which every count would silently be wrong."""
    try:
        doc = nlp(TRIAL)
    except Exception as error:  # a component that was never trained or lacks its data
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
    """A name as an error shows it: short and on one line."""
    return repr(name[:SHOWN_CHARACTERS]) + ("..." if len(name) > SHOWN_CHARACTERS else "")
