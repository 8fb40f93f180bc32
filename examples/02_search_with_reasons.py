# %% [markdown]
# # Search with reasons
#
# Documents of any length are cut into passages. Each hit says which words carry its score, and what puts it above the
# next hit.

# %%
from likewise import Index
from likewise.search import PassageSettings

QUIET = "The station recorded nothing unusual. Wind came from the west, and the ferry ran on time. "
documents = [
    ("march", QUIET * 8 + "At dusk the mountain threw ash over the harbour. " + QUIET * 8, {"year": 2024}),
    ("april", "The new bakery opened. " + QUIET * 3, {"year": 2024}),
    ("may", "The council wants a second ferry. Bread is dear this year.", {"year": 2025}),
]
index = Index.from_texts("minilm", documents, passages=PassageSettings(tokens=48, overlap=8))
index

# %%
found = index.search("volcanic eruption", k=2, explain=True)
found

# %% [markdown]
# ## Why is the first hit above the second?

# %%
print(f"margin {found[0].margin:.3f}")
for word, difference in found[0].margin_terms[:3]:
    print(f"{word:12} {difference:+.3f}")

# %% [markdown]
# ## Why is a document not a hit?

# %%
index.why_not("volcanic eruption", "may", k=1)

# %% [markdown]
# ## Hits of another system
#
# `explain_hits` explains what any system returned, and says what its scores are.

# %%
from likewise import explain_hits

hits = [{"text": "The volcano spat ash.", "distance": 0.306}, {"text": "The bank cut rates."}]
explained = explain_hits("minilm", "eruption", hits)
print(explained[0].returned)
explained
