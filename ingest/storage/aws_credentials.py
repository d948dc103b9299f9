"""Keys for S3 that have to be asked for: those of a profile, and those of a role that is taken on.

boto3 knows how (single sign-on, chains of roles, external programs), and is needed for these alone. What it answers goes to
obstore and to delta-rs alike, so that both are the same caller.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import Future
from datetime import datetime, timedelta, timezone
from http import HTTPStatus
from typing import Any

from distributary.errors import ConfigError
from distributary.ingest.storage.answers.errors import NO_KEYS_YET

try:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, SSLError
    from botocore.exceptions import ConnectionError as NoConnection
except ImportError:
    boto3 = None

# Keys of a profile are asked for again after this. A role is taken on anew this long before its end.
_BELIEVED = timedelta(minutes=5)

# Each request to the store asks for keys once those that it has are about to end.
_ASK_AGAIN = timedelta(seconds=10)


class AwsCredentials:
    """Called, it answers with keys as obstore takes them: key, secret, token and until when they are good."""

    def __init__(
        self,
        static: Mapping[str, str],
        profile: str | None,
        role: str | None,
        session_name: str,
        region: str | None = None,
    ) -> None:
        """`static` are keys by boto3's names, `region` is where a role is asked for if boto3 knows of none. Raises ConfigError without boto3, or for a profile that is not there."""
        if boto3 is None:
            raise ConfigError(
                "storage.s3.login: a profile or a role takes boto3; install distributary[aws], here and on the executors"
            )
        self._static, self._profile = static, profile
        self._role, self._session_name, self._region = role, session_name, region
        self.away = False
        """Whether nobody answered when keys were asked for last: they may be had without anything being mended here."""
        self._last: dict[str, Any] | None = None
        self._again = datetime.min.replace(tzinfo=timezone.utc)
        # By process: a forked child has no thread that would answer.
        self._under_way = dict[int, Future[dict[str, Any]]]()
        try:
            self._session = boto3.Session(profile_name=profile, **static)
        except BotoCoreError as error:
            raise ConfigError(f"storage.s3.login: {error}") from None

    def __call__(self) -> dict[str, Any]:
        """Keys that are good now, those of before where they are good for a while.

        Those that are still good do while nobody gives new ones: who gives them may be away for a moment. Raises PermissionError where there
        are none, and ConnectionError where nobody answers.
        """
        mine, me = Future[dict[str, Any]](), os.getpid()
        # Of threads that ask one profile at once boto3 tells some that its roles go round in circles.
        if (asked := self._under_way.setdefault(me, mine)) is mine:
            try:
                mine.set_result(self._good())
            except BaseException as error:  # noqa: BLE001 - whoever waits is told, too
                mine.set_exception(error)
            finally:
                del self._under_way[me]
        return asked.result()

    def _good(self) -> dict[str, Any]:
        now, last = datetime.now(timezone.utc), self._last
        if last is not None and (now < self._again or last["expires_at"] - now >= _BELIEVED):
            return last
        try:
            self._last, self.away = self._asked(), False
        except (PermissionError, ConnectionError) as error:
            self.away = isinstance(error, ConnectionError)
            if last is None or last["expires_at"] <= now:
                raise
            self._again = min(now + _ASK_AGAIN, last["expires_at"])
            return last
        return self._last

    def _asked(self) -> dict[str, Any]:
        try:
            if self._last is not None and not _renews_itself(self._session.get_credentials()):
                # Tools put new keys into AWS's own files, which a session of boto3's reads once.
                self._session = boto3.Session(profile_name=self._profile, **self._static)
            return self._of_session() if self._role is None else self._of_role(self._role)
        # As they are, boto3 lets through what comes of programs and files that a profile names, and of a code that it asks a terminal for.
        except (BotoCoreError, ClientError, OSError, RuntimeError, ValueError, EOFError) as error:
            kind = ConnectionError if _is_outage(error) else PermissionError
            raise kind(f"storage.s3.login: AWS gives no keys: {error}") from None

    def _of_session(self) -> dict[str, Any]:
        found = self._session.get_credentials()
        if found is None:
            raise PermissionError("storage.s3.login: the profile has no keys")
        keys = found.get_frozen_credentials()
        # obstore, too, asks for keys anew so long before they end, at each request.
        until = datetime.now(timezone.utc) + 2 * _BELIEVED
        return _credential(keys.access_key, keys.secret_key, keys.token, until)

    def _of_role(self, role: str) -> dict[str, Any]:
        # Of none it would ask AWS's first region, which not every subnet reaches, and whose keys not every region takes.
        sts = self._session.client("sts", region_name=self._session.region_name or self._region)
        answer = sts.assume_role(RoleArn=role, RoleSessionName=self._session_name)
        keys = answer["Credentials"]
        return _credential(
            keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], keys["Expiration"]
        )


def _is_outage(error: Exception) -> bool:
    """Whether whoever gives keys did not answer, or not for now."""
    if isinstance(error, ClientError):
        if error.response.get("Error", {}).get("Code") in NO_KEYS_YET:
            return True
        status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS
    return isinstance(error, (NoConnection, HTTPClientError)) and not isinstance(error, SSLError)


def _renews_itself(keys: Any) -> bool:
    """Whether boto3 asks for new ones before these end, as with single sign-on: what it has cached for that is kept."""
    return hasattr(keys, "refresh_needed")


def _credential(key: str, secret: str, token: str | None, until: datetime) -> dict[str, Any]:
    # boto3's is of a time zone of its own, and obstore takes none but this one.
    expires_at = until.astimezone(timezone.utc)
    return {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": expires_at}
