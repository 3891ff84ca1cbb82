"""The fast way to run a finished model: each word once, no padding, one thread per direction."""
