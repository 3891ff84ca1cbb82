"""Tests of the integrations room."""
