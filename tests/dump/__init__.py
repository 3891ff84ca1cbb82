"""Tests of elmore.dump."""
