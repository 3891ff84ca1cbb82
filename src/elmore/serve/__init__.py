"""The HTTP API and the explorer page: one model, many clients."""
