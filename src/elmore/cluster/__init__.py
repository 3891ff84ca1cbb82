"""The same work on many machines: shards of a text, embedded by workers, in the text's order."""
