# %% [markdown]
# # Geometry
#
# Vectors of a language model do not point into all directions alike. How narrow is the cone, and where?

# %%
# %matplotlib inline
from likewise import Encoder
from likewise.geometry import GeometrySettings, geometry_of
from likewise.sample import sample_sentences

encoder = Encoder("minilm")
found = geometry_of(encoder, sample_sentences()[:120], GeometrySettings(min_contexts=4, corrections=False))
found.main_figure.draw().figure

# %% [markdown]
# The *baseline* is the expected cosine of two random words of different texts. With its 95 % interval, by layer:

# %%
for layer in range(found.layers):
    low, high = found.raw.baseline.ends(layer)
    print(layer, f"{found.raw.baseline.values[layer]:.3f}  [{low:.3f}, {high:.3f}]")

# %% [markdown]
# All tables are data frames too:

# %%
found.to_dataframe().head()
