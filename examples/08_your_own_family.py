# %% [markdown]
# # Your own model family
#
# A family maps the names of tensors to views; it computes nothing itself. Here is one whose files name their layers
# differently from BERT's: `blocks.0.` in place of `encoder.layer.0.`.

# %%
import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from safetensors.torch import load_file, save_file

from likewise import Encoder
from likewise.encoder.families import FAMILIES
from likewise.encoder.weights import locate

folder = Path(mkdtemp()) / "harbour"
shutil.copytree(locate("minilm"), folder)
weights = load_file(folder / "model.safetensors")
save_file(
    {name.replace("encoder.layer.", "blocks."): one for name, one in weights.items()}, folder / "model.safetensors"
)
config = json.loads((folder / "config.json").read_text())
(folder / "config.json").write_text(json.dumps(config | {"model_type": "harbour"}))

# %% [markdown]
# Without a family the folder is refused, in one line that says what there is:

# %%
try:
    Encoder(folder)
except Exception as error:
    print(type(error).__name__, str(error)[:120])

# %%
FAMILIES["harbour"] = replace(FAMILIES["bert"], renamed={"blocks.": "encoder.layer."})
own = Encoder(folder)
text = "A cat sat."
print(own, (own.encode(text) == Encoder("minilm").encode(text)).all())

# %% [markdown]
# Encoding, explanations, layers and training work at once, because they all run on the same views:

# %%
own.explain("A cat sat.", "A cat slept.", granularity="word")
