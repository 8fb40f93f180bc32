# %% [markdown]
# # Attention
#
# A map shows where a head looks. Why it looks there has an exact answer as well.

# %%
from likewise import Encoder
from likewise.explain import explain_attention

encoder = Encoder("minilm")
found = explain_attention(encoder, "The old bank by the river", layer=2, head=3, i=3, j=6)
print(f"score {found.score:.3f}, weight {found.weight:.3f}, gap {found.gap:.1e}")
found.strongest(3)

# %% [markdown]
# Do groups of attention maps have to do with similarity? Maps of a corpus become points, the points are clustered, and
# the clusters are tested, with random attention and fixed length as controls. Here with few pairs, to be quick.

# %%
from pathlib import Path
from tempfile import mkdtemp

from likewise.attention import AttentionSettings, AutoencoderSettings, ClusterSettings, attention_study
from likewise.data import Dataset

pairs = list(Dataset("sample/pairs").scored_pairs())[:15]
settings = AttentionSettings(
    autoencoder=AutoencoderSettings(hidden=8, epochs=1), clusters=ClusterSettings(("kmeans",), most=3), control_pairs=10
)
study = attention_study(encoder, pairs, Path(mkdtemp()), settings)
for note in study.notes:
    print(note)
