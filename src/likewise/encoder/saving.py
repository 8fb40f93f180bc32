"""Saves an encoder as a folder that both sentence-transformers and ``Encoder.load`` can open.

The folder has sentence-transformers' classic layout. A learned pooling is stored in ``likewise.json`` and
``head.safetensors``, which sentence-transformers does not read; it opens such a folder with mean pooling.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from likewise.encoder import config
from likewise.encoder.config import CROSS_ENCODER, PIPELINE, SCORES
from likewise.encoder.encoder import Encoder
from likewise.encoder.learned_pooling import LEARNED, learned_settings
from likewise.encoder.model_view import POOLER, Transformer
from likewise.encoder.pooling import Dense, pooling_parts
from likewise.encoder.tokens import SPECIAL, TOKENIZER, VOCABULARIES, Vocabulary
from likewise.encoder.weights import SHARDS, WEIGHTS, model_view, write_tensors
from likewise.errors import UsageError, first_line
from likewise.storage import sync

FORMER_FILES = (
    *(config.OWN_SETTINGS, config.OWN_WEIGHTS, WEIGHTS, SHARDS, "model-*-of-*.safetensors"),
    *(*VOCABULARIES, "merges.txt", "added_tokens.json", SPECIAL),
)
"""Files of a former model in the folder that a new model without such files would wrongly use."""


@dataclass(frozen=True, eq=False)
class ExtraFiles:
    """Additional keys of ``likewise.json`` and tensors of ``head.safetensors``; the head of a cross-encoder.

    With ``scores``, sentence-transformers opens the folder as a CrossEncoder, whose scores are
    ``activation(scores(vector))``.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, torch.Tensor] = field(default_factory=dict)
    scores: Dense | None = None
    activation: str = "Identity"


def save_encoder(
    encoder: Encoder, folder: str | Path, card: str | None = None, extra: ExtraFiles | None = None
) -> Path:
    """Write an encoder with its present pooling into a folder; ``card`` becomes its README.md.

    A model in the folder is replaced, other files stay. An interrupted call leaves no incomplete model. A learned
    pooling that the encoder does not use is left out.
    """
    require_savable(encoder)
    target = Path(folder).expanduser().resolve()
    draft = target.with_name(f".{target.name}.draft-{os.getpid()}")
    try:
        if target.exists() and not target.is_dir():
            raise UsageError(f"{folder} is a file; give the name of a folder")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        _write(encoder, draft, extra or ExtraFiles())
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
    chosen, heads, depth = encoder.pooling_config, encoder.modules_config.heads, encoder.model_view.layers
    if set(chosen.layers_of(depth)) != {depth}:
        raise UsageError(f"a saved model pools its last layer, not {chosen.layer!r}; save it with layer=-1")
    if not chosen.special_tokens:
        raise UsageError("a saved model pools special tokens; save it with special_tokens=True")
    if encoder.modules_config.is_static and chosen.pooling not in ("mean", *LEARNED):
        raise UsageError(f"a saved static model pools by mean, not {chosen.pooling}; save it with pooling='mean'")
    if heads and not chosen.heads:
        raise UsageError("a saved model uses its dense heads; save it with heads=True")
    if encoder.postprocessing is not None:
        own = "save it to its own file, and the encoder without it"
        raise UsageError(f"post-processing is not part of a saved model; {own}")
    if chosen.normalize and chosen.truncate_dim is not None:
        raise UsageError("a saved model does not normalize truncated vectors; leave out truncate_dim or normalize")
    parts, width, known = pooling_parts(chosen.pooling), encoder.model_view.output_size, config.POOLING_NAMES.values()
    is_learned = len(parts) == 1 and parts[0] in LEARNED
    if is_learned and heads and (takes := heads[0].weight.shape[1]) != width:
        raise UsageError(
            f"sentence-transformers gives {width} dimensions to the dense head, which takes {takes};"
            f" use a {parts[0]} pooling of {width}, or drop the head"
        )
    if not is_learned and (unknown := [part for part in parts if part not in known]):
        choices = ", ".join(known) + (f", or {unknown[0]} alone" if unknown[0] in LEARNED else "")
        raise UsageError(f"sentence-transformers has no pooling {chosen.pooling!r}; save it with one of {choices}")


def _write(encoder: Encoder, folder: Path, extra: ExtraFiles) -> None:
    pooling, modules = encoder.pooling_config, encoder.modules_config
    vocabulary = encoder.tokenizer.vocabulary
    if extra.scores is not None and encoder.model_view.embeddings.type is not None:
        # A pair has types, which transformers passes on only if they are listed.
        vocabulary = replace(vocabulary, inputs=Vocabulary.inputs)
    vocabulary.save(folder)
    kinds = _write_static(encoder, folder) if modules.is_static else _write_transformer(encoder, folder)
    for head in modules.heads:
        kinds.append((f"{len(kinds)}_Dense", "Dense"))
        _write_dense(head, folder / kinds[-1][0])
    if extra.scores is not None:
        kinds.append((f"{len(kinds)}_Dense", "Dense"))
        _write_dense(extra.scores, folder / kinds[-1][0], {"module_output_name": SCORES})
    elif modules.normalizes if pooling.normalize is None else pooling.normalize:
        kinds.append((f"{len(kinds)}_Normalize", "Normalize"))
    listed = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (path, kind) in enumerate(kinds)
    ]
    _write_json(folder / "modules.json", listed)
    # sentence-transformers rejects the name of a prompt without a text.
    default = modules.default_prompt if modules.default_prompt in modules.prompts else None
    pipeline: dict[str, Any] = {"prompts": dict(modules.prompts), "default_prompt_name": default}
    if extra.scores is None:
        pipeline["similarity_fn_name"] = "cosine"
    else:
        pipeline |= {"model_type": CROSS_ENCODER, "activation_fn": _class_path(extra.activation)}
    cut = {} if pooling.truncate_dim is None else {"truncate_dim": pooling.truncate_dim}
    _write_json(folder / PIPELINE, pipeline | cut)


def _encoder_weights(encoder: Encoder) -> dict[str, torch.Tensor]:
    """The weights that the views read, by name; a model in memory may hold others, such as a decoder."""
    empty = Transformer(config.saved_config(encoder.model))
    model_view(empty)
    # A pooler that the loaded files lacked is random and must not look like the model's own.
    unused = () if encoder.model_view.pooler is not None else POOLER
    state = encoder.model.state_dict()
    return {name: state[name] for name in empty.state_dict() if not name.startswith(unused)}


def _write_transformer(encoder: Encoder, folder: Path) -> list[tuple[str, str]]:
    """Write the settings of a transformer; returns the paths and names of its modules."""
    _save(_encoder_weights(encoder), folder / WEIGHTS, metadata={"format": "pt"})
    _write_json(folder / config.CONFIG, config.saved_config(encoder.model))
    limits = {"max_seq_length": encoder.tokenizer.limit, "do_lower_case": encoder.modules_config.lower}
    _write_json(folder / "sentence_bert_config.json", limits)
    _write_pooling(encoder, folder / "1_Pooling")
    return [("", "Transformer"), ("1_Pooling", "Pooling")]


def _write_static(encoder: Encoder, folder: Path) -> list[tuple[str, str]]:
    """The same of a static model, whose limit, if it has one, is in its tokenizer."""
    _save(encoder.model.state_dict(), folder / WEIGHTS, metadata={"format": "pt"})
    _write_json(folder / config.CONFIG, encoder.model.config)
    if encoder.tokenizer.limit < encoder.model_view.max_positions:
        encoder.tokenizer.backend.save(str(folder / TOKENIZER))
    return [("", config.STATIC_MODULE)]


def _write_pooling(encoder: Encoder, folder: Path) -> None:
    parts = pooling_parts(encoder.pooling_config.pooling)
    known = ("mean",) if parts[0] in LEARNED else parts
    modes = [mode for part in known for mode, name in config.POOLING_NAMES.items() if name == part]
    chosen: dict[str, Any] = {key: mode in modes for key, mode in config.CLASSIC_POOLING_KEYS.items()}
    if modes != [mode for mode in config.CLASSIC_POOLING_KEYS.values() if mode in modes]:
        # The classic keys have a fixed order; only version 6 reads another one.
        chosen = {"pooling_mode": modes}
    folder.mkdir()
    width, prompt = encoder.model_view.output_size, encoder.modules_config.include_prompt
    _write_json(folder / "config.json", {"word_embedding_dimension": width, "include_prompt": prompt} | chosen)


def _write_own(encoder: Encoder, folder: Path, extra: ExtraFiles) -> None:
    """Write what sentence-transformers does not read, if there is any."""
    settings, weights, learned = dict(extra.settings), dict(extra.weights), encoder.modules_config.learned
    if learned is not None and encoder.pooling_config.pooling == learned.kind:
        settings["pooling"] = learned_settings(learned)
        weights |= {f"{config.POOLING_PREFIX}{name}": weight for name, weight in learned.state_dict().items()}
    if settings:
        _write_json(folder / config.OWN_SETTINGS, {"format": config.OWN_FORMAT, **settings})
    if weights:
        _save(weights, folder / config.OWN_WEIGHTS)


def _class_path(activation: str) -> str:
    """The path of a class of torch, as sentence-transformers writes it."""
    kind = getattr(torch.nn, activation)
    return f"{kind.__module__}.{kind.__qualname__}"


def _write_dense(head: Dense, folder: Path, more: Mapping[str, Any] | None = None) -> None:
    folder.mkdir()
    settings = {
        "in_features": head.weight.shape[1],
        "out_features": head.weight.shape[0],
        "bias": head.bias is not None,
        "activation_function": _class_path(head.activation),
    }
    _write_json(folder / "config.json", settings | dict(more or {}))
    _save({"linear.weight": head.weight} | ({} if head.bias is None else {"linear.bias": head.bias}), folder / WEIGHTS)


def _save(weights: Mapping[str, torch.Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    # Copies: safetensors rejects weights that share memory.
    copies = {name: weight.detach().cpu().clone().contiguous() for name, weight in weights.items()}
    write_tensors(path, copies, metadata)


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
    (target / config.CONFIG).unlink(missing_ok=True)
    for former in [path for pattern in FORMER_FILES for path in target.glob(pattern)]:
        former.unlink()
    last = draft / config.CONFIG
    made = sorted((path for path in draft.rglob("*") if path != last), key=lambda path: len(path.parts))
    for path in [*made, last]:
        moved = target / path.relative_to(draft)
        if path.is_dir():
            moved.mkdir(exist_ok=True)
        else:
            path.replace(moved)
    sync(target)
