"""One loop, its optimisers, schedules, logs and resume. Knows no task and no objective."""
