"""The studio: what all routes share, made once when the server starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from likewise.encoder import Encoder
from likewise.errors import LikewiseError, UsageError
from likewise.grammar import Grammar
from likewise.server.corpora import Corpora
from likewise.server.jobs import Jobs
from likewise.server.settings import StudioSettings
from likewise.server.shelf import Shelf
from likewise.server.turns import Turns
from likewise.server.uploads import Uploads

Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class Studio:
    """Settings, models, jobs, uploads, and whose turn it is."""

    settings: StudioSettings
    shelf: Shelf
    jobs: Jobs
    uploads: Uploads
    corpora: Corpora
    turns: Turns

    @classmethod
    def opened(cls, settings: StudioSettings) -> Studio:
        """A studio over its folder."""
        limits = settings.limits
        uploads = Uploads(settings.folder / "corpora", limits)
        jobs = Jobs(settings.folder / "jobs", limits.waiting)
        return cls(settings, Shelf(settings), jobs, uploads, Corpora(settings, uploads), Turns(limits.asking))

    def answer(self, work: Callable[[Encoder], Found], model: str, **reading: Any) -> Found:
        """What comes of some work with a model, read as asked, once it is its turn."""
        return self.turns.answer(lambda: work(self.read(model, **reading)))

    def read(self, model: str, **reading: Any) -> Encoder:
        """A model, read as asked; what is None is the model's own."""
        encoder = self.shelf.encoder(model)
        chosen = {name: value for name, value in reading.items() if value is not None}
        return encoder.with_reading(**chosen) if chosen else encoder

    def corpus(self, name: str) -> str:
        """The file or the name that a corpus stands for."""
        return self.corpora.source(name)

    def given(self, corpus: str, *models: str, grammar: bool = False) -> list[str]:
        """What an answer depends on beside its question: a file, weights, a grammar."""
        named = [str(self.settings.grammar)] if grammar else []
        return [self.corpora.stamp(corpus), *map(self.shelf.stamp, models), *named]

    def grammar(self) -> Grammar:
        """The grammar of the views that need one."""
        return Grammar.load(self.settings.grammar)

    def grammar_or_none(self) -> Grammar | None:
        """The same where there is one."""
        try:
            return self.grammar()
        except LikewiseError:
            return None

    def text(self, text: str) -> str:
        """A text that is short enough."""
        most = self.settings.limits.characters
        if len(text) > most:
            raise TooLong(f"a text has at most {most:,} characters, and this one {len(text):,}; shorten it")
        return text

    def close(self) -> None:
        """End what is under way."""
        self.turns.close()
        self.jobs.close()


class TooLong(UsageError):
    """A text beyond the limit."""


def studio_of(request: Request) -> Studio:
    """The studio that a request is to."""
    found: Studio = request.app.state.studio
    return found


Here = Annotated[Studio, Depends(studio_of)]
"""What routes take to get at the studio."""
