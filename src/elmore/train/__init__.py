"""One training loop with its optimizers, schedules, logs and checkpoints."""
