"""Files to models and back: one file per format."""
