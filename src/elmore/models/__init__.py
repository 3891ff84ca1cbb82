"""Assemblies of blocks: one file, one config, one module."""
