"""mteb: its evaluator on local pairs agrees with our own evaluation, and writes its own format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from likewise.data import Dataset
from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.evaluation.sts import evaluate_sts

mteb = pytest.importorskip("mteb", reason="mteb is not installed (extra: mteb)")

from mteb.cache import ResultCache  # noqa: E402
from mteb.models.models_protocols import EncoderProtocol  # noqa: E402
from mteb.types import PromptType  # noqa: E402

from likewise.integrations.mteb import MtebEncoder, sts_task  # noqa: E402

pytestmark = pytest.mark.nightly


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_it_is_an_encoder_by_the_protocol_of_mteb(minilm: Encoder) -> None:
    found = MtebEncoder(minilm)
    assert isinstance(found, EncoderProtocol)
    assert (found.mteb_model_meta.name, found.mteb_model_meta.embed_dim) == ("local/minilm", 384)
    other = MtebEncoder(minilm.with_pooling(pooling="cls")).mteb_model_meta.revision
    assert found.mteb_model_meta.revision == MtebEncoder(minilm).mteb_model_meta.revision != other


def test_a_task_on_local_data_gives_our_own_correlation(minilm: Encoder, tmp_path: Path) -> None:
    pairs = Dataset("sample/pairs").scored_pairs()
    cache = ResultCache(tmp_path)
    found = mteb.evaluate(
        MtebEncoder(minilm), sts_task("SamplePairs", pairs), cache=cache, show_progress_bar=False, co2_tracker=False
    )
    ours = evaluate_sts(minilm, pairs).agreement["spearman"].value
    assert found.task_results[0].get_score() == pytest.approx(ours, abs=1e-4)
    (path,) = tmp_path.rglob("SamplePairs.json")
    written = json.loads(path.read_text())
    assert written["scores"]["test"][0]["cosine_spearman"] == pytest.approx(ours, abs=1e-4)


def test_queries_and_documents_get_their_prompts(e5: Encoder) -> None:
    encoder, batches = MtebEncoder(e5), [{"text": ["ash", "rain"]}, {"text": ["snow"]}]
    for role, prompt in ((PromptType.query, "query: "), (PromptType.document, "passage: ")):
        expected = e5.encode([f"{prompt}{text}" for text in ("ash", "rain", "snow")], prompt="")
        np.testing.assert_allclose(encoder.encode(batches, prompt_type=role), expected, atol=1e-5)


def test_too_few_pairs() -> None:
    with pytest.raises(DataError, match="two pairs or more"):
        sts_task("Empty", [])
