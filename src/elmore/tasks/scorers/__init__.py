"""Predictions against what is right: plain functions, no torch."""
