"""Predictions compared with the right answers: plain functions, no torch."""
