# %% [markdown]
# # What a score means, and near-duplicates
#
# A cosine has a meaning only together with a model and a corpus. A calibration measures it.

# %%
from likewise import Index
from likewise.data import Dataset
from likewise.sample import sample_sentences
from likewise.search import CalibrationSettings

index = Index.from_texts("minilm", sample_sentences())
calibration = index.calibrate(Dataset("sample/pairs").scored_pairs(), CalibrationSettings(match_from=3))
for score in (0.1, 0.3, 0.5, 0.7):
    print(score, calibration.meaning(score))

# %% [markdown]
# From now on every hit says what its score means:

# %%
for hit in index.search("volcano erupted", k=3):
    print(f"{hit.score:.3f}  {hit.meaning}  {hit.text}")

# %% [markdown]
# ## Near-duplicates, and what sets them apart

# %%
from likewise.search.duplicates import find_duplicates

texts = ["Two boats left the harbour.", "Rates rose again.", "Five boats left the harbour.", "Rates rose again."]
found = find_duplicates("minilm", texts, 0.8)
for pair in found.pairs:
    print(f"{pair.score:.3f}", [span.text for span in pair.differences.left], [s.text for s in pair.differences.right])
found
