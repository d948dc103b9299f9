from __future__ import annotations

import pytest

from distributary.ingest.kafka.reachable import what_is_wrong, what_is_wrong_at


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".com"])
def test_a_host_name_that_cannot_be_one_is_told_as_the_trouble(host: str) -> None:
    assert what_is_wrong(f"{host}:9092").startswith(f"{host}:9092: ")


def test_what_is_no_url_is_not_looked_at() -> None:
    assert what_is_wrong_at("http://[bad/t") == ""
