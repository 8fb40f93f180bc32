"""mteb: an encoder that its evaluator takes, and a task on local pairs, which needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from likewise.data import ScoredPair
from likewise.encoder import as_encoder
from likewise.encoder.encoder import Source
from likewise.encoder.weights import identity
from likewise.errors import DataError, MissingExtra
from likewise.storage import content_key

try:
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta, ScoringFunction
    from mteb.types import PromptType
except ImportError as error:
    raise MissingExtra("mteb", "mteb") from error

LOCAL = "local"
"""The organization in the names of models and data sets that are not on a hub."""


class MtebEncoder(AbsEncoder):
    """An encoder as mteb evaluates it: ``mteb.evaluate(MtebEncoder("minilm"), tasks)``.

    Queries and documents get the model's own prompts. The revision in mteb's results is a hash of everything that the
    vectors depend on, so that results of other weights, poolings or layers are kept apart.
    """

    def __init__(self, model: Source = "minilm", revision: str | None = None, **_: Any) -> None:
        self.model = self.encoder = as_encoder(model)
        self.mteb_model_meta = _model_meta(self.encoder, revision)

    def encode(
        self, inputs: Any, *, prompt_type: PromptType | None = None, batch_size: int | None = None, **_: Any
    ) -> np.ndarray[Any, Any]:
        """The vectors (n, d) of the texts in a data loader of batches."""
        texts = [text for batch in inputs for text in batch["text"]]
        role = None if prompt_type is None else prompt_type.value
        prompt = self.encoder.modules_config.prompt_for(role)
        return np.asarray(self.encoder.encode(texts, prompt=prompt, batch_size=batch_size))


def _model_meta(encoder: Any, revision: str | None) -> ModelMeta:
    name = encoder.name if encoder.name.count("/") == 1 else f"{LOCAL}/{encoder.name.strip('/').split('/')[-1]}"
    known: dict[str, Any] = {
        "name": name, "revision": revision or content_key(identity(encoder))[:16], "framework": ["PyTorch"],
        "n_parameters": sum(one.numel() for one in encoder.model.parameters()), "embed_dim": encoder.dimension,
        "max_tokens": encoder.tokenizer.limit, "similarity_fn_name": ScoringFunction.COSINE,
        "use_instructions": bool(encoder.modules_config.prompts),
    }  # fmt: skip
    # What an encoder cannot know about itself.
    unknown = ("loader", "release_date", "languages", "memory_usage_mb", "license", "open_weights",
               "public_training_code", "public_training_data", "training_datasets")  # fmt: skip
    return ModelMeta(**dict.fromkeys(unknown), **known)


def sts_task(name: str, pairs: Sequence[ScoredPair], language: str = "eng-Latn") -> AbsTaskSTS:
    """A task of mteb on scored pairs of one's own; the main score is Spearman's correlation with the cosine."""
    rows = list(pairs)
    if len(rows) < 2:
        raise DataError(f"a correlation needs two pairs or more, got {len(rows)}")
    texts = {"sentence1": [row.left for row in rows], "sentence2": [row.right for row in rows]}
    scores = [float(row.score) for row in rows]
    found = LocalSts()
    found.metadata = LocalSts.metadata.model_copy(update={"name": name, "eval_langs": [language]})
    found.min_score, found.max_score = min(scores), max(scores)
    found.dataset = DatasetDict({"test": Dataset.from_dict(texts | {"score": scores})})
    found.data_loaded = True
    return found


class LocalSts(AbsTaskSTS):
    """A task whose pairs are in memory; :func:`sts_task` makes one."""

    metadata = TaskMetadata(
        name="LocalSts", description="Pairs of texts with scores that people gave", type="STS", category="t2t",
        dataset={"path": f"{LOCAL}/sts", "revision": "1"}, eval_splits=["test"], eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
    )  # fmt: skip
