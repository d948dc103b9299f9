"""`python -m distributary` is the command line."""

from distributary.cli import main

main()
