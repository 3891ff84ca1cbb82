"""Tests of elmore.cli."""
