"""What a settings file is filled in from: variables of the environment, files, and what commands write."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from time import monotonic
from typing import Literal, TypeAlias

from distributary.values import MASK

Kind: TypeAlias = Literal["variable", "file", "command"]

NOT_ASKED = "(a secret, not asked for)"
"""What stands for a command's answer where commands are not run; long enough for any secret that has to be long."""

COMMAND_SECONDS = 30.0
"""How long a command may take, and a pipe that nobody writes to."""

# Shorter ones are no secrets.
_SHORTEST = 3

# As many characters beside each other as no message shows of a secret; of a long one, so many are looked at.
_PART, _MOST_TOLD = 6, 10_000

# No secret is so long, and a device has no end.
_MOST_BYTES = 2**20

_FILLED_IN = re.compile(
    r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}"
    r"|\$\{(?P<kind>file|command):(?P<what>[^}]*)\}|(?P<broken>\$\{)"
)


class _Lacking(Exception):
    """What stands in braces has no value; the text is the sentence that says why, and what to do."""


class _Endless(Exception):
    """What is read did not end in time."""


@dataclass(frozen=True, slots=True)
class FilledIn:
    """What came from outside.

    said   as the settings say it, such as `${file:token}`
    value  what it was, which may be a secret
    """

    kind: Kind
    said: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outside:
    """What there is to fill in.

    variables  the environment
    folder     what relative paths are relative to, those of files and of a command's program
    asks       whether commands are run
    answers    what commands wrote, each of which is run once
    filled     what was filled in so far
    """

    variables: Mapping[str, str]
    folder: Path
    asks: bool = True
    answers: dict[str, str] = field(default_factory=dict, repr=False)
    filled: list[FilledIn] = field(default_factory=list, repr=False)

    def value(self, found: re.Match[str]) -> tuple[Kind, str]:
        """What stands for one `${…}`. Raises _Lacking."""
        kind, value = self._value(found)
        self.filled.append(FilledIn(kind, found[0], value))
        return kind, value

    def _value(self, found: re.Match[str]) -> tuple[Kind, str]:
        if found["name"]:
            return "variable", self._variable(found["name"], found["default"])
        if found["kind"] == "file":
            return "file", self._file(found["what"])
        return "command", self._command(found["what"])

    def _variable(self, name: str, default: str | None) -> str:
        value = self.variables.get(name, default)
        if value is None:
            raise _Lacking(
                f"the environment has no variable {name}; export it, or write ${{{name}:-default}}"
            )
        return value

    def _file(self, what: str) -> str:
        name, has_default, default = what.partition(":-")
        if not name.strip():
            raise _Lacking("`${file:}` names no file; write ${file:/run/secrets/password}")
        path = self.folder / os.path.expanduser(name.strip())
        try:
            data = _file_bytes(path)
        except FileNotFoundError:
            if has_default:
                return default
            raise _Lacking(
                f"there is no file {path}; mount it there, or write ${{file:{name}:-default}}"
            ) from None
        except _Endless:
            raise _Lacking(
                f"the file {path} is a pipe or a terminal, and had no end after {COMMAND_SECONDS:g} seconds; name a file, or have something write to it and close it"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no path"
            raise _Lacking(
                f"the file {path} cannot be read: {why}; let the user of this process read it"
            ) from None
        return _text(data, f"the file {path}")

    def _command(self, what: str) -> str:
        if not self.asks:
            return NOT_ASKED
        if what not in self.answers:
            self.answers[what] = self._answer(what)
        return self.answers[what]

    def _answer(self, what: str) -> str:
        try:
            words = shlex.split(what)
        except ValueError:
            raise _Lacking(
                "a quote is not closed in the command; no shell reads it, but quotes and backslashes are as in one"
            ) from None
        if not words:
            raise _Lacking("`${command:}` names no command; write ${command:pass show kafka}")
        said = f"the command {words[0]}"
        try:
            code, data = _run(words, self.folder)
        except (_Endless, subprocess.TimeoutExpired):
            raise _Lacking(
                f"{said} took more than {COMMAND_SECONDS:g} seconds, and was ended; it must not ask anybody for anything"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it holds a character that none may"
            raise _Lacking(
                f"{said} cannot be run: {why}; install it, or write its whole path (relative paths are to the settings file's folder)"
            ) from None
        if code:
            # What it says of that is not shown: it may quote what it was asked for.
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise _Lacking(f"{said} {how}; run it by hand to see why")
        return _text(data, f"what {said} writes")


def _file_bytes(path: Path) -> bytes:
    """What a file has, as much of it as may be a secret. Raises _Endless for a pipe that nobody closes."""
    # To open a pipe waits for somebody who writes to it; and a file is refused for a moment that somebody else has a lease of.
    opened = os.open(path, os.O_RDONLY | (0 if path.is_file() else os.O_NONBLOCK))
    try:
        return _all_of(opened, monotonic() + COMMAND_SECONDS)
    finally:
        os.close(opened)


def _run(words: Sequence[str], folder: Path) -> tuple[int, bytes]:
    """A command's exit code and what it wrote; without a shell, without input, its messages unseen."""
    until = monotonic() + COMMAND_SECONDS
    with subprocess.Popen(
        words,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    ) as process:
        try:
            data = _all_of(process.stdout.fileno(), until)  # type: ignore[union-attr]  # a pipe, as said above
            if len(data) > _MOST_BYTES:
                # It may have more to write than anybody reads.
                _end(process)
                return 0, data
            process.wait(max(0.0, until - monotonic()))
        except BaseException:
            _end(process)
            raise
        return process.returncode, data


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children, who would keep what it writes to open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _all_of(opened: int, until: float) -> bytes:
    """What there is to read until it ends, or is too long. Raises _Endless once that time is over."""
    data = bytearray()
    with selectors.PollSelector() as selector:
        selector.register(opened, selectors.EVENT_READ)
        while len(data) <= _MOST_BYTES:
            if not selector.select(max(0.0, until - monotonic())):
                raise _Endless
            piece = os.read(opened, _MOST_BYTES + 1 - len(data))
            if not piece:
                break
            data += piece
    return bytes(data)


def _text(data: bytes, what: str) -> str:
    """A secret without the line's end that editors and programs put behind it. Raises _Lacking."""
    if len(data) > _MOST_BYTES:
        raise _Lacking(f"{what} is longer than 1 MiB; that is no value of a setting")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _Lacking(f"{what} is not UTF-8 text; encode it, as base64 for example") from None
    return text.removesuffix("\n").removesuffix("\r")


def as_said(message: str, filled: Iterable[FilledIn]) -> str:
    """A message that may quote what was filled in, with what the settings say in its place; and no larger part of what files and commands gave."""
    for one in sorted(filled, key=lambda one: len(one.value), reverse=True):
        # What stands in the file itself is none, and what is this short is a word of any message.
        if len(one.value) < _SHORTEST or one.value in one.said:
            continue
        for quoted in (one.value, repr(one.value)[1:-1]):
            message = message.replace(quoted, one.said)
        if one.kind != "variable":
            message = one.said.join(_without_parts(part, one.value) for part in message.split(one.said))
    return message


def _without_parts(message: str, value: str) -> str:
    """A message with a mask in the place of what a value has, too."""
    known = {value[at : at + _PART] for at in range(min(len(value), _MOST_TOLD) - _PART + 1)}
    hidden = [False] * len(message)
    for at in range(len(message) - _PART + 1):
        if message[at : at + _PART] in known:
            hidden[at : at + _PART] = [True] * _PART
    pieces = groupby(zip(hidden, message, strict=True), key=itemgetter(0))
    return "".join(MASK if is_hidden else "".join(one for _, one in piece) for is_hidden, piece in pieces)


def fill_in(text: str, outside: Outside, complain: Callable[[str], None]) -> tuple[str, frozenset[Kind]]:
    """The text with each `${VAR}`, `${file:PATH}` and `${command:…}` filled in, and which of them it had; `$${` stands for `${`.

    Behind a variable or a file may stand what to take where it is not there: `${VAR:-default}`.
    """
    kinds = set[Kind]()

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        if match["broken"]:
            complain(
                "`${` does not begin a variable; write ${NAME} or ${NAME:-default}, or $${ for the text ${"
            )
            return match[0]
        try:
            kind, value = outside.value(match)
        except _Lacking as lacking:
            complain(str(lacking))
            return match[0]
        kinds.add(kind)
        return value

    return _FILLED_IN.sub(replacement, text), frozenset(kinds)
