"""Blocks: tensors in, tensors out. No files, no strings."""
