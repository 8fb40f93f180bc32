"""Slow twins: detached transformers written plainly from their equations, for one text, on Hugging Face's weights.

Attention probabilities, the scale of each norm and the gate of each activation are constants; all else is live. Each
model maps embeddings x (T, E) to the last states (T, D). Nothing here goes through Likewise's own forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from transformers.activations import NewGELUActivation

from tiny_models import NoDowncast

Model = Callable[[Tensor], Tensor]


def held_norm(module: Any, x: Tensor) -> Tensor:
    """LayerNorm with a live mean and a held scale."""
    centred = x - x.mean(-1, keepdim=True)
    scale = 1 / torch.sqrt((centred**2).mean(-1, keepdim=True) + module.eps)
    y = centred * scale.detach() * module.weight
    return y if module.bias is None else y + module.bias


def held_gelu(h: Tensor) -> Tensor:
    return h * (0.5 * (1 + torch.erf(h / math.sqrt(2)))).detach()


def held_new_gelu(h: Tensor) -> Tensor:
    return h * (0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))).detach()


def held_attention(query: Tensor, key: Tensor, value: Tensor, scale: float, visible: Tensor) -> Tensor:
    """Queries, keys and values (H, T, W) -> (T, H * W)."""
    scores = (query @ key.transpose(1, 2) * scale).masked_fill(~visible, -math.inf)
    return (torch.softmax(scores, -1).detach() @ value).transpose(0, 1).flatten(1)


def by_head(x: Tensor, heads: int) -> Tensor:
    """(T, H * W) -> (H, T, W)."""
    return x.reshape(len(x), heads, -1).transpose(0, 1)


def plain_bert(model: Any) -> Model:
    def run(x: Tensor) -> Tensor:
        heads = model.config.num_attention_heads
        everything = torch.ones(len(x), len(x), dtype=torch.bool)
        for layer in model.encoder.layer:
            own, after = layer.attention.self, layer.attention.output
            query, key, value = (by_head(part(x), heads) for part in (own.query, own.key, own.value))
            mixed = held_attention(query, key, value, query.shape[-1] ** -0.5, everything)
            x = held_norm(after.LayerNorm, x + after.dense(mixed))
            inner = layer.output.dense(held_gelu(layer.intermediate.dense(x)))
            x = held_norm(layer.output.LayerNorm, x + inner)
        return x

    return run


def plain_gpt_neo(model: Any) -> Model:
    def run(x: Tensor) -> Tensor:
        heads, window = model.config.num_heads, model.config.window_size
        behind = torch.arange(len(x))[:, None] - torch.arange(len(x))[None]
        for layer in model.h:
            own = layer.attn.attention
            visible = (behind >= 0) & (behind < (window if own.attention_type == "local" else math.inf))
            y = held_norm(layer.ln_1, x)
            query, key, value = (by_head(part(y), heads) for part in (own.q_proj, own.k_proj, own.v_proj))
            x = x + own.out_proj(held_attention(query, key, value, 1.0, visible))
            x = x + layer.mlp.c_proj(held_new_gelu(layer.mlp.c_fc(held_norm(layer.ln_2, x))))
        return held_norm(model.ln_f, x)

    return run


def plain_modernbert(model: Any) -> Model:
    def turned(x: Tensor, base: float) -> Tensor:
        """Rotary positions: x (H, T, W), each pair (d, d + W/2) turned by t * base^(-2d / W)."""
        half = x.shape[-1] // 2
        # The model keeps its frequencies as float32.
        frequencies = (1 / base ** (torch.arange(half, dtype=torch.float32) / half)).double()
        angles = torch.arange(x.shape[1])[:, None] * frequencies
        first, second = x[..., :half], x[..., half:]
        sine, cosine = torch.sin(angles), torch.cos(angles)
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)

    def run(x: Tensor) -> Tensor:
        config = model.config
        apart = (torch.arange(len(x))[:, None] - torch.arange(len(x))[None]).abs()
        for place, layer in enumerate(model.layers):
            local = place % config.global_attn_every_n_layers != 0
            base = config.rope_parameters["sliding_attention" if local else "full_attention"]["rope_theta"]
            visible = apart <= (config.local_attention // 2 if local else math.inf)
            y = x if place == 0 else held_norm(layer.attn_norm, x)
            query, key, value = (by_head(part, config.num_attention_heads) for part in layer.attn.Wqkv(y).chunk(3, -1))
            query, key = turned(query, base), turned(key, base)
            x = x + layer.attn.Wo(held_attention(query, key, value, query.shape[-1] ** -0.5, visible))
            activated, other = layer.mlp.Wi(held_norm(layer.mlp_norm, x)).chunk(2, -1)
            x = x + layer.mlp.Wo(F.gelu(activated).detach() * other)
        return held_norm(model.final_norm, x)

    return run


PLAIN: dict[str, Callable[[Any], Model]] = {
    "bert": plain_bert,
    "gpt_neo": plain_gpt_neo,
    "modernbert": plain_modernbert,
}


class Held(TorchFunctionMode):
    """Holds the factors of some rules in Hugging Face's own code as it runs; ``gated``: activations are held whole."""

    def __init__(self, rules: Collection[str], gated: bool) -> None:
        super().__init__()
        self.rules, self.gated = rules, gated

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.layer_norm and "norm" in self.rules:
            return held_norm(SimpleNamespace(**kwargs), args[0])
        found = func(*args, **kwargs)
        # The tanh is what varies of the gate of Hugging Face's gelu_new, the rsqrt is the scale of its RMSNorm.
        if func is torch.pow and args[1] == -0.5 and "norm" in self.rules:
            return found.detach()  # EmbeddingGemma 2 writes its scale so
        factors = {"attention": (F.softmax, torch.softmax), "norm": (torch.rsqrt,), "activation": (torch.tanh,)}
        if any(func in factors[rule] for rule in self.rules):
            return found.detach()
        if func in (F.gelu, F.silu, F.relu) and "activation" in self.rules:
            if self.gated:
                return found.detach()
            return held_gelu(args[0]) if func is F.gelu else args[0] * (args[0] > 0)
        return found


GATED = ("embedding_gemma2_text", "eurobert", "gemma3_text", "gte", "llama", "mistral", "modernbert", "mt5",
         "nomic_bert", "qwen2", "qwen3")  # fmt: skip


def embedding_module(model: Any) -> Any:
    names = {"gpt_neo": "drop", "t5": "encoder.embed_tokens", "mt5": "encoder.embed_tokens"}
    known = names.get(model.config.model_type, "embeddings" if hasattr(model, "embeddings") else "embed_tokens")
    return model.get_submodule(known)


def embeddings_of(model: Any, ids: Tensor) -> Tensor:
    """The embedding layer's output (T, E) for ids (T,), by Hugging Face's own modules."""
    seen: list[Tensor] = []
    _hooked(model, ids, lambda output: seen.append(output) or output)
    return seen[0][0].detach()


def hugging_face(model: Any, ids: Tensor, held: Collection[str] = ()) -> Model:
    """Hugging Face's model as a function of its embedding layer's output, the factors of some rules held."""
    gated = model.config.model_type in GATED

    def run(x: Tensor) -> Tensor:
        # Its own formula is held as a whole only where it is one factor of a gate.
        whole = [part for part in model.modules() if gated and isinstance(part, NewGELUActivation)]
        handles = [part.register_forward_hook(_detached) for part in whole if "activation" in held]
        try:
            with NoDowncast(), Held(held, gated):
                return _hooked(model, ids, lambda _: x[None])[0]
        finally:
            for handle in handles:
                handle.remove()

    return run


def _detached(_module: Any, _given: Any, output: Tensor) -> Tensor:
    return output.detach()


def _hooked(model: Any, ids: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    handle = embedding_module(model).register_forward_hook(lambda _module, _given, output: change(output))
    try:
        states: Tensor = model(input_ids=ids[None]).last_hidden_state
        return states
    finally:
        handle.remove()


def products_by_backward_passes(vector: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """c_i = sum_d dphi/dx[i, d] * x[i, d], by one backward pass per dimension of phi: (T, h)."""
    x = x.clone().requires_grad_()
    phi = vector(x)
    gradients = [torch.autograd.grad(phi[place], x, retain_graph=True)[0] for place in range(len(phi))]
    return torch.stack([(gradient * x).sum(-1) for gradient in gradients], 1).detach()
