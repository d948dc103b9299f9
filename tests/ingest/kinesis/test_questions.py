"""boto3's own client for Kinesis: who asks, and what is said where it cannot be set up or nobody answers."""

from __future__ import annotations

import pytest
from tests.ingest.kinesis.emulated import Emulated, served

from distributary.errors import BrokerUnavailable, ConfigError, SetupError
from distributary.ingest.kinesis.questions import Questions, Shard, boto3_client
from distributary.ingest.settings.source.kinesis import KinesisStream


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "anybody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anything")


def asked(endpoint: str, stream: str = "games", **given: str) -> Questions:
    access = KinesisStream.model_validate(
        {"stream": stream, "region": "eu-central-1", "endpoint": endpoint, **given}
    )
    return Questions(boto3_client(access, 2), access)


def test_records_come_as_they_were_put_and_all_shards_are_listed() -> None:
    stream = Emulated(5)
    stream.split(3)
    stream.put_into(0, b"\0\xff", key="a")
    with served(stream) as endpoint:
        questions = asked(endpoint)
        shards = questions.shards()
        assert [shard.number for shard in shards] == list(range(7))
        assert shards[6].parents == ("shardId-000000000003",)
        page = questions.page(questions.iterator(shards[0].id, "TRIM_HORIZON"), 10)
        (record,) = page.records
        assert (record["Data"], record["PartitionKey"], page.behind) == (b"\0\xff", "a", 0)
        assert abs(page.at - questions.stream().at) < 60_000
        arn = "arn:aws:kinesis:eu-central-1:123456789012:stream/games"
        assert asked(endpoint, arn).stream().arn == arn


def test_a_role_is_taken_on_by_the_keys_that_were_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Emulated()
    with served(stream) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint)
        asked(endpoint, role_arn="arn:aws:iam::123456789012:role/reader").stream()
    assert ["anybody" in one or "OFTHEROLE" in one for one in stream.asked_by] == [True, True]
    assert "Credential=anybody" in stream.asked_by[0]
    assert "Credential=OFTHEROLE" in stream.asked_by[1]


def test_what_keeps_it_from_being_asked_is_told_by_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"ProfileNotFound.*check region, profile"):
        asked("http://127.0.0.1:1", profile="nobody")
    with pytest.raises(BrokerUnavailable, match="stream games, does not answer"):
        asked("http://127.0.0.1:1").stream()
    with served(Emulated()) as endpoint, pytest.raises(SetupError, match="there is no stream others"):
        asked(endpoint, "others").stream()


@pytest.mark.parametrize("name", ["shardId-00000001602-0f2", "shard-1", "shardId-", "shardId-99999999999"])
def test_shards_of_another_kind_have_no_number(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        assert Shard(name).number
