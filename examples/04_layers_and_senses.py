# %% [markdown]
# # Layers and senses
#
# Where in the model do two banks become two words?

# %%
# %matplotlib inline
from likewise import Encoder
from likewise.geometry import word_trajectories

encoder = Encoder("minilm")
texts = ["We rob a bank today.", "The bank lends me money.", "We sit on the bank of the river."]
found = word_trajectories(encoder, texts, "bank")
found.plot().figure

# %% [markdown]
# The two banks of money stay close; the bank of the river moves away.

# %%
for pair in found.pairs:
    print(texts[pair.left], "|", texts[pair.right], "|", [round(cosine, 2) for cosine in pair.cosine])

# %% [markdown]
# ## Which layer separates senses best?

# %%
from pathlib import Path
from tempfile import mkdtemp

from likewise.data import Dataset
from likewise.geometry.sense_study import sense_task, study_senses

rows = [
    "we rob a bank today,money,bank,3",
    "the bank lends me money,money,bank,1",
    "he owns a bank in town,money,bank,3",
    "sit on the bank of the river,shore,bank,3",
    "the green bank by the sea,shore,bank,2",
    "fish from the muddy bank,shore,bank,4",
]
file = Path(mkdtemp()) / "senses.csv"
file.write_text("\n".join(["text,sense,word,position", *rows]))
study = study_senses(encoder, sense_task(Dataset(str(file))))
for layer in study.geometry.layers:
    print(layer.layer, f"within minus between senses: {layer.difference.value:+.3f}")
