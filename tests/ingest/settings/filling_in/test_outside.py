"""What is filled in from files and commands, and what is told where there is nothing."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.filling_in import outside
from distributary.ingest.settings.filling_in.outside import NOT_ASKED, Outside, fill_in
from distributary.ingest.settings.model import Settings, load, load_with_places

TEXT = """\
name: games
source:
  kafka: {bootstrap.servers: "127.0.0.1:9092"}
  topics: [game-events]
registry:
  url: "http://127.0.0.1:8081"
  user: ann
  password: PASSWORD
route: {by: field, field: game_name}
sink: {root: ./lake}
"""


def settings_file(folder: Path, password: str, text: str = TEXT) -> Path:
    file = folder / "games.yaml"
    file.write_text(text.replace("PASSWORD", json.dumps(password)), encoding="utf-8")
    return file


def script(folder: Path, *lines: str) -> str:
    """A program beside the settings file, by its relative path."""
    path = folder / "secret"
    path.write_text("\n".join([f"#!{sys.executable}", *lines]), encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return "./secret"


def password_of(settings: Settings) -> str | None:
    return settings.registry.password


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_file_gives_its_text_without_the_end_of_its_line(tmp_path: Path, end: str) -> None:
    (tmp_path / "password").write_bytes(f" hush {end}".encode())
    settings = load(settings_file(tmp_path, "${file:password}"), {})
    assert password_of(settings) == " hush "
    assert "hush" not in repr(settings) + json.dumps(settings.effective())


def test_a_file_may_be_anywhere_and_a_part_of_a_value(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n", encoding="utf-8")
    text, kinds = fill_in(f"a${{file:{tmp_path}/token}}b", Outside({}, Path("/")), pytest.fail)
    assert (text, kinds) == ("aabcb", frozenset({"file"}))


def test_a_missing_file_has_a_default_and_a_variable_called_file_stays_one(tmp_path: Path) -> None:
    asked = Outside({"file": "variable"}, tmp_path)
    assert fill_in("${file:none:-x}", asked, pytest.fail)[0] == "x"
    assert fill_in("${file:-x} ${file}", asked, pytest.fail)[0] == "variable variable"
    assert fill_in("$${file:none}", asked, pytest.fail)[0] == "${file:none}"


def test_a_file_that_gives_nothing_is_told_at_its_line_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"games\.yaml:8:3: registry\.password: there is no file .*/none; mount it"
    ):
        load(settings_file(tmp_path, "${file:none}"), {})
    with pytest.raises(ConfigError, match=r"8:3: .* cannot be read: Is a directory; let the user"):
        load(settings_file(tmp_path, f"${{file:{tmp_path}}}"), {})
    with pytest.raises(ConfigError, match=r"8:3: .*names no file; write"):
        load(settings_file(tmp_path, "${file:}"), {})
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"8:3: .* is not UTF-8 text; encode it"):
        load(settings_file(tmp_path, "${file:bytes}"), {})
    with pytest.raises(ConfigError, match=r"8:3: .* is longer than 1 MiB"):
        load(settings_file(tmp_path, "${file:/dev/zero}"), {})


def test_a_command_gives_what_it_writes_and_is_run_once(tmp_path: Path) -> None:
    program = script(tmp_path, "import sys; open('runs', 'a').write('.'); print(sys.argv[1])")
    said = f"${{command:{program} 'hush hush'}}"
    settings = load(settings_file(tmp_path, said), {})
    assert password_of(settings) == "hush hush"
    asked = Outside({}, tmp_path)
    assert fill_in(said * 2, asked, pytest.fail) == ("hush hush" * 2, frozenset({"command"}))
    assert (tmp_path / "runs").read_text(encoding="utf-8") == ".."


def test_no_shell_reads_a_command(tmp_path: Path) -> None:
    program = script(tmp_path, "import sys; print(sys.argv[1:])")
    asked = Outside({"HOME": "x"}, tmp_path)
    assert (
        fill_in(f"${{command:{program} $HOME ; rm *}}", asked, pytest.fail)[0] == "['$HOME', ';', 'rm', '*']"
    )


def test_a_command_that_fails_is_told_without_what_it_says(tmp_path: Path) -> None:
    program = script(tmp_path, "import sys; print('hush'); sys.exit('it was hush')")
    with pytest.raises(ConfigError) as failed:
        load(settings_file(tmp_path, f"${{command:{program} hush}}"), {})
    assert "8:3: registry.password: the command ./secret ended with exit code 1; run it by hand" in str(
        failed.value
    )
    assert "hush" not in str(failed.value)
    with pytest.raises(ConfigError, match="the command no-such-program cannot be run: No such file"):
        load(settings_file(tmp_path, "${command:no-such-program}"), {})
    with pytest.raises(ConfigError, match="names no command; write"):
        load(settings_file(tmp_path, "${command: }"), {})
    with pytest.raises(ConfigError, match="a quote is not closed"):
        load(settings_file(tmp_path, "${command:echo 'x}"), {})


def test_a_command_that_never_ends_is_ended_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outside, "COMMAND_SECONDS", 1.0)
    with pytest.raises(ConfigError, match="the command sh took more than 1 seconds, and was ended"):
        load(settings_file(tmp_path, "${command:sh -c 'sleep 600 & sleep 600'}"), {})


def test_a_command_that_writes_without_end_is_ended_once_that_is_no_secret(tmp_path: Path) -> None:
    program = script(tmp_path, "import os", "while True: os.write(1, bytes(2**16))")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigError, match=r"8:3: .*what the command \./secret writes is longer than 1 MiB"):
        load(settings_file(tmp_path, f"${{command:{program}}}"), {})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_a_pipe_is_read_as_a_file_and_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["sh", "-c", "echo hush > pipe"], cwd=tmp_path):
        assert password_of(load(settings_file(tmp_path, "${file:pipe}"), {})) == "hush"
    monkeypatch.setattr(outside, "COMMAND_SECONDS", 0.1)
    with pytest.raises(ConfigError, match=r"8:3: .*pipe is a pipe or a terminal, and had no end after 0\.1"):
        load(settings_file(tmp_path, "${file:pipe}"), {})


@pytest.mark.skipif(sys.platform != "linux", reason="no other system has leases")
def test_a_file_is_waited_for_that_somebody_has_a_lease_of(tmp_path: Path) -> None:
    """As a server of files has on behalf of a client, who is to write back first what he has not yet."""
    (tmp_path / "token").write_text("")
    with (tmp_path / "token").open("w", encoding="utf-8") as held:

        def give_up(*_: object) -> None:
            held.write("hush")
            held.flush()
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)

        before = signal.signal(signal.SIGIO, give_up)
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            assert password_of(load(settings_file(tmp_path, "${file:token}"), {})) == "hush"
        finally:
            signal.signal(signal.SIGIO, before)


def test_no_command_is_run_by_who_only_looks(tmp_path: Path) -> None:
    program = script(tmp_path, "open('ran', 'w')")
    settings, _ = load_with_places(settings_file(tmp_path, f"${{command:{program}}}"), {}, asks=False)
    assert password_of(settings) == NOT_ASKED
    assert not (tmp_path / "ran").exists()


def test_any_secret_may_be_one_that_is_not_asked_for(tmp_path: Path) -> None:
    text = TEXT.replace("kafka: {", "kafka: {sasl.jaas.config: '${command:echo a}', ")
    text += "tables: [{match: '*', columns: {hash: {fields: [a], secret: '${command:echo b}'}}}]\n"
    settings, _ = load_with_places(settings_file(tmp_path, "${command:echo c}", text), {}, asks=False)
    assert password_of(settings) == NOT_ASKED


def test_a_command_gives_nothing_but_secrets(tmp_path: Path) -> None:
    text = TEXT.replace("./lake", '"${command:echo lake}"')
    with pytest.raises(ConfigError, match=r"10:8: sink\.root: a command gives a secret, .* and this is none"):
        load(settings_file(tmp_path, "${P}", text), {"P": "x"})


def test_secrets_of_kafkas_client_come_from_files_and_commands(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("hush\n", encoding="utf-8")
    jaas = 'sasl.jaas.config: \'X required username="a" password="${file:p}";\''
    text = TEXT.replace("kafka: {", f"kafka: {{{jaas}, ssl.key.password: '${{command:echo hush}}', ")
    settings = load(settings_file(tmp_path, "${file:p}", text), {})
    assert 'password="hush"' in settings.source.kafka["sasl.jaas.config"]
    assert settings.source.kafka["ssl.key.password"] == "hush"
    assert "hush" not in json.dumps(settings.effective())


def test_files_of_a_text_are_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("hush", encoding="utf-8")
    settings = Settings.from_yaml(TEXT.replace("PASSWORD", '"${file:p}"'), tmp_path)
    assert password_of(settings) == "hush"


HUSH = "correct-horse-battery"


@pytest.mark.parametrize(
    ("misplaced", "said"),
    [
        ("decode: {format: SECRET}", "decode.format: no codec is called 'SAID'"),
        ("route: {by: field, field: game_name, table: SECRET}", "route.table: "),
        ("route: {by: SECRET}", "route.by: "),
        ("sink: {root: SECRET://x}", "sink.root: "),
        ("name: SECRET!", "name: "),
        ("derive: [{table: SECRET, sql: SELECT 1, inputs: [x]}]", "derive[0]"),
        ("policies: {evolution: SECRET}", "policies.evolution: "),
    ],
)
@pytest.mark.parametrize("kind", ["${file:hush}", "${HUSH}"])
def test_a_secret_in_another_ones_place_is_never_quoted(
    tmp_path: Path, misplaced: str, said: str, kind: str
) -> None:
    (tmp_path / "hush").write_text(f"{HUSH}\n")
    key = misplaced.partition(":")[0]
    kept = "\n".join(line for line in TEXT.splitlines() if not line.startswith(f"{key}:"))
    written = misplaced.replace("SECRET", json.dumps(kind)) if "SECRET" in misplaced else misplaced
    for tail in ("://x", "!"):
        written = written.replace(f'"{tail}', f'{tail}"')
    file = settings_file(tmp_path, "x", f"{kept}\n{written}\n".replace("PASSWORD", '"${OTHER}"'))
    with pytest.raises(ConfigError) as refused:
        load(file, {"HUSH": HUSH, "OTHER": "x"})
    assert said.replace("SAID", kind) in str(refused.value)
    assert not [HUSH[at : at + 6] for at in range(len(HUSH) - 5) if HUSH[at : at + 6] in str(refused.value)]


@pytest.mark.parametrize("kind", ["${file:hush}", "${HUSH}"])
def test_what_stands_in_braces_within_a_secret_is_not_quoted_either(tmp_path: Path, kind: str) -> None:
    (tmp_path / "hush").write_text("a{battery}b")
    text = TEXT.replace("route: {by: field, field: game_name}", f"route: {{field: x, table: '{kind}'}}")
    with pytest.raises(ConfigError, match="what is in its braces stands for nothing") as refused:
        load(settings_file(tmp_path, "x", text.replace("PASSWORD", '"${HUSH}"')), {"HUSH": "a{battery}b"})
    assert "battery" not in str(refused.value)


def test_a_value_that_is_no_secret_is_told_by_where_it_came_from(tmp_path: Path) -> None:
    text = TEXT + "decode: {format: '${FORMAT:-prot}'}\n"
    file = settings_file(tmp_path, "${PASSWORD}", text)
    with pytest.raises(ConfigError, match="no codec is called 'prot'; there are"):
        load(file, {"PASSWORD": "x"})
    with pytest.raises(ConfigError, match=r"no codec is called '\$\{FORMAT:-prot\}'; there are: auto"):
        load(file, {"PASSWORD": "x", "FORMAT": "protobuff"})


def test_a_sinks_secrets_are_not_shown_and_come_from_outside(tmp_path: Path) -> None:
    sink = (
        "derive: [{table: gold, inputs: [quarantine], sql: TABLE quarantine, sink: {kafka: {topic: t, keys: [a], "
        "kafka: {sasl.jaas.config: JAAS}}}}]\n"
    )
    login = f'PlainLoginModule required username="me" password="{HUSH}";'
    text = (
        (TEXT + sink)
        .replace("PASSWORD", "'${HUSH}'")
        .replace("field: game_name", "field: g, table: 's_{entity}'")
    )
    settings = load(
        settings_file(tmp_path, "x", text.replace("JAAS", "'${JAAS}'")), {"HUSH": HUSH, "JAAS": login}
    )
    assert HUSH not in repr(settings) + json.dumps(settings.effective())
    given = settings.derive[0].sink
    assert given is not None
    assert given.kafka is not None
    assert given.kafka.kafka["sasl.jaas.config"] == login
    with pytest.raises(ConfigError, match="secrets come from the environment"):
        load(settings_file(tmp_path, "x", text.replace("JAAS", f"'{login}'")), {"HUSH": HUSH})
