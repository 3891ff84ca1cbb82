"""A word in its sentence: its vectors, their geometry, and clusters of them."""
