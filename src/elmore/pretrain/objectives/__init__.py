"""What can be learned from text: a file for each kind, which prepares a run and builds it."""
