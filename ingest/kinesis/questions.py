"""Single questions to Kinesis, by boto3 and without any patience: every failure as one of our errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from distributary.errors import BrokerUnavailable, ConfigError, CredentialsRefused, SetupError
from distributary.ingest.settings.source.kinesis import KinesisStream

# Answers to GetRecords have up to 10 MiB.
_TIMEOUT_SECONDS = 20.0

# https://docs.aws.amazon.com/kinesis/latest/APIReference/CommonErrors.html, and the errors that each call lists.
_REFUSED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "KMSAccessDeniedException",
    "KMSDisabledException",
    "KMSInvalidStateException",
    "KMSNotFoundException",
    "KMSOptInRequired",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}

_THROTTLED = {
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
}

# Names of botocore's own errors, for what keeps a question from being asked at all.
_NO_SETTING = {
    "InvalidConfigError",
    "InvalidRegionError",
    "NoCredentialsError",
    "NoRegionError",
    "PartialCredentialsError",
    "ProfileNotFound",
}

_RIGHTS = "kinesis:DescribeStreamSummary, kinesis:ListShards, kinesis:GetShardIterator and kinesis:GetRecords"


class Throttled(Exception):
    """More is asked than a shard, or an account, answers; it does a moment later."""


class IteratorExpired(Exception):
    """Five minutes passed since an iterator was given; another one is to be asked for."""


class NotInShard(Exception):
    """A sequence number is none that a shard knows, as of another stream of its name."""


_MEANT: Mapping[str, type[Exception]] = {
    **dict.fromkeys(_THROTTLED, Throttled),
    "ExpiredIteratorException": IteratorExpired,
    "InvalidArgumentException": NotInShard,
    "ValidationException": NotInShard,
}


class KinesisClient(Protocol):
    """What is asked of boto3's client for Kinesis."""

    def describe_stream_summary(self, **asked: Any) -> dict[str, Any]:
        """What is known of a stream, but for its shards."""

    def list_shards(self, **asked: Any) -> dict[str, Any]:
        """A page of a stream's shards."""

    def get_shard_iterator(self, **asked: Any) -> dict[str, Any]:
        """Where a reading of a shard begins."""

    def get_records(self, **asked: Any) -> dict[str, Any]:
        """The next records of a reading."""

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream as Kinesis describes it.

    arn        its name in all of AWS, which a stream made anew has again
    created    when it was made, in milliseconds since the epoch: another one for a stream that was made anew
    retention  for how many milliseconds it keeps records
    at         when that was said, by the clock of who said it, in milliseconds since the epoch
    """

    arn: str
    created: int
    retention: int
    at: int


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard, and those that it came of by a split or a merge."""

    id: str
    parents: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The number of its partition: that in its name. Raises ValueError for a name of another kind."""
        name, _, digits = self.id.rpartition("-")
        if name != "shardId" or not digits.isdecimal() or int(digits) >= 1 << 31:
            raise ValueError(self.id)
        return int(digits)


@dataclass(frozen=True, slots=True)
class Page:
    """An answer with records.

    records  as boto3 has them
    next     the iterator of what comes then; None where the shard was closed, and all of it is read
    behind   how far it is from the newest record, in milliseconds
    at       when it was given, by the clock of who gave it, in milliseconds since the epoch
    """

    records: list[dict[str, Any]]
    next: str | None
    behind: int
    at: int


def boto3_client(access: KinesisStream, connections: int) -> KinesisClient:
    """boto3's client, which repeats nothing by itself. Raises ConfigError."""
    try:
        import boto3  # noqa: PLC0415 - nobody needs it whose source is another
        from botocore.config import Config  # noqa: PLC0415
    except ImportError:
        raise ConfigError("source.kinesis takes boto3; install distributary[aws]") from None
    config = Config(
        connect_timeout=_TIMEOUT_SECONDS / 4,
        read_timeout=_TIMEOUT_SECONDS,
        retries={"total_max_attempts": 1},
        max_pool_connections=connections,
    )
    try:
        session = boto3.Session(profile_name=access.profile, region_name=access.region)
        if access.role_arn is not None:
            session = _as_role(session, access)
        client: KinesisClient = session.client("kinesis", endpoint_url=access.endpoint, config=config)
    except Exception as error:  # noqa: BLE001 - of files that AWS's tools read, and of what stands in them
        raise ConfigError(
            f"source.kinesis: the client cannot be set up ({type(error).__name__}); check region, profile, role_arn and endpoint"
        ) from None
    return client


def _as_role(session: Any, access: KinesisStream) -> Any:
    """A session whose keys are those of a role, taken on when they are first needed and before they end."""
    import boto3  # noqa: PLC0415
    from botocore.credentials import DeferredRefreshableCredentials  # noqa: PLC0415
    from botocore.session import get_session  # noqa: PLC0415

    asking = session.client("sts")

    def taken_on() -> dict[str, str]:
        answer = asking.assume_role(RoleArn=access.role_arn, RoleSessionName=access.role_session_name)
        keys = answer["Credentials"]
        return {
            "access_key": keys["AccessKeyId"],
            "secret_key": keys["SecretAccessKey"],
            "token": keys["SessionToken"],
            "expiry_time": keys["Expiration"].isoformat(),
        }

    of_role = get_session()
    of_role._credentials = DeferredRefreshableCredentials(taken_on, "assume-role")
    return boto3.Session(botocore_session=of_role, region_name=session.region_name)


class Questions:
    """A client with our errors. They name what was asked for and the stream, never a secret."""

    def __init__(self, client: KinesisClient, access: KinesisStream) -> None:
        self._client, self._access = client, access

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def stream(self) -> Stream:
        """What the stream is now. Raises SetupError for one that is not there, or that cannot be read yet."""
        told = self._told(self._client.describe_stream_summary, **self._access.named)
        found = told["StreamDescriptionSummary"]
        if found.get("StreamStatus") in ("CREATING", "DELETING"):
            raise BrokerUnavailable(
                f"stream {self._access.stream} is {found['StreamStatus'].lower()}; it is read once it is active"
            )
        created = found["StreamCreationTimestamp"].timestamp()
        retention = int(found["RetentionPeriodHours"]) * 3_600_000
        return Stream(found["StreamARN"], round(created * 1000), retention, _answered_at(told))

    def shards(self) -> list[Shard]:
        """The shards that Kinesis still knows, closed ones among them, in the order of their numbers. Raises SetupError for names of another kind."""
        found, asked = list[Shard](), dict[str, str](self._access.named)
        while True:
            told = self._told(self._client.list_shards, **asked)
            for one in told["Shards"]:
                parents = (one.get("ParentShardId"), one.get("AdjacentParentShardId"))
                found.append(Shard(one["ShardId"], tuple(name for name in parents if name)))
            if not told.get("NextToken"):
                break
            asked = {"NextToken": told["NextToken"]}
        try:
            return sorted(found, key=lambda shard: shard.number)
        except ValueError as error:
            raise SetupError(
                f"stream {self._access.stream} has a shard {error}, and shards of Kinesis Data Streams are called shardId- and a number; "
                "read a stream of that kind"
            ) from None

    def iterator(self, shard: str, kind: str, at: str | int | None = None) -> str:
        """Where a reading begins: `TRIM_HORIZON`, `AT_TIMESTAMP` and milliseconds, or a sequence number. Raises NotInShard, Throttled."""
        asked: dict[str, Any] = {**self._access.named, "ShardId": shard, "ShardIteratorType": kind}
        if kind == "AT_TIMESTAMP" and at is not None:
            asked["Timestamp"] = int(at) / 1000
        elif at is not None:
            asked["StartingSequenceNumber"] = str(at)
        return str(self._call(self._client.get_shard_iterator, **asked)["ShardIterator"])

    def page(self, iterator: str, most: int) -> Page:
        """The next records. Raises IteratorExpired, Throttled."""
        arn = {name: text for name, text in self._access.named.items() if name == "StreamARN"}
        try:
            told = self._call(self._client.get_records, ShardIterator=iterator, Limit=most, **arn)
        except NotInShard as error:
            # As of a stream that was made anew; what is asked for next tells.
            raise IteratorExpired(str(error)) from None
        behind = int(told.get("MillisBehindLatest") or 0)
        return Page(told["Records"], told.get("NextShardIterator"), behind, _answered_at(told))

    def _told(self, ask: Callable[..., dict[str, Any]], **asked: Any) -> dict[str, Any]:
        """What is asked once in a while: who has too much to do is asked again as one who does not answer."""
        try:
            return self._call(ask, **asked)
        except Throttled as error:
            raise BrokerUnavailable(
                f"Kinesis has too much to do, asked for stream {self._access.stream} ({error})"
            ) from None
        except NotInShard as error:
            raise SetupError(
                f"Kinesis does not understand what is asked of stream {self._access.stream} ({error}); check source.kinesis"
            ) from None

    def _call(self, ask: Callable[..., dict[str, Any]], **asked: Any) -> dict[str, Any]:
        try:
            return ask(**asked)
        except Exception as error:  # noqa: BLE001 - a client fed odd answers fails in ways nobody lists
            raise self._translated(error) from None

    def _translated(self, error: Exception) -> Exception:
        """The error to raise instead. Whatever is not plainly Kinesis's "no" is BrokerUnavailable, which is waited out."""
        response = getattr(error, "response", None)
        told = response.get("Error", {}) if isinstance(response, dict) else {}
        code, name, stream = str(told.get("Code", "")), type(error).__name__, self._access.stream
        if name in _NO_SETTING:
            return ConfigError(
                f"source.kinesis: {name}; check region, profile and role_arn, or AWS's own variables"
            )
        if (meant := _MEANT.get(code)) is not None:
            return meant(code)
        if code in _REFUSED:
            return CredentialsRefused(
                f"Kinesis does not accept who reads stream {stream} ({code}); give the role or user {_RIGHTS}, and kms:Decrypt where "
                "the stream is encrypted"
            )
        if code == "ResourceNotFoundException":
            return SetupError(
                f"there is no stream {stream} (source.kinesis.stream), or it has a shard no more that it had; make it, or correct name, region and account"
            )
        what = (
            f"fails ({code})" if code else f"does not answer ({name}); check source.kinesis and the network"
        )
        return BrokerUnavailable(f"Kinesis, asked for stream {stream}, {what}")


def _answered_at(told: dict[str, Any]) -> int:
    """When an answer was given, by its own header; by the clock here where it has none."""
    date = told.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        return int(parsedate_to_datetime(date).timestamp() * 1000)
    except (TypeError, ValueError):
        return int(time.time() * 1000)
