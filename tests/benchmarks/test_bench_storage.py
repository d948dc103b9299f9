"""What the benchmark of a store makes of its measurements, and the store that is far away."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from benchmarks.bench_storage import BOUNDS, ratios_of
from benchmarks.storage.costs import Latency
from benchmarks.storage.distance import distance
from benchmarks.storage.requests import Requests, of_batch
from tests.ingest.storage.stores import s3

from distributary.ingest.storage.clients import sent
from distributary.ingest.storage.contract import Files

ROOT = Path(__file__).resolve().parents[2]

LAKE = "/lake/latency-1/lake"

BATCH = f"""\
PUT {LAKE}/chess/a.parquet
HEAD {LAKE}/chess/_delta_log/00000000000000000003.json
PUT {LAKE}/chess/_delta_log/00000000000000000004.json
POST {LAKE}/go/b.parquet?uploads
PUT {LAKE}/go/b.parquet?partNumber=1&uploadId=x
POST {LAKE}/go/b.parquet?uploadId=x
HEAD {LAKE}/go/_delta_log/00000000000000000024.json
PUT {LAKE}/go/_delta_log/00000000000000000025.json
GET /lake?list-type=2&prefix=latency-1%2Flake%2Fgo%2F_delta_log%2F
GET {LAKE}/go/_delta_log/00000000000000000024.json
PUT {LAKE}/go/_delta_log/00000000000000000025.checkpoint.parquet
PUT {LAKE}/go/_delta_log/_last_checkpoint
GET /lake?list-type=2&prefix=latency-1%2Flake&delimiter=%2F
GET /lake/latency-1/checkpoint/lease/holder.json
"""


def test_requests_are_those_of_tables_their_checkpoints_and_what_is_beside() -> None:
    found = of_batch(BATCH.splitlines(), LAKE)
    assert found == Requests(tables=2, data_files=4, checkpoints=1, at_those=6, at_others=2, beside=1)
    assert found.a_table == 2
    assert found.checkpoints_a_table == (6 - 2) / 2
    assert found + found == Requests(4, 8, 2, 12, 4, 2)


def test_a_checkpoint_of_a_log_that_is_not_there_yet_is_no_matter_of_a_tables_batch() -> None:
    begun = [line for line in BATCH.splitlines() if "checkpoint.parquet" not in line and "PUT" in line]
    begun.append(f"GET {LAKE}/chess/_delta_log/_last_checkpoint")
    assert of_batch(begun, LAKE).checkpoints == 2


def test_figures_are_by_medians() -> None:
    few = Latency(10, (0.2, 0.3, 9.0), (0.5, 0.7, 0.8), Requests(22, 20, 0, 0, 88, 0))
    many = Latency(1_000, (2.0,), (5.0,), Requests(2_004, 2_000, 80, 480, 3_848, 4))
    found = ratios_of({"posix": [7.0, 8.0, 9.0], "s3": [10.0, 10.0, 30.0]}, few, many, 900.0, [9.0, 11.0])
    assert found == {
        "s3_posix": pytest.approx(0.8),
        "latency_10_tables_seconds": pytest.approx(0.4),
        "latency_1000_tables_seconds": pytest.approx(3.0),
        "requests_a_table": pytest.approx(2.0),
        "requests_a_batch": pytest.approx(2.0),
        "checkpoint_requests_a_table": pytest.approx(320 / 2_004, abs=1e-3),
        "worker_peak_mib": 900.0,
        "recovery_seconds": 11.0,
    }
    assert list(found) == [bound.figure for bound in BOUNDS]


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was sent, in chunks to a POST."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def echo() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_what_passes_the_distance_stays_as_it_is_and_is_told_and_takes_longer(echo: int) -> None:
    body = bytes(range(256)) * 1_000
    with distance(echo) as way:
        connection = HTTPConnection("127.0.0.1", way.port)
        for method in ("PUT", "POST", "HEAD", "PUT"):
            way.set(0.2 if method == "HEAD" else 0)
            began = time.perf_counter()
            connection.request(method, "/a%20b?c", body if method != "HEAD" else None)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"" if method == "HEAD" else body)
            assert (time.perf_counter() - began > 0.2) or method != "HEAD"
        connection.close()
        assert way.asked() == ["PUT /a%20b?c", "POST /a%20b?c", "HEAD /a%20b?c", "PUT /a%20b?c"]
        assert way.asked() == []


LARGE = bytes(20 * 2**20)


def listed(place: Files) -> list[str]:
    return list(place.names("many", "0005"))


def streamed(place: Files) -> None:
    with place.writer("streamed") as stream:
        for _ in range(5):
            stream.write(LARGE[: 4 * 2**20])


@pytest.mark.parametrize(
    ("ask", "requests"),
    [
        (lambda place: place.put("small", b"a"), 1),
        (lambda place: place.put("large", LARGE), 5),
        (lambda place: place.put_new("new", b"a"), 1),
        (lambda place: place.put_new("there", b"a"), 2),
        (lambda place: place.read("there"), 1),
        (lambda place: place.info("nowhere"), 1),
        (listed, 2),
        (lambda place: place.folders(), 1),
        (lambda place: place.delete(["there", "nowhere"]), 1),
        (streamed, 5),
    ],
    ids=[
        "put",
        "put in parts",
        "put new",
        "put what is there",
        "read",
        "info",
        "list",
        "folders",
        "delete",
        "stream",
    ],
)
def test_what_a_pipeline_counts_is_what_the_store_is_asked(
    tmp_path: Path, ask: Callable[[Files], object], requests: int
) -> None:
    with s3(tmp_path) as store, distance(store.port) as way:
        place = store.files(way.port)
        place.put("there", b"there")
        for number in range(1, 1_010 if ask is listed else 2):
            place.put(f"many/{number:04}", b"a")
        way.asked()
        before = sent()
        ask(place)
        assert (len(way.asked()), sent() - before) == (requests, requests)


# It runs a whole pipeline several times; its parts are tested above and in the other benchmarks' tests.
@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.stack
def test_the_smoke_size_runs(tmp_path: Path) -> None:
    output = tmp_path / "storage.json"
    command = [sys.executable, "benchmarks/bench_storage.py", "--smoke", "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=280)
    if "no server to run the S3 store by" in done.stderr:
        pytest.skip("no store that speaks S3 is there (make test-stores)")
    assert done.returncode == 0, done.stderr
    assert "s3_posix" in output.read_text(encoding="utf-8")
