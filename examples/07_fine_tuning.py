# %% [markdown]
# # Fine-tuning, before and after
#
# Train on scored pairs, and see which word pairs the training changed.

# %%
from likewise import Encoder
from likewise.data import Dataset
from likewise.train import train

before = Encoder("minilm")
pairs = [(pair.left, pair.right, pair.score) for pair in Dataset("sample/pairs").scored_pairs()]
after, report = train(before, pairs[:40], loss="cosent", dev=pairs[40:], epochs=2, batch=8, seed=0)
report

# %% [markdown]
# ## What changed for one pair
#
# Both explanations are exact, so their difference is the exact change of the score.

# %%
from likewise.explain import compare

texts = "He bought the house.", "He did not buy the house."
print(f"{before.similarity(*texts)[0, 0]:.3f} before, {after.similarity(*texts)[0, 0]:.3f} after")
compare(before, after, *texts, granularity="word")
