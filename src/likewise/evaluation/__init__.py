"""How good a model and its explanations are: agreement with people (STS), faithfulness, conservation."""
