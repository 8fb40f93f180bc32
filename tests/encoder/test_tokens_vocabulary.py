"""Tokenizers are read from their files as transformers reads them: ids, offsets, special tokens, limits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from conftest import tiny_tokenizer
from likewise.encoder import Encoder
from likewise.encoder.tokens import KINDS, ROLES, Tokenizer, Vocabulary
from likewise.errors import ModelError
from likewise.sample import sample_sentences
from tiny_models import spelling_tokenizer

TEXTS = [
    "A man is playing a flute.",
    "  two   spaces\tand a tab\nand a line \r\n end  ",
    "Café CRÈME naïve İstanbul ẞ ﬁne",
    "日本語 text 北京 mixed, 안녕하세요",
    "Two 😀 emojis 👩‍👩‍👧 and é́",
    "[CLS] literal [SEP] and [MASK] or <s> </s> <mask> <pad> <|endoftext|> [UNK]",
    "<|im_start|>chat<|im_end|> extra<extra>token",
    "don't we'll I'M ``quoted'' 1234567 3.14 a_b-c",
    "\x00\x07\u200b\u202e\ufeff control \u00a0 nbsp",
    "שלום עולم مرحبا",
    "x" * 150 + " " + "supercalifragilistic" * 3,
    "",
    " ",
]
PAIRS = [(TEXTS[0], TEXTS[2]), ("", "b"), (TEXTS[5], TEXTS[3])]


def assert_same(folder: Path, texts: list[str] = TEXTS) -> Vocabulary:
    """Everything that an encoder asks of a tokenizer, against AutoTokenizer on the same folder."""
    ours, theirs = Vocabulary.read(folder), AutoTokenizer.from_pretrained(folder)
    tokenizer = Tokenizer(ours, 4096)
    for text, found in zip(texts, tokenizer.tokenize(texts), strict=True):
        want = theirs(text, return_offsets_mapping=True, return_special_tokens_mask=True, truncation=False)
        assert list(found.ids) == want["input_ids"], text
        assert list(found.offsets) == [tuple(each) for each in want["offset_mapping"]], text
        assert list(found.special) == [bool(mark) for mark in want["special_tokens_mask"]], text
        assert list(found.tokens) == want.tokens(), text
    for pair, found in zip(PAIRS, tokenizer.tokenize(PAIRS), strict=True):
        want = theirs(*pair, return_token_type_ids=True, truncation=False)
        assert list(found.ids) == want["input_ids"] and list(found.types) == want["token_type_ids"], pair
    for role in ROLES:
        assert ours.roles.get(role) == getattr(theirs, f"{role}_token"), role
        assert ours.id_of(role) == getattr(theirs, f"{role}_token_id"), role
    assert ours.special_ids == set(theirs.all_special_ids)
    assert ours.max_length == theirs.model_max_length and ours.truncation_side == theirs.truncation_side
    assert ours.backend.get_vocab_size(with_added_tokens=True) == len(theirs)
    assert list(ours.inputs) == theirs.model_input_names
    for text in texts:
        ids = theirs(text)["input_ids"]
        assert ours.backend.decode(ids, skip_special_tokens=False) == theirs.decode(
            ids, clean_up_tokenization_spaces=False
        )
    return ours


# The models at hand


def test_the_bundled_model(minilm: Encoder) -> None:
    assert minilm.folder is not None
    assert_same(minilm.folder, TEXTS + sample_sentences()[:100])


@pytest.mark.parametrize("name", ["e5-small", "albert-tiny-zh"])
def test_other_models(name: str, shared_models: Path, shared_data: Path) -> None:
    rows = [line for path in sorted(shared_data.rglob("*.csv"))[:3] for line in _lines(path)]
    assert_same(shared_models / name, TEXTS + rows)


def test_a_vocabulary_of_another_library(shared_models: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(shared_models / "potion-base-8M" / name, tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert_same(tmp_path)


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            if number >= 50:
                return
            yield line.strip()


# Tiny ones, of each of transformers' classes


def write(folder: Path, backend: Backend, family: str, **settings: Any) -> Path:
    folder.mkdir(exist_ok=True)
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "config.json").write_text(json.dumps({"model_type": family}))
    return folder


def wordpiece(**options: Any) -> Backend:
    backend = Backend.from_str(tiny_tokenizer().backend_tokenizer.to_str())
    for name, value in options.items():
        setattr(backend, name, value)
    return backend


def byte_pairs(*special: str) -> Backend:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=list(special), initial_alphabet=alphabet, show_progress=False
    )
    backend.train_from_iterator(sample_sentences()[:80], trainer)
    return backend


def pieces(*special: str, unknown: str = "<unk>") -> Backend:
    backend = Backend(models.Unigram())
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=list(special), unk_token=unknown, show_progress=False
    )
    backend.train_from_iterator(sample_sentences()[:80], trainer)
    return backend


BERT_SETTINGS: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "its class": {"tokenizer_class": "BertTokenizer"},
    "its fast class": {"tokenizer_class": "BertTokenizerFast", "model_max_length": 33},
    "cased": {"tokenizer_class": "BertTokenizer", "do_lower_case": False},
    "cased, accents stripped": {"do_lower_case": False, "strip_accents": True},
    "accents kept": {"do_lower_case": True, "strip_accents": False},
    "characters together": {"tokenize_chinese_chars": False},
    "generic": {"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": False, "cls_token": "[CLS]"},
    "generic, nothing named": {"tokenizer_class": "TokenizersBackend"},
    "unknown class": {"tokenizer_class": "NoSuchTokenizer", "sep_token": "[SEP]"},
    "left": {"truncation_side": "left", "max_len": 20},
    "extra": {"additional_special_tokens": ["<extra>", "[UNK]"]},
    "extra, new name": {"extra_special_tokens": ["<extra>"], "do_lower_case": False},
    "named extra": {"extra_special_tokens": {"chat_token": "<|im_start|>"}},
    "a role of its own": {"image_token": "<extra>"},
    "special tokens are split": {"split_special_tokens": True},
    "tokens as objects": {
        "mask_token": {"content": "[MASK]", "lstrip": True, "rstrip": False, "normalized": False, "single_word": False,
                       "__type": "AddedToken"},
    },
    "other names": {"cls_token": "a", "sep_token": "b", "pad_token": "c", "unk_token": "[UNK]"},
    "added": {
        "added_tokens_decoder": {
            "4": {"content": "[MASK]", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False,
                  "special": True},
            "900": {"content": "chat", "lstrip": False, "normalized": True, "rstrip": False, "single_word": True,
                    "special": False},
        },
    },
    "inputs": {"model_input_names": ["input_ids"]},
}  # fmt: skip


@pytest.mark.parametrize("family", ["bert", "electra", "distilbert"])
@pytest.mark.parametrize("case", BERT_SETTINGS)
def test_wordpiece_settings(case: str, family: str, tmp_path: Path) -> None:
    assert_same(write(tmp_path, wordpiece(), family, **BERT_SETTINGS[case]))


def test_what_the_class_rebuilds(tmp_path: Path) -> None:
    """A tokenizer.json that says something else than the settings: transformers goes by the settings."""
    odd = wordpiece(
        normalizer=normalizers.BertNormalizer(lowercase=False), pre_tokenizer=pre_tokenizers.WhitespaceSplit(),
        post_processor=None,
    )  # fmt: skip
    rebuilt = assert_same(write(tmp_path / "rebuilt", odd, "bert", tokenizer_class="BertTokenizer"))
    kept = assert_same(write(tmp_path / "kept", odd, "bert", tokenizer_class="PreTrainedTokenizerFast"))
    assert Tokenizer(rebuilt, 64).ids(["Two, DOGS"]) != Tokenizer(kept, 64).ids(["Two, DOGS"])


def test_the_map_of_special_tokens(tmp_path: Path) -> None:
    folder = write(tmp_path, wordpiece(), "bert", tokenizer_class="PreTrainedTokenizerFast", cls_token="a")
    (folder / "special_tokens_map.json").write_text(
        json.dumps({"cls_token": "[CLS]", "unk_token": {"content": "[UNK]", "lstrip": False}})
    )
    assert assert_same(folder).roles == {"cls": "[CLS]", "unk": "[UNK]"}
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"added_tokens_decoder": {}}))
    assert assert_same(folder).roles == {"cls": "a"}, "the older file does not count beside the newer list"


def test_padding_and_truncation_of_the_file(tmp_path: Path) -> None:
    backend = wordpiece()
    backend.enable_padding(pad_id=3, pad_token="[SEP]", length=20)
    backend.enable_truncation(7, direction="left")
    found = assert_same(write(tmp_path, backend, "modernbert"), ["a b"])
    assert (found.roles, found.truncation_side) == ({"pad": "[SEP]"}, "left")


SETTINGS: dict[str, dict[str, Any]] = {
    "nothing said": {}, "prefix": {"add_prefix_space": True}, "no prefix": {"add_prefix_space": False},
    "offsets": {"trim_offsets": False}, "cased": {"do_lower_case": False}, "accents": {"keep_accents": True},
}  # fmt: skip


@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("family", ["roberta", "gpt_neo", "qwen3", "albert", "xlm-roberta", "mpnet", "modernbert"])
def test_other_classes(family: str, case: str, tmp_path: Path) -> None:
    roberta = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made = {
        "roberta": lambda: byte_pairs(*roberta),
        "gpt_neo": lambda: byte_pairs("<|endoftext|>"),
        "qwen3": lambda: byte_pairs("<|endoftext|>", "<|im_start|>"),
        "albert": lambda: pieces("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        "xlm-roberta": lambda: pieces(*roberta),
        "mpnet": lambda: wordpiece(),
        "modernbert": lambda: byte_pairs("[UNK]", "[CLS]", "[SEP]"),
    }[family]()
    assert_same(write(tmp_path, made, family, **SETTINGS[case]))


def test_a_post_processor_of_the_file_stays_with_decoders(tmp_path: Path) -> None:
    """As Qwen3-Embedding's, which closes a text with its end token."""
    backend = byte_pairs("<|endoftext|>")
    backend.post_processor = processors.TemplateProcessing(
        single="$A:0 <|endoftext|>:0", pair="$A:0 <|endoftext|>:0 $B:1 <|endoftext|>:1",
        special_tokens=[("<|endoftext|>", 0)],
    )  # fmt: skip
    found = assert_same(write(tmp_path, backend, "qwen3", tokenizer_class="Qwen2Tokenizer"))
    assert Tokenizer(found, 64).ids(["dogs"])[0][0][-1] == 0


def test_classes_are_those_that_transformers_has() -> None:
    for name, kind in KINDS.items():
        assert list(kind.inputs) == getattr(transformers, name).model_input_names


# Saved, and in memory


@pytest.mark.parametrize("make", [tiny_tokenizer, spelling_tokenizer])
def test_a_saved_vocabulary_opens_everywhere(make: Any, tmp_path: Path) -> None:
    theirs: PreTrainedTokenizerFast = make()
    found = Vocabulary.of(theirs)
    found.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    again = assert_same(tmp_path)
    assert (again.roles, again.extra, again.max_length) == (found.roles, found.extra, found.max_length)
    assert Tokenizer(again, 64).ids(TEXTS) == Tokenizer(found, 64).ids(TEXTS)


@pytest.mark.parametrize("case", BERT_SETTINGS)
def test_saved_settings_say_the_same(case: str, tmp_path: Path) -> None:
    found = Vocabulary.read(write(tmp_path / "first", wordpiece(), "bert", **BERT_SETTINGS[case]))
    second = tmp_path / "second"
    second.mkdir()
    found.save(second)
    shutil.copy(tmp_path / "first" / "config.json", second)
    again = assert_same(second)
    assert Tokenizer(again, 64).ids(TEXTS) == Tokenizer(found, 64).ids(TEXTS)
    assert again.special_ids == found.special_ids and again.roles == found.roles


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", "{"),
        ("tokenizer.json", "{}"),
        ("tokenizer_config.json", "[]"),
        ("tokenizer_config.json", '{"truncation_side": "up"}'),
        ("tokenizer_config.json", '{"model_max_length": "x"}'),
    ],
)
def test_broken_files_are_refused(name: str, content: str, tmp_path: Path) -> None:
    folder = write(tmp_path, wordpiece(), "bert")
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=r"no tokenizer can be read .*; add its tokenizer\.json") as raised:
        Vocabulary.read(folder)
    assert "\n" not in str(raised.value)
