"""Damaged files by the hundred for every reader of files. `python -m tests.fuzz.campaign`."""
