"""Downstream: a file per task (examples, head, score) over one fit, evaluate and predict."""
