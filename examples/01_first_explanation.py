# %% [markdown]
# # First explanation
#
# Which words make a model call two texts similar? The parts sum to the score.

# %%
from likewise import Encoder

encoder = Encoder("minilm")
why = encoder.explain("Fire in hospital kills 38", "38 feared dead in hospital fire", granularity="word")
why

# %% [markdown]
# Point at a word to see what it is compared with. The same numbers as values:

# %%
for left, right, share in why.strongest(5):
    print(f"{left.text:10} {right.text:10} {share:+.3f}")
print(f"cosine {why.similarity:.4f}, gap {why.gap:.1e}")

# %% [markdown]
# The ledger has more parts than the words: what any two texts of this length have in common is the *reference*.

# %%
why.ledger

# %% [markdown]
# ## What does a "not" do?

# %%
encoder.explain("He bought the house.", "He did not buy the house.", granularity="word")

# %% [markdown]
# The word lowers the score, but little next to all the words that both texts share. For the model these two are nearly
# paraphrases.
