"""Readers of task files: one layout each, and every complaint names the file and the line."""
