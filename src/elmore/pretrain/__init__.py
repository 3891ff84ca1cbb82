"""Language models from text: the data, the objective, the recipes, and `pretrain` itself."""
