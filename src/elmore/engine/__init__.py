"""The fast way to run a finished biLM: each word once, no padding, a thread a direction."""
