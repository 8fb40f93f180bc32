"""How an index is made, apart from the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from likewise.encoder import Encoder
from likewise.encoder.similarity import MEASURES
from likewise.encoder.weights import identity
from likewise.errors import UsageError
from likewise.search.engines import check_engine
from likewise.search.passages import PassageSettings


@dataclass(frozen=True)
class IndexSettings:
    """How an index is made, apart from the model.

    >>> IndexSettings(engine="hnsw", bits=8).similarity
    'cosine'
    """

    engine: str = "auto"  # exact, hnsw, ivf, or auto, which depends on the number of vectors
    bits: int = 32  # per vector component; 8 takes a quarter of the memory
    similarity: str = "cosine"  # cosine or dot
    query_prompt: str | None = None  # put before each query; None is the model's own
    document_prompt: str | None = None  # put before each text; None is the model's own
    passages: PassageSettings | None = None  # cut documents into passages, and keep their metadata; None: as they are
    metadata: bool = False  # keep the metadata of texts that are not cut

    def __post_init__(self) -> None:
        check_engine(self.engine, self.bits)
        if self.similarity not in MEASURES:
            raise UsageError(f"unknown similarity {self.similarity!r}; choose from {', '.join(MEASURES)}")

    def with_passages(self, passages: PassageSettings | None) -> IndexSettings:
        """The same with other passages, if they are given."""
        return self if passages is None else replace(self, passages=passages)

    def stored(self, encoder: Encoder) -> dict[str, Any]:
        """Everything that the vectors and their scores depend on, as plain JSON."""
        query, document = (
            encoder.modules_config.prompt_for(role) if given is None else given
            for role, given in (("query", self.query_prompt), ("document", self.document_prompt))
        )
        # An absolute folder is found from anywhere, a short name on any machine.
        name = str(Path(encoder.name).resolve()) if Path(encoder.name).is_dir() else encoder.name
        own: dict[str, Any] = {
            "model": name,
            "similarity": self.similarity,
            "query_prompt": query,
            "document_prompt": document,
        }
        if self.passages is not None:
            own["passages"] = asdict(self.passages.within(encoder.tokenizer))
        elif self.metadata:
            own["metadata"] = True
        return identity(encoder) | own | {"dimension": encoder.dimension}


USUAL = IndexSettings()


def keeps_origins(stored: Mapping[str, Any]) -> bool:
    """Whether an index with these stored settings keeps passages or metadata."""
    return bool(stored.get("passages") or stored.get("metadata"))
