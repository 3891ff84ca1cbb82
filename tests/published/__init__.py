"""Tests of elmore.published."""
