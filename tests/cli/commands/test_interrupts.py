from __future__ import annotations

import os
import signal

import pytest
import typer

from distributary.commands.interrupts import ended_by_term, interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_and_ends_the_command_with_its_code_and_a_word(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with interrupts() as interrupted:
        os.kill(os.getpid(), number)
        assert interrupted.stop.wait(10)
    with pytest.raises(typer.Exit) as ended:
        interrupted.end()
    assert ended.value.exit_code == 128 + number
    assert capsys.readouterr().err == f"stopped by {number.name}, before the end\n"


def test_asking_twice_does_not_wait() -> None:
    with interrupts() as interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupted.stop.wait(10)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_without_a_signal_the_command_goes_on() -> None:
    with interrupts() as interrupted:
        assert not interrupted.stop.is_set()
    interrupted.end()


def test_a_command_that_is_told_to_end_ends_what_it_has_started() -> None:
    ended = list[str]()
    with pytest.raises(SystemExit) as end, ended_by_term():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            ended.append("all")
    assert (end.value.code, ended) == (143, ["all"])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
