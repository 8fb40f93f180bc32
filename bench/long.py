"""Claim: a text of 8,192 tokens is attributed at a peak of at most 2 GB above the model.

A ModernBERT of the published base size (22 layers, 768 dimensions, every third layer sees the whole text) with random
weights. Layers are recorded again one by one and attention maps are computed block by block. In a fresh process, with
large tensors given back to the system at once, so that the peak is that of what is held.

    python bench/long.py [--tokens 8192] [--threads 1]
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from pathlib import Path

MOST_GIGABYTES = 2.0


def resident(name: str = "VmHWM") -> float:
    """The process's resident size in gigabytes: the largest so far, or VmRSS, the present one."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 2**20


def saved_model(folder: Path, tokens: int) -> None:
    """A ModernBERT with random weights and a tokenizer that knows a few words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "ash", "fell", "on", "the", "village", "all", "night", "."]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]", model_max_length=tokens
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = ModernBertConfig(
        vocab_size=len(words), max_position_embeddings=tokens, pad_token_id=0, bos_token_id=None, eos_token_id=None,
        cls_token_id=None, sep_token_id=None,
    )  # fmt: skip
    ModernBertModel(config).save_pretrained(folder)


def measure(folder: Path, tokens: int, threads: int) -> bool:
    import numpy as np

    from likewise.encoder import Encoder
    from likewise.explain import attribute

    encoder = Encoder.load(folder, device="cpu", threads=threads)
    text = "ash fell on the village all night . " * (tokens // 8)
    direction = np.random.default_rng(0).standard_normal(encoder.dimension)
    encoder.encode("ash fell .")
    before, start = resident("VmRSS"), time.perf_counter()
    encoder.encode(text)
    encoded, middle = resident(), time.perf_counter()
    found = attribute(encoder, text, direction, granularity="token").texts[0]
    seconds = time.perf_counter() - middle
    print(f"{len(found.text.units)} tokens: encoding {middle - start:.0f} s, {encoded - before:.2f} GB above the model")
    times = seconds / (middle - start)
    print(f"  attribution {seconds:.0f} s, {times:.1f} times as long; {resident() - before:.2f} GB above")
    print(f"  gap {abs(found.gaps[0]):.1e} of a score of {found.scores[0]:.3f}")
    return resident() - before <= MOST_GIGABYTES


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is None:
        with tempfile.TemporaryDirectory() as made:
            saved_model(Path(made), options.tokens)
            command = [sys.executable, __file__, "--tokens", str(options.tokens), "--threads", str(options.threads)]
            # A child of its own: this process has held a second model.
            environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "1000000"}
            sys.exit(os.spawnvpe(os.P_WAIT, command[0], [*command, "--folder", made], environment))
    held = measure(options.folder, options.tokens, options.threads)
    print("claim", "holds" if held else "does not hold here")
    sys.exit(not held)
