"""`python -m elmore`, the same as the command `elmore`."""

import sys

from elmore.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
