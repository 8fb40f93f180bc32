"""The study "Exploring the interpretability of the BERT model for semantic similarity" (2024), item by item.

Its figures are numbered here in the order of their subjects; the sources at hand state their ranges and layers.
"""

from __future__ import annotations

from dataclasses import replace

from likewise.reproduce import attention_clusters_figures as figures
from likewise.reproduce import attention_clusters_maps as maps
from likewise.reproduce import attention_clusters_training as training
from likewise.reproduce import attention_clusters_words as words
from likewise.reproduce.study import BUDGETS, Item, Study

FILES = ("stsb/train", "stsb/dev", "stsb/test")
CHINESE = {"zh": ("mstsb/zh_train", "mstsb/zh_dev", "mstsb/zh_test")}
ENGLISH = ("en",)
COSTS = {
    "table-1": (0.04, 0.24, 5, 36),
    "table-3": (0.03, 0.18, 8.4, 13),
    "autoencoder": (0.08, 0.18, 4, 4),
    "dimensions": (0.1, 0.11, 8, 12),
    "homonyms": (0.007, 0.015, 0.05, 0.05),
    "synonyms": (0.002, 0.003, 0.02, 0.02),
}  # million tokens by budget; items that only read what others computed take no time
NO_COST = (0.001,) * len(BUDGETS)
ITEMS = (
    Item(
        "table-1", "A search with Optuna finds better hyperparameters.", training.search_table, FILES,
        original="table 1",
    ),
    Item(
        "table-3", "CLS is better than mean pooling, max pooling and a BiLSTM.", training.pooling_table, FILES,
        original="table 3",
    ),
    Item("autoencoder", "Two numbers describe a map; the loss is 0.0447.", maps.autoencoder_item, FILES),
    Item(
        "table-2", "DBSCAN and spectral clustering are rejected; layer 1 has 15 clusters.", maps.algorithm_table, FILES,
        original="table 2",
    ),
    Item("table-4", "The points of a layer form clusters.", maps.score_table, FILES, original="table 4"),
    Item(
        "table-5", "Clusters differ in length in the early layers and in similarity in layers 6, 8, 9 and 10.",
        maps.variable_table, FILES, ENGLISH, "table 5",
    ),
    Item("figure-3", "The pairs vary in similarity, length and structure.", figures.distribution_figure, FILES, ENGLISH,
         "figure 3"),
    Item("figure-4", "The three scores agree on the number of clusters.", figures.number_figure, FILES, (), "figure 4"),
    Item("figure-5", "Clusters do not depend on the algorithm.", figures.cluster_figure, FILES, (), "figure 5"),
    Item("figure-6", "Similarity is concentrated in layers 6, 8, 9 and 10.", figures.similarity_boxes, FILES, (),
         "figure 6"),
    Item("figure-7", "Pairs with a similarity of 0 and of 5 lie apart.", figures.similarity_highlight, FILES, (),
         "figure 7"),
    Item("figure-8", "Length matters in the early layers and less in later ones.", figures.length_boxes, FILES, (),
         "figure 8"),
    Item("figure-9", "Pairs of 9-15, 20-22 and 60-81 tokens lie apart.", figures.length_highlight, FILES, (),
         "figure 9"),
    Item("figure-10", "Clusters differ in structure.", figures.structure_boxes, FILES, ENGLISH, "figure 10"),
    Item("figure-11", "Pairs with nearly the most frequent structure (cosine of 0.95 or more) lie together.",
         figures.structure_highlight, FILES, ENGLISH, "figure 11"),
    Item("dimensions", "More than two numbers describe a map better.", words.dimension_item, FILES,
         original="future work"),
    Item("homonyms", "A word in two senses changes the cluster of a pair.", words.homonym_item, FILES,
         original="future work"),
    Item("synonyms", "A synonym changes the cluster of a pair less than another word.", words.synonym_item, FILES,
         original="future work"),
)  # fmt: skip

STUDY = Study(
    "attention-clusters",
    "Clusters of attention maps of BERT on STS-B",
    tuple(
        replace(one, cost=dict(zip(BUDGETS, COSTS.get(one.name, NO_COST), strict=True)), other_data=CHINESE)
        for one in ITEMS
    ),
)
