"""Compares three sentences at every layer: where does the model see that two of them mean the same?"""

from likewise import Encoder

TEXTS = [
    "The orchestra put off its concert until autumn.",
    "The concert was postponed to the autumn.",
    "The orchestra bought new chairs in autumn.",
]

encoder = Encoder.load("minilm")
for layer in range(encoder.model_view.layers + 1):
    first, paraphrase, other = encoder.encode(TEXTS, layer=layer, normalize=True)
    print(f"layer {layer}: paraphrase {first @ paraphrase:.3f}, other {first @ other:.3f}")
