"""What is no time, no offset, no partition and no number of days is a sentence, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary import cli

SETTINGS = """
name: games
source: {kafka: {bootstrap.servers: "127.0.0.1:1"}, topics: [t]}
registry: {url: "http://127.0.0.1:1"}
route: {field: game}
sink: {root: ./lake}
bronze: {}
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quarantine", "list", "--since", "yesterday"], "--since yesterday: that is no time"),
        (["quarantine", "list", "--since", "0001-01-01T00:00+14:00"], "that is no time"),
        (["quarantine", "purge", "--until", "9999-12-31T23:59-10:00"], "that is no time"),
        (
            ["quarantine", "show", "--partition", "99999999999"],
            "'--partition': Input should be less than or equal to 2147483647",
        ),
        (
            ["quarantine", "show", "--offset", "9223372036854775808"],
            "'--offset': Input should be less than or equal to 9223372036854775807",
        ),
        (["quarantine", "purge", "--older-than", "nan"], "'--older-than': Input should be"),
        (["quarantine", "purge", "--older-than", "800000"], "in days, such as 30"),
        (
            ["replay", "--dry-run", "--partition", "-1"],
            "'--partition': Input should be greater than or equal to 0",
        ),
        (["replay", "--dry-run", "--offsets", "0:9223372036854775808"], "those are no offsets"),
        (["replay", "--dry-run", "--offsets", "-5:7"], "those are no offsets"),
        (["infer", "--refresh", "--grow"], "--refresh and --grow exclude each other"),
    ],
)
def test_what_is_none_is_told(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "games.yaml"
    file.write_text(SETTINGS, encoding="utf-8")
    asked = 2 if words[0] == "quarantine" else 1
    with pytest.raises(SystemExit) as ended:
        cli.main([*words[:asked], str(file), *words[asked:]])
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())
