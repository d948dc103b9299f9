"""`python -m distributary`, and `distributary` itself: the command line."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Load the command line and run it; who interrupts that before it is there gets no stack trace either."""
    try:
        from distributary.cli import main as command_line
    except KeyboardInterrupt:
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
