"""An independent NumPy derivation of every published ELMo format: the judge of the numbers."""
