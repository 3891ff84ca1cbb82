"""Tests of elmore.checkpoint."""
