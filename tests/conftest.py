"""Its presence beside __init__.py puts the repository root on the path: `from tests.oracle ...`."""
