"""Tests of elmore.cluster."""
