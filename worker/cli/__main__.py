"""``python -m worker.cli``: the same as ``stepkeeper``."""

import sys

from worker.cli import main

if __name__ == "__main__":
    sys.exit(main())
