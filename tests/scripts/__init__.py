"""Tests of the scripts that maintain the checkout."""
