"""From sentences to vectors for a task: trained, static, or the layers of a model."""
