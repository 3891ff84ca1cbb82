"""Embeddings of a whole text, written to one file."""
