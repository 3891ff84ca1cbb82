"""Strings to integers. NumPy at most; torch is forbidden here."""
