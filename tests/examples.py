"""How many examples the property tests try: few in every run, many where there is time for them."""

from __future__ import annotations

import os

# `make test-heavy`, which each commit has to pass, sets it.
TIMES = float(os.environ.get("EXAMPLES_TIMES", "0.5"))


def examples(usual: int) -> int:
    """The number of examples to try now, half of `usual` in `make test`."""
    return max(1, round(usual * TIMES))
