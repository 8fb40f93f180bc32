"""Evaluation of models (STS) and of their explanations (faithfulness, conservation)."""
