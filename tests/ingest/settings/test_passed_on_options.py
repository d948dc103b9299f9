"""What is told of client options, and what is not."""

from __future__ import annotations

import pytest

from distributary.ingest.settings.passed_on_options import without_secrets
from distributary.values import MASK

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3 cret";'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Login module control flag 's3' is not known", f"Login module control flag '{MASK}' is not known"),
        ("password is wrong for me", f"password is wrong for {MASK}"),
        ("the store says hush-hush, twice: hush-hush", f"the store says {MASK}, twice: {MASK}"),
        ("no PlainLoginModule, required", "no PlainLoginModule, required"),
        ("/keys/me.jks is not there", f"/keys/{MASK}.jks is not there"),
        ("messy", "messy"),
    ],
)
def test_a_text_that_quotes_a_secret_is_told_without_it(text: str, told: str) -> None:
    options = {
        "bootstrap.servers": "twice:1",
        "sasl.jaas.config": JAAS,
        "ssl.keystore.password": "hush-hush",
        "ssl.keystore.location": "/keys",
        "ssl.key.password": "",
    }
    assert without_secrets(text, options) == told
