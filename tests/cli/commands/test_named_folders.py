"""What commands say of a folder or a file that they are to write to and cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary import cli


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["package", "--folder", "file"],
            "error: nothing can be packed into file: File exists: file; name another --folder\n",
        ),
        (
            ["package", "--folder", "file/below"],
            "error: nothing can be packed into file/below: Not a directory: file/below; name another --folder\n",
        ),
        (
            ["package", "--folder", "taken"],
            "error: nothing can be packed into taken: Is a directory: taken/distributary_cli.py; name another --folder\n",
        ),
        (
            ["demo", "--folder", "file/below"],
            "error: file/below cannot be used (Not a directory); name another --folder\n",
        ),
    ],
)
def test_a_folder_that_cannot_be_written_to_is_told_with_what_to_do(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("distributary.packing.distributions.needed", lambda _: [])
    (tmp_path / "file").touch()
    (tmp_path / "taken" / "distributary_cli.py").mkdir(parents=True)
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err == said


def test_no_stack_runs_in_what_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as ended:
        cli.main(["stack", "status", "--folder", str(tmp_path / "file")])
    assert ended.value.code == 0
    assert "Kafka broker: does not run" in capsys.readouterr().out
