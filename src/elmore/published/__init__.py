"""Models that others have published, by the names people know them by."""
