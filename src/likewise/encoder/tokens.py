"""Tokenizers: loaded from a model's folder; text -> ids, with the character offsets and the kind of each token.

Transformers rebuilds some tokenizers from the vocabulary and ``tokenizer_config.json``, whatever ``tokenizer.json``
says. This module does the same, and tests compare the two.
"""

from __future__ import annotations

import json
import logging
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from likewise.errors import DataError, MissingExtra, ModelError, first_line

log = logging.getLogger("likewise")
TextOrPair = str | tuple[str, str]
Settings = Mapping[str, Any]
TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
VOCABULARIES = (TOKENIZER, "vocab.txt", "vocab.json", "tokenizer.model", "sentencepiece.bpe.model", "spiece.model")
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
NO_LIMIT = int(1e30)
IMPORTING = threading.Lock()  # Importing transformers is not thread-safe


@dataclass(frozen=True)
class TokenizedText:
    """One text (or pair as one sequence) as tokens; all tuples have one entry per token."""

    text: TextOrPair
    ids: tuple[int, ...]
    types: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]  # character span in the text without the prompt; (0, 0) for special tokens
    special: tuple[bool, ...]
    prompt: tuple[bool, ...]  # whether a token belongs to the prompt in front of the text
    sides: tuple[int | None, ...]  # 0 for tokens of the (first) text, 1 for the second's; None for special tokens
    truncated: bool

    def __len__(self) -> int:
        return len(self.ids)

    def spans_of(self, spans: Sequence[tuple[int, int]]) -> list[int | None]:
        """For each token its index among sorted character spans: the span of its first character, else the first span
        that begins within it; None for special tokens, tokens of a prompt, and tokens outside of all spans.
        """
        starts = [start for start, _ in spans]
        marked = zip(self.special, self.prompt, self.offsets, strict=True)
        return [None if outside or prompt else _covering(spans, starts, *span) for outside, prompt, span in marked]


def _covering(spans: Sequence[tuple[int, int]], starts: Sequence[int], start: int, end: int) -> int | None:
    index = bisect_right(starts, start) - 1
    if index >= 0 and start < spans[index][1]:
        return index
    later = index + 1
    return later if later < len(spans) and spans[later][0] < end else None


class Tokenizer:
    """A model's tokenizer; ``limit`` replaces any stored truncation and padding."""

    def __init__(self, vocabulary: Vocabulary, limit: int, lower: bool = False) -> None:
        self.vocabulary, self.limit = vocabulary, limit
        # A copy: the vocabulary must not change.
        self.backend = Backend.from_str(vocabulary.backend.to_str())
        self.backend.encode_special_tokens = vocabulary.backend.encode_special_tokens
        self.backend.no_padding()
        self.backend.enable_truncation(limit, strategy="longest_first", direction=vocabulary.truncation_side)
        if lower:
            # In the normalizer, which keeps offsets right: some characters become two in lower case.
            known = [] if self.backend.normalizer is None else [self.backend.normalizer]
            self.backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *known])

    @classmethod
    def within(cls, vocabulary: Vocabulary, limit: int | None, max_positions: int, lower: bool = False) -> Tokenizer:
        """A model's tokenizer; the limit is the given one or the vocabulary's, at most the number of positions."""
        return cls(vocabulary, min(limit or vocabulary.max_length, max_positions), lower)

    def ids(self, texts: Sequence[str]) -> tuple[list[list[int]], int]:
        """The ids of each text and how many texts were truncated; faster than ``tokenize``."""
        inputs = [text_input(text) for text in texts]
        with _tokenizing():
            encodings = self.backend.encode_batch_fast(inputs)
        return [encoding.ids for encoding in encodings], sum(bool(encoding.overflowing) for encoding in encodings)

    def tokenize(self, texts: Sequence[TextOrPair], prompt: str = "") -> list[TokenizedText]:
        """All about each token. A prompt precedes a text, or the first text of a pair."""
        texts = [texts] if isinstance(texts, str) else texts
        pairs = [isinstance(text, (tuple, list)) and len(text) == 2 for text in texts]
        full = [
            (text_input(text[0], prompt), text_input(text[1])) if pair else text_input(text, prompt)
            for text, pair in zip(texts, pairs, strict=True)
        ]
        with _tokenizing():
            encodings = self.backend.encode_batch(full)
        return [_described(text, encoding, len(prompt)) for text, encoding in zip(texts, encodings, strict=True)]

    @cached_property
    def folds_case(self) -> bool:
        """Whether the tokenizer ignores case."""
        with _tokenizing():
            large, small = (self.backend.encode(text, add_special_tokens=False).ids for text in ("A BANK", "a bank"))
        return bool(large == small)

    @cached_property
    def _untruncated(self) -> Backend:
        backend = Backend.from_str(self.backend.to_str())
        backend.encode_special_tokens = self.backend.encode_special_tokens
        backend.no_truncation()
        return backend

    def lengths(self, texts: Sequence[str], prompt: str | None = None) -> list[int]:
        """The number of tokens of each text, never cut; with a prompt, even an empty one, also special tokens."""
        whole = prompt is not None
        inputs = [text_input(text, prompt or "") for text in texts]
        with _tokenizing():
            return [len(found) for found in self._untruncated.encode_batch_fast(inputs, add_special_tokens=whole)]

    def prompt_length(self, prompt: str) -> int:
        """The number of leading tokens of a prompt, including opening special tokens."""
        if not prompt:
            return 0
        with _tokenizing():
            encoding = self.backend.encode(text_input(prompt))
        special = encoding.special_tokens_mask
        return len(special) - 1 if special and special[-1] else len(special)

    def special_ids(self) -> list[int]:
        """The ids of special tokens, except the one for unknown words, which stands for a word of the text."""
        known = {self.vocabulary.id_of(role) for role in ("bos", "eos", "cls", "sep", "pad", "mask")}
        return sorted(self.vocabulary.special_ids - ({self.vocabulary.id_of("unk")} - known))

    def role_id(self, *roles: str) -> int | None:
        """The id of the first of these roles that the tokenizer has, such as pad or mask."""
        found = (self.vocabulary.id_of(role) for role in roles)
        return next((each for each in found if each is not None), None)

    def filler_id(self, *roles: str) -> int:
        """The id of the first of these roles that the tokenizer has, else of a blank, else of another role."""
        if (known := self.role_id(*roles)) is not None:
            return known
        with _tokenizing():
            blank = self.backend.encode(" ", add_special_tokens=False).ids
        return int(blank[0]) if blank else self.role_id("pad", "unk", "eos", "bos") or 0


@contextmanager
def _tokenizing() -> Iterator[None]:
    """An error of the tokenizer, which raises plain exceptions, as an error of the model."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception:
            raise
        said = first_line(error)
        raise ModelError(f"the tokenizer cannot read a text ({said}); use the model's own {TOKENIZER}") from error


def text_input(text: object, prompt: str = "") -> str:
    """A prompt and a text as one input of the tokenizer; rejects everything but strings."""
    if not isinstance(text, str):
        raise DataError(f"a text must be a string, got {type(text).__name__}")
    whole = prompt + text
    # The tokenizer rejects lone surrogates (from a broken decode).
    return whole if whole.isascii() else whole.encode("utf-8", "replace").decode("utf-8")


def _described(text: TextOrPair, encoding: Any, prompt: int) -> TokenizedText:
    """``prompt`` is the number of characters before the text, or before the first text of a pair."""
    shifts = (prompt if side == 0 else 0 for side in encoding.sequence_ids)
    spans = [(shift, *span) for shift, span in zip(shifts, encoding.offsets, strict=True)]
    in_prompt = tuple(end <= shift and shift > 0 for shift, _, end in spans)
    offsets = tuple((max(0, start - shift), max(0, end - shift)) for shift, start, end in spans)
    return TokenizedText(
        text, tuple(encoding.ids), tuple(encoding.type_ids), tuple(encoding.tokens), offsets,
        tuple(map(bool, encoding.special_tokens_mask)), in_prompt, tuple(encoding.sequence_ids),
        bool(encoding.overflowing),
    )  # fmt: skip


def report_truncation(count: int, total: int, limit: int, cure: str = "") -> None:
    """Log how many texts were truncated, if any."""
    if count:
        log.warning("cut at the model's limit of %d tokens: %d of %d texts%s", limit, count, total, cure)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A model's tokenizer without a limit of ours."""

    backend: Backend
    roles: Mapping[str, str] = field(default_factory=dict)  # the special token of each role, such as "cls"
    extra: tuple[str, ...] = ()  # special tokens without a role
    max_length: int = NO_LIMIT
    truncation_side: str = "right"
    inputs: tuple[str, ...] = ("input_ids", "token_type_ids", "attention_mask")  # the inputs of transformers' model

    @classmethod
    def read(cls, folder: Path) -> Vocabulary:
        """The vocabulary of a folder; transformers is needed only without a ``tokenizer.json``."""
        # Without a vocabulary transformers creates an empty tokenizer, to which every word is unknown.
        if not any((folder / name).exists() for name in VOCABULARIES):
            raise ModelError(f"{folder} has no tokenizer; add its {TOKENIZER}")
        try:
            return _read(folder) if (folder / TOKENIZER).exists() else _converted(folder)
        except MissingExtra:
            raise
        except Exception as error:  # tokenizers raises plain Exceptions
            said = first_line(error)
            raise ModelError(f"{folder}: no tokenizer can be read ({said}); add its {TOKENIZER}") from error

    @classmethod
    def of(cls, tokenizer: Any) -> Vocabulary:
        """A copy of a transformers tokenizer in memory, which does not change."""
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError("this model has no fast tokenizer (tokenizer.json); convert it with transformers first")
        named = {role: getattr(tokenizer, f"{role}_token", None) for role in ROLES}
        roles = {role: str(token) for role, token in named.items() if token is not None}
        extra = tuple(str(token) for token in tokenizer.all_special_tokens if str(token) not in roles.values())
        backend = Backend.from_str(tokenizer.backend_tokenizer.to_str())
        backend.encode_special_tokens = tokenizer.backend_tokenizer.encode_special_tokens
        limit = int(tokenizer.model_max_length)
        return cls(backend, roles, extra, limit, tokenizer.truncation_side, tuple(tokenizer.model_input_names))

    def id_of(self, role: str) -> int | None:
        """The id of the special token of a role, if there is one."""
        token = self.roles.get(role)
        return None if token is None else self.backend.token_to_id(token)

    @property
    def special_ids(self) -> set[int]:
        """The ids of all special tokens."""
        found = (self.backend.token_to_id(token) for token in (*self.roles.values(), *self.extra))
        return {each for each in found if each is not None}

    def save(self, folder: Path) -> None:
        """Write files that both transformers and ``read`` open."""
        self.backend.save(str(folder / TOKENIZER))
        settings = {
            # The class that uses tokenizer.json unchanged.
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{role}_token": token for role, token in self.roles.items()},
            **({"additional_special_tokens": list(self.extra)} if self.extra else {}),
            "model_max_length": self.max_length,
            "truncation_side": self.truncation_side,
            "model_input_names": list(self.inputs),
            "split_special_tokens": self.backend.encode_special_tokens,
            "clean_up_tokenization_spaces": False,
        }
        (folder / SETTINGS).write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _converted(folder: Path) -> Vocabulary:
    """The vocabulary of older files, by transformers' own conversion."""
    try:
        with IMPORTING:
            from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtra(f"a tokenizer without {TOKENIZER}", "transformers") from error
    with IMPORTING:
        return Vocabulary.of(AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False))


def _read(folder: Path) -> Vocabulary:
    backend = Backend.from_file(str(folder / TOKENIZER))
    settings = _json(folder / SETTINGS)
    if "added_tokens_decoder" not in settings:
        settings |= _json(folder / SPECIAL)
    kind = KINDS.get(_class_name(settings, _json(folder / "config.json")), Kind())
    roles = dict(kind.roles)
    roles |= {role: _content(settings[f"{role}_token"]) for role in ROLES if settings.get(f"{role}_token") is not None}
    if backend.padding is not None:
        roles.setdefault("pad", backend.padding["pad_token"])
    extra = _extra(settings)
    fits = isinstance(backend.model, kind.model)
    if fits:
        kind.rebuild(backend, settings)
    special: dict[str, Mapping[str, bool]] = {token: {} for token in (*roles.values(), *extra)}
    _add_tokens(backend, settings, special | {roles[role]: kind.flags[role] for role in kind.flags if role in roles})
    if fits and kind.process is not None:
        backend.post_processor = kind.process(backend, settings, roles)
    elif backend.post_processor is None:
        backend.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    backend.encode_special_tokens = bool(settings.get("split_special_tokens", False))
    limit = settings.get("model_max_length", settings.get("max_len"))
    side = str(settings.get("truncation_side", (backend.truncation or {}).get("direction", "right")))
    if side not in ("left", "right"):
        raise ModelError(f"truncation_side must be left or right, not {side!r}")
    return Vocabulary(
        backend, roles, tuple(extra), NO_LIMIT if limit is None else int(limit),
        side, tuple(settings.get("model_input_names", kind.inputs)),
    )  # fmt: skip


def _json(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if isinstance(found, dict):
        return found
    raise ModelError(f"{path.name} is not a JSON object")


def _content(token: Any) -> str:
    return str(token["content"] if isinstance(token, Mapping) else token)


def _extra(settings: Settings) -> list[str]:
    """Special tokens beyond the usual roles: listed ones, and those of roles that only this model has."""
    listed = settings.get("extra_special_tokens") or settings.get("additional_special_tokens") or []
    tokens = list(listed.values()) if isinstance(listed, Mapping) else list(listed)
    usual = {f"{role}_token" for role in ROLES}
    own = ((name, value) for name, value in settings.items() if name.endswith("_token") and name not in usual)
    tokens += [value for _, value in own if isinstance(value, str)]
    return list(dict.fromkeys(_content(token) for token in tokens))


def _add_tokens(backend: Backend, settings: Settings, special: Mapping[str, Mapping[str, bool]]) -> None:
    """Add the tokens of the settings to the tokenizer, special ones as special, with the flags of each."""
    listed = settings.get("added_tokens_decoder") or {}
    known = {repr(token) for token in backend.get_added_tokens_decoder().values()}
    added = [AddedToken(**token) for _, token in sorted(listed.items(), key=lambda item: int(item[0]))]
    added = [token for token in added if repr(token) not in known]
    present = {token.content for token in (*backend.get_added_tokens_decoder().values(), *added)}
    given = {_content(token): token for token in settings.values() if isinstance(token, Mapping) and "content" in token}
    for token, usual in special.items():
        if token not in present:
            flags = {name: value for name, value in given.get(token, usual).items() if name in ADDED_FLAGS}
            added.append(AddedToken(token, special=True, **flags))
    if added:
        backend.add_tokens(added)


ADDED_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")


def _class_name(settings: Settings, config: Mapping[str, Any]) -> str:
    """The transformers class for the files: the one they name, else that of the family."""
    family = str(config.get("model_type", ""))
    named = settings.get("tokenizer_class") or config.get("tokenizer_class") or OWN_CLASS.get(family, "")
    # For ModernBERT transformers ignores the name.
    return "" if family == "modernbert" else str(named).removesuffix("Fast")


OWN_CLASS = {
    "albert": "AlbertTokenizer", "bert": "BertTokenizer", "distilbert": "BertTokenizer", "electra": "BertTokenizer",
    "gpt_neo": "GPT2Tokenizer", "mpnet": "MPNetTokenizer", "qwen3": "Qwen2Tokenizer", "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A tokenizer class of transformers: its special tokens, and what it rebuilds."""

    roles: Mapping[str, str] = field(default_factory=dict)
    model: Any = ()  # the algorithm of the vocabulary; files with another one stay unchanged
    rebuild: Any = None  # a function of the tokenizer and its settings
    process: Callable[[Backend, Settings, Mapping[str, str]], Any] | None = None
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    flags: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)  # default flags of special tokens, by role


def _rebuild_wordpiece(backend: Backend, settings: Settings) -> None:
    chinese, lower = settings.get("tokenize_chinese_chars", True), settings.get("do_lower_case", True)
    backend.normalizer = normalizers.BertNormalizer(True, chinese, settings.get("strip_accents"), lower)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    backend.model.unk_token = _content(settings.get("unk_token") or "[UNK]")
    backend.model.max_input_chars_per_word = 100


def _rebuild_bytes(backend: Backend, settings: Settings) -> None:
    backend.normalizer = None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=bool(settings.get("add_prefix_space", False)))
    backend.decoder = decoders.ByteLevel()


def _rebuild_qwen(backend: Backend, settings: Settings) -> None:
    backend.normalizer = normalizers.NFC()
    prefix = bool(settings.get("add_prefix_space") or False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False),
    ])  # fmt: skip
    backend.decoder = decoders.ByteLevel()


QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _rebuild_pieces(backend: Backend, settings: Settings) -> None:
    """The part that the SentencePiece classes share: words begin with a bar."""
    scheme = "always" if settings.get("add_prefix_space", True) else "never"
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)]
    )
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)


def _rebuild_xlm_roberta(backend: Backend, settings: Settings) -> None:
    backend.normalizer = next(iter(_character_map(backend)), None)
    _rebuild_pieces(backend, settings)


def _rebuild_albert(backend: Backend, settings: Settings) -> None:
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if settings.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    backend.normalizer = normalizers.Sequence([*steps, *_character_map(backend)])
    _rebuild_pieces(backend, settings)


def _character_map(backend: Backend) -> list[Any]:
    """The character replacements of the SentencePiece model, if the file has any."""
    import base64

    if backend.normalizer is None:
        return []
    found = json.loads(backend.normalizer.__getstate__())
    steps = found["normalizers"] if found["type"] == "Sequence" else [found]
    maps = [step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"]
    return [normalizers.Precompiled(base64.b64decode(each)) for each in maps[:1]]


def _between(
    first: str, last: str, backend: Backend, _: Settings, roles: Mapping[str, str], between: str = "", second: int = 1
) -> Any:
    """A post-processor: ``first`` A ``last`` ``between`` B ``last``, by their roles; B is of type ``second``."""
    opens, closes = roles[first], roles[last]
    middle = f" {roles[between]}:{second}" if between else ""
    return processors.TemplateProcessing(
        single=f"{opens}:0 $A:0 {closes}:0",
        pair=f"{opens}:0 $A:0 {closes}:0{middle} $B:{second} {closes}:{second}",
        special_tokens=[(token, backend.token_to_id(token)) for token in dict.fromkeys((opens, closes))],
    )


def _roberta_process(backend: Backend, settings: Settings, roles: Mapping[str, str], by_settings: bool = True) -> Any:
    closes, opens = ((roles[role], backend.token_to_id(roles[role]) or 0) for role in ("sep", "cls"))
    trims = not by_settings or bool(settings.get("trim_offsets", True))
    return processors.RobertaProcessing(
        closes, opens, trims, by_settings and bool(settings.get("add_prefix_space", False))
    )


_BERT_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ROBERTA_ROLES = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
                  "mask": "<mask>"}  # fmt: skip
_MPNET_FLAGS = {role: {"normalized": True, "lstrip": role == "mask"} for role in ROLES}
_END = "<|endoftext|>"
_BERT = Kind(_BERT_ROLES, models.WordPiece, _rebuild_wordpiece, partial(_between, "cls", "sep"), Vocabulary.inputs)

KINDS: dict[str, Kind] = {
    "AlbertTokenizer": Kind(
        _BERT_ROLES | {"bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"},
        models.Unigram, _rebuild_albert, partial(_between, "cls", "sep"),
    ),
    "BertTokenizer": _BERT,
    "DistilBertTokenizer": Kind(_BERT.roles, _BERT.model, _BERT.rebuild, _BERT.process),
    "GPT2Tokenizer": Kind({"bos": _END, "eos": _END, "unk": _END}, models.BPE, _rebuild_bytes),
    "MPNetTokenizer": Kind(_ROBERTA_ROLES | {"unk": "[UNK]"}, models.WordPiece, _rebuild_wordpiece,
                           partial(_roberta_process, by_settings=False), flags=_MPNET_FLAGS),
    "Qwen2Tokenizer": Kind({"eos": _END, "unk": _END, "pad": _END}, models.BPE, _rebuild_qwen),
    "RobertaTokenizer": Kind(_ROBERTA_ROLES, models.BPE, _rebuild_bytes, _roberta_process),
    "XLMRobertaTokenizer": Kind(_ROBERTA_ROLES, models.Unigram, _rebuild_xlm_roberta,
                                partial(_between, "bos", "eos", between="eos", second=0)),
}  # fmt: skip
