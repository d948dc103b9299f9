"""How many examples the property tests try: a few in every run, many where there is time for them."""

from __future__ import annotations

import os

# `make test-heavy` sets it.
TIMES = int(os.environ.get("EXAMPLES_TIMES", "1"))


def examples(usual: int) -> int:
    """The number of examples to try now where `usual` is the number in `make test`."""
    return usual * TIMES
