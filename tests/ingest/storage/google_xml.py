"""A stand-in for Google Cloud Storage: a store that speaks S3, asked in the words of Google's XML API.

That API is S3's with headers of its own, and no emulator was found that has its conditions (docs/how-to/object-stores.md). So this shows what
the clients send and how they take Google's documented answers; that Google answers so it cannot show.
https://cloud.google.com/storage/docs/xml-api/reference-headers
https://cloud.google.com/storage/docs/xml-api/put-object-upload
https://cloud.google.com/storage/docs/xml-api/delete-object
https://developers.google.com/identity/protocols/oauth2/service-account#jwt-auth
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import count

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.ingest.storage.relay import Head, Relay, no, served

_WHO = "tests@example.iam.gserviceaccount.com"

# https://developers.google.com/identity/protocols/oauth2/scopes#storage
_SCOPES = tuple(
    f"https://www.googleapis.com/auth/{name}" for name in ("cloud-platform", "devstorage.full_control")
)

_CONDITION = "x-goog-if-generation-match"

# Google keeps an account's keys beside the bucket, and S3 knows no such word.
_NOT_FOR_S3 = ("authorization", _CONDITION)

# A store that has no accounts takes any; moto lets nobody in who says none.
_FOR_S3 = "Authorization: AWS anybody:unsigned"

_DONE = re.compile(rb"HTTP/1\.1 2\d\d [^\r]*\r\n")


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def service_account_key() -> str:
    """The account that may do all, as Google hands out its key: as JSON."""
    pem = _key().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return json.dumps(
        {
            "type": "service_account",
            "private_key": pem.decode(),
            "private_key_id": "1",
            "client_email": _WHO,
            "token_uri": "https://oauth2.googleapis.com/token",
        }
    )


@dataclass
class Google(Relay):
    """It asks who asks, takes Google's condition for S3's, counts generations, and tells of a delete of nothing.

    refused   how it answered those who were not the account
    """

    generations: Iterator[int] = field(default_factory=lambda: count(1))
    refused: int = 0

    def _asked(self, request: bytes) -> bytes:
        head = Head.of(request)
        if not _is_account(head.headers.get("authorization", "")):
            self.refused += 1
            return no("401 Unauthorized")
        if self._is_of_nothing(head):
            return no("404 Not Found")
        answer = super()._asked(_in_words_of_s3(request))
        return _DONE.sub(rb"\g<0>x-goog-generation: %d\r\n" % next(self.generations), answer, count=1)

    def _is_of_nothing(self, head: Head) -> bool:
        """S3 says of such a delete that it is done."""
        if head.method != "DELETE" or "uploadId=" in head.target:
            return False
        answer = super()._asked(
            f"HEAD {head.target} HTTP/1.1\r\nHost: {head.headers['host']}\r\n{_FOR_S3}\r\n\r\n".encode()
        )
        return answer.startswith(b"HTTP/1.1 404")


def _is_account(authorization: str) -> bool:
    """Whether this is a token that the account signed for Cloud Storage."""
    token = authorization.removeprefix("Bearer ")
    signed, _, signature = token.rpartition(".")
    try:
        _key().public_key().verify(_decoded(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = json.loads(_decoded(signed.partition(".")[2]))
    except (InvalidSignature, ValueError):
        return False
    return claims["iss"] == claims["sub"] == _WHO and claims["scope"] in _SCOPES


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _in_words_of_s3(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].decode("latin-1").lower() not in _NOT_FOR_S3]
    asked = Head.of(request).headers.get(_CONDITION)
    # Generation 0 is one that is not there.
    assert asked in (None, "0"), f"S3 has no word for generation {asked}"
    condition = [] if asked is None else [b"If-None-Match: *"]
    return b"\r\n".join((*kept, *condition, _FOR_S3.encode())) + b"\r\n\r\n" + body


@contextmanager
def google(store: int) -> Iterator[Google]:
    """The stand-in before the store at this port, for as long as the `with` block lasts."""
    with served(Google(store)) as running:
        yield running
