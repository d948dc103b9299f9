"""Authorities of a store's own, beside which all others are trusted as before, by whomever in this process."""

from __future__ import annotations

import fcntl
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import certifi
import pytest
from cryptography.hazmat.primitives import serialization
from tests.certificates import self_signed

from distributary.errors import ConfigError
from distributary.ingest.storage import authorities
from distributary.ingest.storage.authorities import authorities_of, bring, keep_trusted, trust
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.object_store import ObjectFiles
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place


@pytest.fixture(autouse=True)
def begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that trusts the system's authorities, and does so again after the test."""
    monkeypatch.setattr(authorities, "_beside", None)
    # Set and then taken away, so that it is as before after the test.
    monkeypatch.setenv("SSL_CERT_FILE", "")
    monkeypatch.delenv("SSL_CERT_FILE")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The certificate of an authority that nobody else knows."""
    _, certificate = self_signed("own")
    path = tmp_path / "own.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return path


def trusted(context: ssl.SSLContext) -> set[bytes]:
    return set(context.get_ca_certs(binary_form=True))


def test_a_registry_is_trusted_as_before_once_a_store_with_an_authority_of_its_own_is_open(own: Path) -> None:
    given = StorageOptions.model_validate({"http": {"ca_file": str(own)}})
    open_files(Place.parse("s3://own-authority/lake"), given)
    (mine,) = trusted(ssl.create_default_context(cafile=str(own)))
    others = trusted(ssl.create_default_context(cafile=certifi.where()))
    now = trusted(ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))
    assert mine in now and len(now & others) > 50


@pytest.mark.parametrize("asked_by", [StorageOptions.for_obstore, StorageOptions.for_delta])
def test_an_authority_that_another_one_took_the_place_of_is_trusted_no_more(
    own: Path, asked_by: Callable[[StorageOptions, Place], object]
) -> None:
    given, place = (
        StorageOptions.model_validate({"http": {"ca_file": str(own)}}),
        Place.parse("s3://own/lake"),
    )
    open_files(place, given)
    (before,) = trusted(ssl.create_default_context(cafile=str(own)))
    _, another = self_signed("another")
    own.write_bytes(another.public_bytes(serialization.Encoding.PEM))
    asked_by(given, place)
    (after,) = trusted(ssl.create_default_context(cafile=str(own)))
    now = trusted(ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))
    assert after in now and before not in now


def test_the_systems_are_those_in_its_folder_where_python_knows_of_no_file(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Debian's images: a company's authority among them would be trusted no more once a store has one of its own."""
    company = tmp_path / "ca-certificates.crt"
    company.write_bytes(self_signed("company")[1].public_bytes(serialization.Encoding.PEM))
    known = ssl.get_default_verify_paths()
    folder = known._replace(cafile="", capath=str(tmp_path))
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: folder)
    given = StorageOptions.model_validate({"http": {"ca_file": str(own)}})
    open_files(Place.parse("s3://own/lake"), given)
    (wanted,) = trusted(ssl.create_default_context(cafile=str(company)))
    assert wanted in trusted(ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))


def test_a_file_of_that_name_where_the_program_was_begun_is_none_of_the_systems(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ca-certificates.crt").write_bytes(own.read_bytes())
    monkeypatch.chdir(tmp_path)
    known = ssl.get_default_verify_paths()._replace(cafile="", capath="")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: known)
    others = trusted(ssl.create_default_context(cafile=certifi.where()))
    assert len(trusted(ssl.create_default_context(cafile=trust(str(own)))) & others) > 50


def test_a_file_that_somebody_tidied_away_is_made_anew(own: Path) -> None:
    """As by a program that knows of no locks, or by the end of the process that this one was forked from."""
    given, place = (
        StorageOptions.model_validate({"http": {"ca_file": str(own)}}),
        Place.parse("s3://own/lake"),
    )
    open_files(place, given)
    shutil.rmtree(Path(os.environ["SSL_CERT_FILE"]).parent)
    given.for_delta(place)
    (mine,) = trusted(ssl.create_default_context(cafile=str(own)))
    assert mine in trusted(ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"]))


def test_a_child_that_is_forked_amid_a_look_at_them_need_not_wait_for_ever(own: Path) -> None:
    program = (
        "import os, signal, sys, threading\n"
        "from distributary.ingest.storage import authorities\n"
        "asked, looks = authorities.authorities_of, threading.Event()\n"
        "def slowly(path):\n"
        "    if authorities._lock.locked() and not looks.is_set():\n"
        "        looks.set()\n"
        "        threading.Event().wait(0.2)\n"
        "    return asked(path)\n"
        "authorities.trust(sys.argv[1])\n"
        "authorities.authorities_of = slowly\n"
        "threading.Thread(target=authorities.keep_trusted, args=(sys.argv[1],)).start()\n"
        "looks.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(5)\n"
        "    authorities.keep_trusted(sys.argv[1])\n"
        "    os._exit(0)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(own)], capture_output=True, text=True, check=True
    ).stdout
    assert said.strip() == "0"


def test_what_the_environment_names_may_be_replaced_as_well(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "named.pem"
    named.write_bytes(self_signed("named")[1].public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    given, place = (
        StorageOptions.model_validate({"http": {"ca_file": str(own)}}),
        Place.parse("s3://own/lake"),
    )
    open_files(place, given)
    named.write_bytes(self_signed("renewed")[1].public_bytes(serialization.Encoding.PEM))
    given.for_delta(place)
    wanted = [trusted(ssl.create_default_context(cafile=str(one))) for one in (named, own)]
    assert trusted(ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])) == set.union(*wanted)


def test_the_file_goes_with_the_process_that_made_it_and_not_with_its_children(own: Path) -> None:
    program = (
        "import os, sys\n"
        "from distributary.ingest.storage.authorities import trust\n"
        "path = trust(sys.argv[1])\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "print(os.path.exists(path), path)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, str(own)], capture_output=True, text=True, check=True
    ).stdout
    there, path = said.split(maxsplit=1)
    assert there == "True"
    assert not Path(path.strip()).exists()


def test_the_file_of_a_process_that_was_killed_goes_with_the_next_one_and_nobody_tidies_up_a_living_one_s(
    own: Path, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "from distributary.ingest.storage.authorities import trust\n"
        "print(trust(sys.argv[1]), flush=True)\n"
        "sys.stdin.read()\n"
    )
    (temporary := tmp_path / "temporary").mkdir()
    left: list[Path] = []
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(own)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        ) as process:
            assert process.stdout is not None
            left.append(Path(process.stdout.readline().strip()))
            assert is_passed_by(left[-1].parent)
            process.kill()
    assert [path.is_file() for path in left] == [False, True]
    assert [*temporary.iterdir()] == [left[-1].parent]


def is_passed_by(folder: Path) -> bool:
    """Whether systemd-tmpfiles leaves a folder alone, however old it is: https://www.freedesktop.org/software/systemd/man/latest/tmpfiles.d.html"""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def test_authorities_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"storage\.http\.ca_file: .* cannot be read"):
        trust(str(tmp_path / "none.pem"))


def test_authorities_are_those_in_the_file_now_and_the_last_whole_ones_while_it_is_replaced(
    own: Path,
) -> None:
    before, path = authorities_of(str(own)), Path(trust(str(own)))
    bring(str(own), b"those of another machine")
    own.write_bytes(before[:-20])
    assert authorities_of(str(own)) == before
    own.unlink()
    assert authorities_of(str(own)) == before
    _, another = self_signed("another")
    own.write_bytes(now := another.public_bytes(serialization.Encoding.PEM))
    assert authorities_of(str(own)) == now
    # delta-rs is given the same path as before.
    keep_trusted(str(own))
    assert path.read_bytes().endswith(now)


def test_a_file_that_was_away_for_a_moment_is_looked_at_again(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes its place may come between two looks at it."""
    before = own.read_bytes()
    with monkeypatch.context() as away:
        away.setattr(authorities, "tag_of", lambda _: None)
        assert authorities_of(str(own)) == before
    own.write_bytes(now := before * 2)
    assert authorities_of(str(own)) == now
    with monkeypatch.context() as away:
        away.setattr(authorities, "tag_of", lambda _: None)
        own.write_bytes(before * 3)
        assert authorities_of(str(own)) == now
    assert authorities_of(str(own)) == before * 3


def test_on_another_machine_those_count_that_came_last(tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.pem")
    bring(absent, b"first")
    bring(absent, b"second")
    assert authorities_of(absent) == b"second"


def test_a_client_is_made_anew_once_the_key_that_it_had_read_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected: list[str] = []
    key = tmp_path / "key.json"

    def noted(place: Place, given: StorageOptions) -> str:
        if not key.is_file():
            raise ConfigError("there is no key")
        connected.append(key.read_text())
        return connected[-1]

    monkeypatch.setattr(ObjectFiles, "connected", staticmethod(noted))
    key.write_text("one")
    given = StorageOptions.model_validate({"gcs": {"service_account_file": str(key)}})
    files = [open_files(Place.parse("gs://replaced-key/lake"), given).below(name) for name in ("a", "b")]
    key.unlink()
    assert {client_of(one) for one in files} == {"one"}
    key.write_text("another")
    assert {client_of(one) for one in files} == {"another"}
    assert connected == ["one", "another"]


def client_of(files: Files) -> object:
    assert isinstance(files, ObjectFiles)
    return files._client
