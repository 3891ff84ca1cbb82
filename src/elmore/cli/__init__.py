"""The command line: main.py and a file per verb."""
