"""The studio: what all routes share, made once when the server starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from likewise.encoder import Encoder
from likewise.errors import LikewiseError, UsageError
from likewise.grammar import Grammar
from likewise.grammar.pipelines import chosen, require
from likewise.grammar.spans import sentence_spans
from likewise.search.index import Index
from likewise.search.ranker import Corpus, Ranker
from likewise.server.cache import Kept
from likewise.server.corpora import Corpora
from likewise.server.jobs import Jobs
from likewise.server.model_registry import ModelRegistry
from likewise.server.serial_executor import Turns
from likewise.server.settings import StudioSettings
from likewise.server.uploads import Uploads

Found = TypeVar("Found")

EFFORT = {"bilrp": 1.0, "hxp": 2.5, "integrated-jacobian": 20.0}
"""How long methods take beside BiLRP, as measured; the others take no time to speak of."""
RankedTexts = tuple[Ranker, Corpus]
"""A classic ranker and the texts that it ranks."""


@dataclass(frozen=True, eq=False)
class Studio:
    """Settings, models, jobs, uploads, whose turn it is, and what was searched last."""

    settings: StudioSettings
    model_registry: ModelRegistry
    jobs: Jobs
    uploads: Uploads
    corpora: Corpora
    turns: Turns
    aside: Turns
    """for what needs no model and may take a while, so that no other question waits for it"""
    indexes: Kept[Index]
    rankers: Kept[RankedTexts]

    @classmethod
    def opened(cls, settings: StudioSettings) -> Studio:
        """A studio over its folder."""
        limits = settings.limits
        if settings.grammar is not None:
            require(settings.grammar)
        uploads = Uploads(settings.folder / "corpora", limits)
        model_registry, corpora = ModelRegistry(settings), Corpora(settings, uploads)
        # Last, when nothing can go wrong any more: it holds the folder's lock and starts a thread.
        jobs = Jobs(settings.folder / "jobs", limits.waiting, settings.paths)
        return cls(
            settings,
            model_registry,
            jobs,
            uploads,
            corpora,
            Turns(limits.asking),
            Turns(limits.asking),
            Kept(limits.rankers),
            Kept(limits.rankers),
        )

    def answer(self, work: Callable[[Encoder], Found], model: str, **pooling_config: Any) -> Found:
        """What comes of some work with a model, read as asked, once it is its turn."""
        return self.turns.answer(lambda: work(self.read(model, **pooling_config)))

    def read(self, model: str, **pooling_config: Any) -> Encoder:
        """A model, read as asked; what is None is the model's own."""
        encoder = self.model_registry.encoder(model)
        chosen = {name: value for name, value in pooling_config.items() if value is not None}
        return encoder.with_pooling(**chosen) if chosen else encoder

    def corpus(self, name: str) -> str:
        """The file or the name that a corpus stands for."""
        return self.corpora.source(name)

    def given(self, corpus: str, *models: str, grammar: bool = False) -> list[str]:
        """What an answer depends on beside its question: a file, weights, a grammar."""
        named = [self.grammar_name()] if grammar else []
        return [self.corpora.stamp(corpus), *map(self.model_registry.stamp, models), *named]

    def grammar_name(self) -> str:
        """The pipeline of the views that need one; empty where there is none, or no spaCy."""
        try:
            return chosen(self.settings.grammar)
        except LikewiseError:
            return ""

    def require_grammar(self) -> None:
        """Refuse at once what needs a grammar where there is none; loading it takes longer and is a job's work."""
        require(chosen(self.settings.grammar))

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

    def require_brief(
        self, encoder: Encoder, texts: Sequence[str], granularity: str, method: str = "bilrp", bias: str | None = None
    ) -> None:
        """Raise TooLong if explaining two texts would exceed the latency budget.

        BiLRP follows each unit of the text with fewer units through both texts, unless biases are shared; other methods
        follow every unit of both.
        """
        tokens = [len(row) for row in encoder.tokenizer.ids(texts)[0]]
        units = [len(sentence_spans(text)) for text in texts] if granularity == "sentence" else tokens
        effort, most = EFFORT.get(method, 0.0), self.settings.limits.tokens
        passes = max(each * size for each, size in zip(units, tokens, strict=True))
        if method == "bilrp" and bias != "shared":
            passes = min(units) * max(tokens)
        if effort * passes > most**2:
            raise TooLong(
                f"texts of {tokens[0]} and {tokens[1]} tokens take too long to explain by {granularity} with {method} here;"
                f" the budget is two texts of {int(most / effort**0.5)}; shorten one, or explain by sentence with bilrp"
            )

    def close(self) -> None:
        """End what is under way."""
        self.turns.close()
        self.aside.close()
        self.jobs.close()


class TooLong(UsageError):
    """A text beyond the limit."""


def studio_of(request: Request) -> Studio:
    """The studio that a request is to."""
    found: Studio = request.app.state.studio
    return found


StudioDep = Annotated[Studio, Depends(studio_of)]
"""What routes take to get at the studio."""
