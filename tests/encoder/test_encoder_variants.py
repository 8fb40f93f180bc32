"""Several readings of one forward pass are what a pass for each would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from likewise.encoder import Encoder, forward
from likewise.encoder.encoder import encode_variants
from likewise.encoder.pooling import POOLERS, Dense, ModulesConfig, PoolingConfig
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, UsageError
from likewise.sample import sample_sentences
from tiny_models import tiny_encoder

TEXTS = [*sample_sentences()[:12], "", "a", "😀 日本", "the cat " * 9, "many words " * 60]
LAYERS: list[Any] = [0, 1, 2, -1, [0, 2], (1, 1, 3), "first-last", [3, 0]]


def check(encoder: Encoder, wanted: list[Any], prompt: str | None = None) -> None:
    found = encode_variants(encoder, TEXTS, wanted, prompt=prompt)
    assert len(found) == len(wanted)
    for pooling_config, one in zip(wanted, found, strict=True):
        options = vars(pooling_config) if isinstance(pooling_config, PoolingConfig) else pooling_config
        alone = encoder.with_pooling(**options).encode_with_stats(TEXTS, prompt=prompt)
        assert one.vectors.dtype == np.float32 and one.truncated == alone.truncated
        np.testing.assert_allclose(one.vectors, alone.vectors, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert", "qwen3"])
def test_all_poolings_by_all_layers(family: str) -> None:
    check(tiny_encoder(family), [{"pooling": pooling, "layer": layer} for pooling in POOLERS for layer in LAYERS])


def test_the_models_own_pooler() -> None:
    check(tiny_encoder("bert"), [{"pooling": "pooler"}, {"pooling": "mean+pooler"}, {"pooling": "cls", "layer": 0}])


def test_whole_readings() -> None:
    wanted = [
        PoolingConfig("max", 1, special_tokens=False),
        PoolingConfig("mean", normalize=True, truncate_dim=5),
        PoolingConfig("cls"),
    ]
    check(tiny_encoder("bert"), wanted)


def test_special_tokens_and_prompts() -> None:
    encoder = tiny_encoder(
        modules_config=ModulesConfig(include_prompt=False, prompts={"query": "query: "}, default_prompt="query")
    )
    wanted = [{"special_tokens": flag, "pooling": pooling} for flag in (True, False) for pooling in ("mean", "last")]
    for prompt in (None, "", "search: "):
        check(encoder, wanted, prompt)


@pytest.mark.parametrize("activation", ["Tanh", "Identity"])
def test_heads_and_normalising_models(activation: str) -> None:
    torch.manual_seed(0)
    head = Dense(torch.randn(8, 32).double(), torch.randn(8).double(), activation)
    encoder = tiny_encoder(modules_config=ModulesConfig(heads=(head,), normalizes=True))
    check(encoder, [{"layer": 1}, {"heads": False, "pooling": "max"}, {"normalize": False}, {"truncate_dim": 3}])


def test_postprocessing(tiny: Encoder) -> None:
    processing = fit_postprocessing("whitening", tiny.encode(sample_sentences()[:40]), 4)
    check(tiny.with_postprocessing(processing), [{}, {"pooling": "cls"}, {"layer": 1, "normalize": True}])


def test_several_windows(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 5)
    check(tiny, [{}, {"pooling": "max", "layer": 1}])


@pytest.mark.slow
def test_the_bundled_model(minilm: Encoder) -> None:
    check(minilm, [{"pooling": pooling, "layer": layer} for pooling in ("mean", "max") for layer in (-1, 0, 3)])


def test_one_pass_that_ends_at_the_deepest_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, run = [], forward.run_block

    def counting(*given: Any, **options: Any) -> Any:
        blocks.append(1)
        return run(*given, **options)

    monkeypatch.setattr(forward, "run_block", counting)
    encoder = tiny_encoder("bert")
    encode_variants(encoder, ["a cat"], [{"layer": 0}, {"layer": [0, 2]}, {"pooling": "cls", "layer": 1}])
    assert len(blocks) == 2


def test_texts_without_tokens(tiny: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = tiny.tokenizer.ids
    monkeypatch.setattr(type(tiny.tokenizer), "ids", lambda self, texts: ([[] for _ in texts], ids(texts)[1]))
    assert not encode_variants(tiny, ["", "a"], [{}, {"pooling": "max"}])[1].vectors.any()


def test_nothing_to_read(tiny: Encoder) -> None:
    assert encode_variants(tiny, ["a"], []) == []
    assert [one.vectors.shape for one in encode_variants(tiny, [], [{}, {"pooling": "cls+mean"}])] == [(0, 16), (0, 32)]


def test_a_layer_that_is_not_there_is_told_at_once(tiny: Encoder) -> None:
    with pytest.raises(UsageError, match="no layer 9"):
        encode_variants(tiny, TEXTS, [{}, {"layer": 9}], progress=lambda *_: pytest.fail("worked before checking"))


def test_progress_is_told_and_can_cancel(tiny: Encoder) -> None:
    seen: list[Any] = []
    encode_variants(tiny, TEXTS, [{}, {"layer": 1}], progress=lambda *call: seen.append(call))
    assert seen[-1] == (len(TEXTS), len(TEXTS), "texts")

    def cancel(*_: Any) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        encode_variants(tiny, TEXTS, [{}], progress=cancel)


@pytest.mark.slow
def test_a_backend_takes_a_pass_for_each(tiny_folder: Path) -> None:
    for package in ("onnx", "onnxruntime", "onnxscript"):
        pytest.importorskip(package)
    encoder = Encoder.load(str(tiny_folder), device="cpu", backend="onnx")
    seen: list[Any] = []
    wanted: list[Any] = [{}, {"pooling": "cls", "layer": 1}]
    found = encode_variants(encoder, TEXTS, wanted, progress=lambda *call: seen.append(call))
    assert seen[-1][:2] == (2 * len(TEXTS), 2 * len(TEXTS))
    for pooling_config, one in zip(wanted, found, strict=True):
        np.testing.assert_allclose(one.vectors, encoder.with_pooling(**pooling_config).encode(TEXTS), atol=1e-6)
