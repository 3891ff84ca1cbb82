"""Encoders side by side on one task: trials, table, plots, page."""
