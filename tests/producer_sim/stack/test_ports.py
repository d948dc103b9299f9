from __future__ import annotations

import secrets
from itertools import repeat

import pytest

from distributary.producer_sim.stack.ports import free_port


def test_a_free_port_is_given_once_though_nobody_listens_there_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = free_port(), free_port()
    drawn = iter([first, first, other, 16_001, 16_002, 16_003])
    monkeypatch.setattr(secrets, "choice", lambda _: next(drawn))
    assert free_port() not in {first, other}


def test_ports_are_drawn_again_until_they_differ() -> None:
    assert len({free_port() for _ in repeat(None, 400)}) == 400
