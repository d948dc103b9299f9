"""A store that answers for each of many files by itself whether it may be deleted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place


@contextmanager
def answering(code: str) -> Iterator[Files]:
    """A place in S3 that answers this of every file that it is to delete.

    https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            wanted = self.rfile.read(int(self.headers["Content-Length"])).decode()
            said = "".join(
                f"<Error><Key>{key}</Key><Code>{code}</Code><Message>No.</Message></Error>"
                for key in re.findall(r"<Key>(.*?)</Key>", wanted)
            )
            body = f"<DeleteResult>{said}</DeleteResult>".encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        options = StorageOptions.model_validate(
            {
                "s3": {
                    "endpoint": f"http://127.0.0.1:{server.server_port}",
                    "region": "here",
                    "login": {"access_key_id": "me", "secret_access_key": "hush"},
                },
                "http": {"retry_seconds": 0},
            }
        )
        try:
            yield open_files(Place.parse("s3://lake/tables"), options)
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("code", "kind"),
    [("AccessDenied", PermissionError), ("SlowDown", ConnectionError), ("MalformedXML", OSError)],
)
@pytest.mark.parametrize("paths", [["a"], ["a", "b"]])
def test_what_may_not_be_deleted_is_no_outage(code: str, kind: type[OSError], paths: list[str]) -> None:
    with answering(code) as files, pytest.raises(OSError, match="s3://lake/tables: ") as caught:
        files.delete(paths)
    assert type(caught.value) is kind
