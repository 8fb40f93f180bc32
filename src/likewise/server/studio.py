"""The studio: state that all routes share, created when the server starts; short requests run one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.errors import Cancelled, LikewiseError, UsageError
from likewise.grammar import Grammar
from likewise.grammar.grammar import chosen, require
from likewise.grammar.spans import sentence_spans
from likewise.search.index import Index
from likewise.search.ranker import Corpus, Ranker
from likewise.server.guards import disconnected
from likewise.server.jobs import Jobs, QueueFull
from likewise.server.offers import Cache, Corpora, ModelRegistry, Uploads
from likewise.server.settings import StudioSettings

T = TypeVar("T")
COST = {"bilrp": 1.0, "hxp": 2.5, "embedding": 0.0, "embedding-squared": 0.0, "random": 0.0}
"""Measured cost of a method relative to BiLRP."""
SLOWEST = 20.0  # the cost of integrated Jacobians
RankedTexts = tuple[Ranker, Corpus]  # a classic ranker and the texts that it ranks


class TooLong(UsageError):
    """A text beyond the limit."""


class SerialExecutor:
    """Runs questions one after the other in one thread; refuses those beyond a limit.

    One worker thread bounds torch's per-thread memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="likewise-questions")
        self.pending = 0

    def run(self, work: Callable[[], T]) -> T:
        """The result of some work; work whose client disconnects before it starts is dropped."""
        with self._lock:
            if self.pending >= self._limit:
                raise QueueFull(f"{self._limit} questions are waiting already; ask again in a moment")
            self.pending += 1
        try:
            future, gone = self._worker.submit(work), disconnected.get()
            if gone is not None:
                gone.add_done_callback(lambda _: future.cancel())
            return future.result()
        except CancelledError as error:
            raise Cancelled("the client has disconnected") from error
        finally:
            with self._lock:
                self.pending -= 1

    def close(self) -> None:
        """Take no more questions."""
        self._worker.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True, eq=False)
class Studio:
    """Settings, models, jobs, uploads, executors and caches."""

    settings: StudioSettings
    models: ModelRegistry
    jobs: Jobs
    uploads: Uploads
    corpora: Corpora
    executor: SerialExecutor  # for questions to models
    side_executor: SerialExecutor  # for long questions without a model, so that no other question waits for them
    indexes: Cache[Index]
    rankers: Cache[RankedTexts]

    @classmethod
    def open(cls, settings: StudioSettings) -> Studio:
        """A studio on its folder; raises where the settings are wrong."""
        limits = settings.limits
        if settings.grammar is not None:
            require(settings.grammar)
        uploads = Uploads(settings.folder / "corpora", limits)
        models, corpora = ModelRegistry(settings), Corpora(settings, uploads)
        # Last, when nothing can fail any more: it takes the folder's lock and starts a thread.
        jobs = Jobs(settings.folder / "jobs", limits.waiting, settings.redact)
        executors = SerialExecutor(limits.asking), SerialExecutor(limits.asking)
        caches: Any = Cache(limits.rankers), Cache(limits.rankers)
        return cls(settings, models, jobs, uploads, corpora, *executors, *caches)

    def run(self, work: Callable[[Encoder], T], model: str, **pooling: Any) -> T:
        """The result of some work with a model, in the executor of the models."""
        return self.executor.run(lambda: work(self.encoder(model, **pooling)))

    def encoder(self, model: str, **pooling: Any) -> Encoder:
        """A model with the given pooling."""
        encoder = self.models.encoder(model)
        return encoder.with_pooling(**pooling) if pooling else encoder

    def dependencies(self, corpus: str, *models: str, grammar: bool = False) -> list[str]:
        """What a result depends on besides its request: a file, weights, a grammar."""
        named = [self.grammar_name()] if grammar else []
        return [self.corpora.fingerprint(corpus), *map(self.models.fingerprint, models), *named]

    def dataset(self, corpus: str, limit: int | None = None) -> Dataset:
        """The file of a corpus, which must be there."""
        return Dataset(self.corpora.source(corpus), data_dir=self.settings.data_dir, limit=limit)

    def grammar_name(self) -> str:
        """The spaCy pipeline; empty where there is none, or no spaCy."""
        try:
            return chosen(self.settings.grammar)
        except LikewiseError:
            return ""

    def require_grammar(self) -> None:
        """Refuse a request that needs a grammar where there is none; the job loads it, since that takes long."""
        require(chosen(self.settings.grammar))

    def grammar(self) -> Grammar:
        """The grammar of the views that need one."""
        return Grammar.load(self.settings.grammar)

    def text(self, text: str) -> str:
        """A text within the limit."""
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
        cost, most = COST.get(method, SLOWEST), self.settings.limits.tokens
        passes = max(each * size for each, size in zip(units, tokens, strict=True))
        if method == "bilrp" and bias != "shared":
            passes = min(units) * max(tokens)
        if cost * passes > most**2:
            texts_of = f"texts of {tokens[0]} and {tokens[1]} tokens"
            raise TooLong(
                f"{texts_of} take too long to explain by {granularity} with {method} here; the budget is two texts of"
                f" {int(most / cost**0.5)}; shorten one, or explain by sentence with bilrp"
            )

    def close(self) -> None:
        """End all threads."""
        self.executor.close()
        self.side_executor.close()
        self.jobs.close()


def studio_of(request: Request) -> Studio:
    """The studio of a request."""
    found: Studio = request.app.state.studio
    return found


StudioDep = Annotated[Studio, Depends(studio_of)]  # The studio as an argument of a route
