"""Schemas: what requests may ask for, and what answers always hold."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LONGEST_NAME, MOST_TEXTS, MOST_ROWS = 200, 12, 50_000
Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
Text = Annotated[str, Field(min_length=1)]
"""How long one may be is the studio's to say."""


class StudioRequest(BaseModel):
    """A request; unknown names are refused."""

    model_config = ConfigDict(extra="forbid")


class PoolingConfig(StudioRequest):
    """A model, read in some way; what is left out is the model's own."""

    model: Name = "minilm"
    pooling: Name | None = None
    layer: Annotated[int, Field(ge=-100, le=100)] | None = None
    special_tokens: bool = True

    def options(self) -> dict[str, Any]:
        """The settings of ``Encoder.with_reading`` that were given."""
        chosen = {"pooling": self.pooling, "layer": self.layer}
        return {name: value for name, value in chosen.items() if value is not None} | (
            {} if self.special_tokens else {"special_tokens": False}
        )


class PairRequest(PoolingConfig):
    """Why two texts are similar."""

    left: Text
    right: Text
    method: Literal["bilrp", "hxp", "embedding", "embedding-squared", "integrated-jacobian", "random"] = "bilrp"
    granularity: Literal["token", "word", "sentence"] = Field("word", alias="by")
    bias: Literal["separate", "local", "traced", "shared"] | None = None
    reference: Literal["none", "filler"] | None = None
    similarity: Literal["cosine", "dot"] = "cosine"


class CompareRequest(PoolingConfig):
    """A pair through two models or readings."""

    left: Text
    right: Text
    other: PoolingConfig


class IndexRequest(PoolingConfig):
    """An index of a corpus."""

    corpus: Name
    engine: Literal["exact", "hnsw"] = "exact"


class SearchRequest(StudioRequest):
    """The best texts of an indexed corpus for a query."""

    index: Name
    query: Text
    k: int = Field(10, ge=1, le=50)
    explain: bool = True


class BaselineRequest(StudioRequest):
    """The same query by a classic ranker."""

    corpus: Name
    query: Text
    ranker: Literal["bm25", "tfidf", "bow"] = "bm25"
    k: int = Field(10, ge=1, le=50)


class RecallRequest(StudioRequest):
    """How often a pair's text is found by its other one."""

    corpus: Name
    models: Annotated[list[Name], Field(min_length=1, max_length=4)]
    rankers: Annotated[list[Literal["dense", "bm25", "tfidf", "bow", "random"]], Field(min_length=1)] = [
        "dense", "bm25", "tfidf",
    ]  # fmt: skip
    limit: int | None = Field(None, ge=2)


class LayersRequest(StudioRequest):
    """Words or sentences followed through the layers."""

    texts: Annotated[list[Text], Field(min_length=2, max_length=MOST_TEXTS)]
    words: Annotated[list[Name], Field(max_length=MOST_TEXTS)] = []
    models: Annotated[list[Name], Field(min_length=1, max_length=4)] = ["minilm"]


class GeometryRequest(StudioRequest):
    """The geometry of the layers on a corpus."""

    corpus: Name
    models: Annotated[list[Name], Field(min_length=1, max_length=4)] = ["minilm"]
    min_contexts: int = Field(5, ge=2, le=1000)
    limit: int | None = Field(None, ge=2)


class AttentionRequest(StudioRequest):
    """Points of a model's attention maps on a corpus of scored pairs."""

    corpus: Name
    model: Name = "minilm"
    reducer: Literal["lstm", "pca", "umap"] = "pca"
    limit: int | None = Field(None, ge=10)


class ClustersRequest(StudioRequest):
    """Clusterings of a study's points."""

    algorithm: Literal["kmeans", "dbscan", "agglomerative", "spectral", "gaussian-mixture"] = "kmeans"
    least: int = Field(2, ge=2, le=50)
    most: int = Field(8, ge=2, le=50)
    distance: Literal["euclidean", "manhattan", "cosine"] = "euclidean"
    linkage: Literal["ward", "complete", "average", "single"] = "ward"
    covariance: Literal["full", "tied", "diag", "spherical"] = "full"
    eps: float | None = Field(None, gt=0)


class BrushRequest(StudioRequest):
    """A clustering's tests on some of the pairs."""

    layer: int = Field(ge=1, le=200)
    rows: Annotated[list[Annotated[int, Field(ge=0, lt=MOST_ROWS)]], Field(max_length=MOST_ROWS)] | None = None
    """of the pairs; all of them where it is left out"""


class PosRelevanceRequest(StudioRequest):
    """What parts of speech the similarities of a corpus rest on, by one setting or two."""

    corpus: Name
    first: PoolingConfig = PoolingConfig()
    second: PoolingConfig | None = None
    limit: int | None = Field(None, ge=2)


class LintRequest(PoolingConfig):
    """Pairs of a corpus whose score rests on the wrong things."""

    corpus: Name
    limit: int | None = Field(None, ge=2)


class TrainRequest(StudioRequest):
    """A model fine-tuned for similarity on scored pairs."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
    """of the run, and of its folder"""
    train: Name
    """a corpus of scored pairs"""
    dev: Name
    """another one, that judges each epoch"""
    model: Name = "minilm"
    aggregation: Literal["mean", "cls", "max", "bilstm"] = "mean"
    loss: Literal["mse", "cosent"] = "mse"
    epochs: int = Field(2, ge=1, le=50)
    batch: int = Field(16, ge=2, le=256)
    learning_rate: float = Field(5e-5, gt=0, le=0.01)
    seed: int = Field(1, ge=0, le=2**31 - 1)


class JobAnswer(BaseModel):
    """A piece of work and how far it has come."""

    id: str
    room: str
    title: str
    asked: dict[str, Any]
    state: Literal["waiting", "running", "done", "failed", "cancelled"]
    done: int
    total: int | None
    note: str
    error: str
    began: float
    seconds: float


class ErrorAnswer(BaseModel):
    """What went wrong, in one line that names the cure."""

    error: str
