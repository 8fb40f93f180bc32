"""Saving: an encoder -> a folder that both sentence-transformers and ``Encoder.load`` open.

The layout is sentence-transformers' classic one. A learned pooling, which it does not know, is in ``likewise.json`` and
``head.safetensors``; sentence-transformers opens such a folder with mean pooling.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from likewise.encoder.config import (
    CLASSIC_POOLING_KEYS,
    CONFIG,
    OWN_FORMAT,
    OWN_SETTINGS,
    OWN_WEIGHTS,
    POOLING_NAMES,
    POOLING_PREFIX,
)
from likewise.encoder.encoder import Encoder
from likewise.encoder.families import saved_config
from likewise.encoder.learned_pooling import LEARNED, learned_settings
from likewise.encoder.model_view import POOLER, Dense
from likewise.encoder.pooling import pooling_parts
from likewise.encoder.tokens import SPECIAL, VOCABULARIES
from likewise.encoder.weights import SHARDS, WEIGHTS
from likewise.errors import UsageError, first_line
from likewise.storage import sync

FORMER_FILES = (OWN_SETTINGS, OWN_WEIGHTS, WEIGHTS, SHARDS, "model-*-of-*.safetensors", *VOCABULARIES, "merges.txt",
          "added_tokens.json", SPECIAL)  # fmt: skip
"""Files of a former model in the folder that a new model without such files would wrongly use."""


@dataclass(frozen=True, eq=False)
class ExtraFiles:
    """Additional keys of ``likewise.json`` and tensors of ``head.safetensors``.

    >>> ExtraFiles({"train": {"seed": 1}}).settings["train"]
    {'seed': 1}
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)


def save_encoder(
    encoder: Encoder, folder: str | Path, card: str | None = None, extra: ExtraFiles | None = None
) -> Path:
    """Write an encoder with its present pooling into a folder; ``card`` becomes its README.md.

    A model in the folder is replaced, other files stay. An interrupted call leaves no incomplete model. A learned
    pooling that the encoder does not use is left out.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "saved"
    >>> encoder = Encoder.load("minilm", device="cpu")
    >>> Encoder.load(save_encoder(encoder, folder), device="cpu").encode("A cat sat.").shape
    (384,)
    """
    require_savable(encoder)
    target = Path(folder).expanduser().resolve()
    draft = target.with_name(f".{target.name}.draft-{os.getpid()}")
    try:
        if target.exists() and not target.is_dir():
            raise UsageError(f"{folder} is a file; give the name of a folder")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _write(encoder, draft)
        _write_own(encoder, draft, extra or ExtraFiles())
        if card is not None:
            (draft / "README.md").write_text(card, encoding="utf-8")
        _move(draft, target)
    except (OSError, SafetensorError) as error:
        said = getattr(error, "strerror", None) or first_line(error)
        raise UsageError(f"the model cannot be written to {folder} ({said}); give another folder") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def require_savable(encoder: Encoder) -> None:
    """Reject an encoder that a sentence-transformers folder cannot express."""
    pooling_config, modules_config = encoder.pooling_config, encoder.modules_config
    if set(pooling_config.layers_of(encoder.model_view.layers)) != {encoder.model_view.layers}:
        raise UsageError(f"a saved model pools its last layer, not {pooling_config.layer!r}; save it with layer=-1")
    if not pooling_config.special_tokens:
        raise UsageError("a saved model pools special tokens; save it with special_tokens=True")
    if modules_config.heads and not pooling_config.heads:
        raise UsageError("a saved model uses its dense heads; save it with heads=True")
    if encoder.postprocessing is not None:
        raise UsageError(
            "post-processing is not part of a saved model; save it to its own file, and the encoder without it"
        )
    if pooling_config.normalize and pooling_config.truncate_dim is not None:
        raise UsageError("a saved model does not normalize truncated vectors; leave out truncate_dim or normalize")
    _require_known_pooling(encoder)


def _require_known_pooling(encoder: Encoder) -> None:
    parts = pooling_parts(encoder.pooling_config.pooling)
    if len(parts) == 1 and parts[0] in LEARNED:
        width, heads = encoder.model_view.hidden_size, encoder.modules_config.heads
        if heads and (takes := heads[0].weight.shape[1]) != width:
            raise UsageError(
                f"sentence-transformers gives {width} dimensions to the dense head, which takes {takes};"
                f" use a {parts[0]} pooling of {width}, or drop the head"
            )
        return
    for part in parts:
        if part not in POOLING_NAMES.values():
            known = ", ".join(POOLING_NAMES.values())
            alone = f", or {part} alone" if part in LEARNED else ""
            raise UsageError(
                f"sentence-transformers has no pooling {encoder.pooling_config.pooling!r};"
                f" save it with one of {known}{alone}"
            )


def _write(encoder: Encoder, folder: Path) -> None:
    _write_transformer(encoder, folder)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling")]
    _write_pooling(encoder, folder / "1_Pooling")
    for head in encoder.modules_config.heads:
        kinds.append((f"{len(kinds)}_Dense", "Dense"))
        _write_dense(head, folder / kinds[-1][0])
    if _normalizes(encoder):
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds)
    ]
    _write_json(folder / "modules.json", modules)
    limits = {"max_seq_length": encoder.tokenizer.limit, "do_lower_case": encoder.modules_config.lower}
    _write_json(folder / "sentence_bert_config.json", limits)
    _write_json(folder / "config_sentence_transformers.json", _pipeline(encoder))


def _write_transformer(encoder: Encoder, folder: Path) -> None:
    state = {name: _plain(weight) for name, weight in encoder.model.state_dict().items()}
    if encoder.model_view.pooler is None:
        # A pooler that the loaded files lacked is random and must not look like the model's own.
        state = {name: weight for name, weight in state.items() if not name.startswith(POOLER)}
    save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
    _write_json(folder / CONFIG, saved_config(encoder.model))
    encoder.tokenizer.vocabulary.save(folder)


def _normalizes(encoder: Encoder) -> bool:
    wanted = encoder.pooling_config.normalize
    return encoder.modules_config.normalizes if wanted is None else wanted


def _pipeline(encoder: Encoder) -> dict[str, Any]:
    prompts, default = dict(encoder.modules_config.prompts), encoder.modules_config.default_prompt
    cut = encoder.pooling_config.truncate_dim
    return {
        "prompts": prompts,
        # sentence-transformers rejects a name without a text.
        "default_prompt_name": default if default in prompts else None,
        "similarity_fn_name": "cosine",
        **({} if cut is None else {"truncate_dim": cut}),
    }


def _write_pooling(encoder: Encoder, folder: Path) -> None:
    parts = pooling_parts(encoder.pooling_config.pooling)
    known = ("mean",) if parts[0] in LEARNED else parts
    modes = [mode for part in known for mode, name in POOLING_NAMES.items() if name == part]
    chosen: dict[str, Any] = {key: mode in modes for key, mode in CLASSIC_POOLING_KEYS.items()}
    if modes != [mode for mode in CLASSIC_POOLING_KEYS.values() if mode in modes]:
        # The classic keys have a fixed order; only version 6 reads another one.
        chosen = {"pooling_mode": modes}
    folder.mkdir()
    sizes = {
        "word_embedding_dimension": encoder.model_view.hidden_size,
        "include_prompt": encoder.modules_config.include_prompt,
    }
    _write_json(folder / "config.json", sizes | chosen)


def _write_own(encoder: Encoder, folder: Path, extra: ExtraFiles) -> None:
    """Write what sentence-transformers does not read, if there is any."""
    settings, weights, learned = dict(extra.settings), dict(extra.weights), encoder.modules_config.learned
    if learned is not None and encoder.pooling_config.pooling == learned.kind:
        settings["pooling"] = learned_settings(learned)
        weights |= {f"{POOLING_PREFIX}{name}": weight for name, weight in learned.state_dict().items()}
    if settings:
        _write_json(folder / OWN_SETTINGS, {"format": OWN_FORMAT, **settings})
    if weights:
        save_file({name: _plain(weight) for name, weight in weights.items()}, folder / OWN_WEIGHTS)


def _write_dense(head: Dense, folder: Path) -> None:
    activation = getattr(torch.nn, head.activation)
    folder.mkdir()
    settings = {
        "in_features": head.weight.shape[1],
        "out_features": head.weight.shape[0],
        "bias": head.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__qualname__}",
    }
    _write_json(folder / "config.json", settings)
    weights = {"linear.weight": head.weight} | ({} if head.bias is None else {"linear.bias": head.bias})
    save_file({name: _plain(weight) for name, weight in weights.items()}, folder / WEIGHTS)


def _plain(weight: torch.Tensor) -> torch.Tensor:
    # Copies: safetensors rejects weights that share memory.
    return weight.detach().cpu().clone().contiguous()


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _move(draft: Path, target: Path) -> None:
    """Rename the draft once it is on disk; into an existing folder its files move one by one."""
    for path in [*draft.rglob("*"), draft]:
        sync(path)
    if not target.exists():
        draft.rename(target)
        sync(target.parent)
        return
    # The config is removed first and written last: a folder without one is not a model.
    (target / CONFIG).unlink(missing_ok=True)
    for former in [path for pattern in FORMER_FILES for path in target.glob(pattern)]:
        former.unlink()
    made = sorted((path for path in draft.rglob("*") if path != draft / CONFIG), key=lambda path: len(path.parts))
    for path in [*made, draft / CONFIG]:
        moved = target / path.relative_to(draft)
        if path.is_dir():
            moved.mkdir(exist_ok=True)
        else:
            path.replace(moved)
    sync(target)
