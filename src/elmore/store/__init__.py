"""Embeddings on disk: computed once, kept small, read at the speed of memory."""
