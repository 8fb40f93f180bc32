"""Model families, by ``model_type``: names of weights -> views. No other package knows Hugging Face's names."""

from likewise.encoder.families import bert, gemma, gpt_neo, llama, modernbert, nomic, t5

FAMILIES = (
    bert.FAMILIES | modernbert.FAMILIES | nomic.FAMILIES | llama.FAMILIES | gemma.FAMILIES | t5.FAMILIES
    | gpt_neo.FAMILIES
)  # fmt: skip
LAYOUTS = gemma.LAYOUTS | nomic.LAYOUTS
"""What turns the config of a folder in another layout into that of a family; by model type or class of its code."""
