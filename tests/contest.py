"""Processes of their own that do something at the same time: each is ready before all are told to go by a line.

As a program it is one of them. Its first input is a pickle: a function of a module, and its arguments. It prints what that gives.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def contest(run: Callable[..., Sequence[Any]], inputs: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What a process for each of these inputs came to, as tuples, one process behind the other."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        for _ in inputs
    ]
    for one, given in zip(processes, inputs, strict=True):
        assert one.stdin is not None
        one.stdin.write(pickle.dumps((run, given)))
        one.stdin.flush()
    for one in processes:
        assert one.stdout is not None and one.stdout.readline() == b"ready\n"
    for one in processes:
        assert one.stdin is not None
        one.stdin.write(b"go\n")
        one.stdin.flush()
    return [tuple(each) for one in processes for each in json.loads(one.communicate(timeout=240)[0])]


def main() -> None:
    """Be one of the processes."""
    run, given = pickle.load(sys.stdin.buffer)  # noqa: S301
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    print(json.dumps(run(*given)))


if __name__ == "__main__":
    main()
