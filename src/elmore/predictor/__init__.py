"""Which words fit a place in a sentence, by a model that was trained to predict words."""
