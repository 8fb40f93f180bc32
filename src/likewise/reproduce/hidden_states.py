"""The study "Hidden states of BERT and retrieval", item by item."""

from __future__ import annotations

from dataclasses import replace

from likewise.encoder.inspection import inspect
from likewise.geometry.trajectories import BANKS
from likewise.reproduce.hidden_states_recall import (
    SEEN,
    UNSEEN,
    against_baselines,
    by_layer,
    by_model,
    by_pooling,
    six_queries,
    ties,
)
from likewise.reproduce.hidden_states_trajectories import sentence_trajectory_finding, word_trajectory_finding
from likewise.reproduce.study import Context, Finding, Item, Study

INSPECTED = {"en": BANKS, "zh": ("银行在河边。", "今天天气很好，我们去散步。")}
CHINESE = {"zh": ("mstsb/zh_test",)}
FACTS_NOTE = "Tokens, ids and shapes are read off the model and its tokenizer: there is no effect to judge."


def inspection(context: Context) -> Finding:
    """The tokens of some sentences, the special tokens, the sizes of the model and the shapes of its outputs."""
    found = inspect(replace(context.encoder, name=context.short), INSPECTED[context.language])
    return Finding(found.tables(), found.figures(), (), (FACTS_NOTE,))


STUDY = Study(
    "hidden-states",
    "Hidden states of BERT and retrieval",
    (
        Item(
            "inspection", "A text becomes tokens between [CLS] and [SEP]; each layer has a state for each of them.",
            inspection, original="questions on the tokenizer and the model",
            cost={"tiny": 0.001, "quick": 0.001, "standard": 0.001},
        ),
        Item(
            "word-trajectories", "Contexts pull senses apart, and bring different words in one frame together.",
            word_trajectory_finding, original="cosines of words by layer",
            cost={"tiny": 0.005, "quick": 0.005, "standard": 0.005},
        ),
        Item(
            "sentence-trajectories", "An idiom is nearest to its meaning; certain, possible and failed stand in order.",
            sentence_trajectory_finding, original="cosines of sentences by layer",
            cost={"tiny": 0.005, "quick": 0.005, "standard": 0.005},
        ),
        Item(
            "pooling", "Mean pooling retrieves far better than CLS pooling.", by_pooling, (SEEN, UNSEEN),
            original="recall of BERT by pooling", cost={"tiny": 0.015, "quick": 0.3, "standard": 7},
            other_data=CHINESE,
        ),
        Item(
            "layers", "The last layer retrieves better than the middle layers.", by_layer, (SEEN,),
            cost={"tiny": 0.012, "quick": 0.24, "standard": 7},
            other_data=CHINESE,
        ),
        Item(
            "models", "A model that was tuned for retrieval beats plain BERT with mean pooling, but not with CLS.",
            by_model, (SEEN,), original="recall by model", cost={"tiny": 0.02, "quick": 0.12, "standard": 1},
            other_data={"zh": ("mstsb/zh_train", "mstsb/zh_dev", "mstsb/zh_test")},
        ),
        Item(
            "queries", "Mean pooling answers six queries of a news search better than CLS pooling.", six_queries,
            (SEEN,), original="six queries", cost={"tiny": 0.015, "quick": 0.1, "standard": 1.5},
        ),
        Item(
            "baselines", "The model's vectors retrieve better than classic baselines.", against_baselines,
            (SEEN, UNSEEN),
            original="classic baselines", cost={"tiny": 0.008, "quick": 0.02, "standard": 3},
            takes_vectors=True,
        ),
        Item(
            "ties", "Ties, which count in the query's favour, do not make the recall.", ties, (SEEN,),
            cost={"tiny": 0.004, "quick": 0.016, "standard": 0.25, "full": 1.8},
            other_data=CHINESE,
        ),
    ),
)  # fmt: skip
