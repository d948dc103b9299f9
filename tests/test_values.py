"""Values as users write them: sizes, durations, paths and secrets, and what is wrong with them in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BeforeValidator, Field, ValidationError

from distributary.values import (
    MASK,
    Bytes,
    Folder,
    Group,
    OptionalFile,
    Seconds,
    Secret,
    WholeSeconds,
    Wrong,
    WrongValues,
    bytes_of,
    dotted,
    seconds_of,
    table_folder_of,
    without_logins,
    wrong_by,
)


class Counted(Group):
    """Settings that are numbers, and such that may be something else."""

    days: Annotated[float, Field(ge=1)] | None = None
    count: int = 1
    wait: Seconds | None = None
    size: Bytes = 1
    kept: bool | float = False
    sure: bool = False


SECRET = "hunter2-or-so"  # noqa: S105


class Chosen(Group):
    """Settings with a value of each kind."""

    size: Bytes = 1
    wait: Seconds = 0.0
    window: WholeSeconds = 1
    folder: Folder = Path("/")
    tables: Annotated[Path, BeforeValidator(table_folder_of)] = Path("/lake")
    file: OptionalFile = None
    password: Secret = None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("192 MiB", 201326592), ("1kB", 1000), (" 2 gib ", 2**31), ("1.5 GB", 1_500_000_000), ("2 TiB", 2**41), ("17", "17"), (17, 17)],
)  # fmt: skip
def test_sizes(text: object, expected: object) -> None:
    assert bytes_of(text) == expected


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("name", ["days", "count", "wait", "size"])
def test_yes_is_no_number(name: str, said: bool) -> None:
    with pytest.raises(ValidationError) as raised:
        Counted.model_validate({name: said})
    (error,) = raised.value.errors()
    assert wrong_by(error) == (
        ((), "it is true or false, as YAML reads yes, no, on and off; write a number"),
    )
    assert Counted.model_validate({"kept": said, "sure": said}) == Counted(kept=said, sure=said)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("10 s", 10.0), ("250ms", 0.25), ("1.5 min", 90.0), ("2 h", 7200.0), ("10", "10"), (3, 3)],
)
def test_durations(text: object, expected: object) -> None:
    assert seconds_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1.1 h", 3960), ("2.2 min", 132), ("4000 ms", 4), (60.0, 60)]
)
def test_a_duration_is_of_whole_seconds_where_what_is_written_is(text: object, expected: int) -> None:
    """As doubles 1.1 h are 3960.0000000000005 s, and were refused as no whole number."""
    assert Chosen.model_validate({"window": text}).window == expected


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"size": "5 parsecs"}, "no size has the unit 'parsecs'; write a number of bytes, or for example 192 MiB"),
        ({"size": "1,5 GiB"}, "write a whole number"),
        ({"size": "10 MiB or so"}, "write a whole number"),
        ({"size": "0 MiB"}, "write a number of at least 1"),
        ({"wait": "5 years"}, "no duration has the unit 'years'; write a number of seconds, or for example 10 s"),
        ({"wait": -1}, "write a number of at least 0"),
        ({"wait": 1e14}, "write a number of at most 3153600000"),
        ({"window": "90.5 s"}, "it is no whole number of seconds; write one, or for example 1 h"),
        ({"window": 1.5}, "it is no whole number of seconds; write one, or for example 1 h"),
        ({"window": "0 s"}, "write a number of at least 1"),
        ({"folder": "s3://bucket"}, "s3:// is not supported"),
        ({"folder": "50%"}, "delta-rs takes % in a path"),
        ({"folder": Path("s3://bucket/lake")}, "s3:// is not supported"),
        ({"folder": Path("/lake/50%")}, "delta-rs takes % in a path"),
        ({"folder": Path("a\0b")}, "NUL character; write a folder, for example ./lake"),
        ({"file": Path("a\0b")}, "NUL character; write a file, for example ./ca.pem"),
        ({"file": ""}, "it is empty or holds a NUL character; write a file, for example ./ca.pem"),
        ({"file": 5}, "it must be a path; write a file"),
        ({"password": MASK}, "is only shown in place of a secret; write the secret itself"),
        ({"other": 5}, "no setting is called so; remove it"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_told_with_its_remedy(given: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Chosen.model_validate(given)
    (error,) = caught.value.errors()
    ((keys, message),) = wrong_by(error)
    assert (keys, told in message) == ((), True), message


def test_a_path_may_be_relative_to_the_settings_and_only_a_folder_of_tables_minds_a_percent_sign(
    tmp_path: Path,
) -> None:
    chosen = Chosen.model_validate({"folder": "lake", "file": "50%.pem"}, context={"folder": tmp_path})
    assert (chosen.folder, chosen.file) == (tmp_path / "lake", str(tmp_path / "50%.pem"))


def test_no_folder_of_tables_is_in_one_with_a_percent_sign_and_any_other_may_be() -> None:
    within = {"folder": Path("/lake/50%off")}
    with pytest.raises(ValidationError, match="it is /lake/50%off/lake, and delta-rs takes % for"):
        Chosen.model_validate({"tables": "lake"}, context=within)
    for name in ("back\\slash", "two\nlines"):
        with pytest.raises(ValidationError, match="delta-rs finds no table by a path with a backslash"):
            Chosen.model_validate({"tables": f"/lake/{name}"})
    assert (
        Chosen.model_validate({"folder": "checkpoint"}, context=within).folder
        == within["folder"] / "checkpoint"
    )


def test_what_cannot_be_set_is_named_without_the_value() -> None:
    chosen: Any = Chosen()
    with pytest.raises(ValidationError, match="password\n  Instance is frozen") as caught:
        chosen.password = SECRET
    assert SECRET not in f"{caught.value} {caught.value.errors()}"
    assert chosen.password is None


def test_a_secret_is_never_shown() -> None:
    chosen = Chosen(password=SECRET)
    shown = [repr(chosen), str(chosen), str(chosen.model_dump()), chosen.model_dump_json()]
    assert (chosen.password, [text for text in shown if SECRET in text]) == (SECRET, [])


def test_an_empty_text_is_nothing_in_a_file_and_a_text_in_python() -> None:
    assert Chosen.model_validate({"password": ""}, context={}).password is None
    assert Chosen(password="").password == ""


class Span(Group):
    """Two values that need each other."""

    first: int = 0
    last: int = 0

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.first > self.last:
            yield ("last",), "it is before the first"
        if self.first < 0:
            yield ("first",), "it is below nought"


def test_all_that_does_not_go_together_is_told_at_once() -> None:
    assert Span(first=1, last=2).last == 2
    with pytest.raises(ValidationError) as caught:
        Span(first=-1, last=-2)
    told = [wrong for error in caught.value.errors() for wrong in wrong_by(error)]
    assert told == [(("last",), "it is before the first"), (("first",), "it is below nought")]


def test_keys_are_told_as_users_write_them() -> None:
    assert dotted(("source", "topics", 0)) == "source.topics[0]"
    assert str(WrongValues((("a", "b"), "one"), ((), "two"))) == "a.b: one; two"


@pytest.mark.parametrize(
    ("quoted", "shown"),
    [
        ("rejected Basic bWU6cGxhbnRlZC1zZWNyZXQveCsx}", f"rejected Basic {MASK}}}"),
        ("HTTP 401 basic bWU6UExBTlRFRC1zZWNyZXQvMQ== ...", f"HTTP 401 basic {MASK} ..."),
        ("Authorization: Bearer eyJhbGciOi.J9-x_y", f"Authorization: Bearer {MASK}"),
        ("Basic authentication is required", "Basic authentication is required"),
        ("a bearer token is required", "a bearer token is required"),
        ("code 400 for URL: http://a:1/token?key=planted", f"code 400 for URL: http://a:1/token?{MASK}"),
        ("https://me:planted@a/t?x=planted#y: refused", f"https://{MASK}@a/t?{MASK}: refused"),
        ("(see http://me:pl@nted@a:1/t).", f"(see http://{MASK}@a:1/t)."),
        ("in '//a' of \"socks5h://me:p?d@a:1\"", f"in '//a' of \"socks5h://{MASK}@a:1\""),
        ("GET http://a/b/c?sig=planted%2B, twice", f"GET http://a/b/c?{MASK}, twice"),
        ("is http://a:1/b? No, http://a:1/b/c.", "is http://a:1/b? No, http://a:1/b/c."),
        ("abfss://container@account/path", "abfss://container@account/path"),
        ("<Token-0>planted/+==</Token-0><HostId>h", f"<Token-0>{MASK}</Token-0><HostId>h"),
        ("host:a\nx-amz-security-token:planted/+==\n\nhost", f"host:a\nx-amz-security-token:{MASK}\n\nhost"),
    ],
)
def test_a_login_that_a_server_quotes_is_masked(quoted: str, shown: str) -> None:
    assert without_logins(quoted) == shown
