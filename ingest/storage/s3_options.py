"""How S3 is reached: its address, who asks, who pays, and how it encrypts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from configparser import ConfigParser, ParsingError
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from distributary.ingest.storage.option_types import Address, Config, Text, at_odds, given
from distributary.values import Group, OptionalFile, Secret, Wrong

if TYPE_CHECKING:
    from distributary.ingest.storage.aws_credentials import AwsCredentials


# Put into the environment with a role that delta-rs finds there alone, and that one pipeline of the program has: nobody else has it.
ROLE_OF_ONE = "DISTRIBUTARY_AWS_ROLE_OF_ONE"

# A proxy that nothing is asked by way of: names, and addresses of either kind.
_NO_PROXY = {"proxy_url": "http://127.0.0.1", "proxy_excludes": "*,0.0.0.0/0,::/0"}

# Where the crate asks if nobody says where.
_FIRST_REGION = "us-east-1"


_OFTEN_EMPTY = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN"),
    *("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"),
)


def forget_empty(environment: MutableMapping[str, str]) -> None:
    """Have variables without a value be none, as AWS's own tools take them, and containers are given them: the crate would send an empty token, or ask nowhere."""
    for name in _OFTEN_EMPTY:
        if environment.get(name) == "":
            environment.pop(name, None)


def region_of(environment: Mapping[str, str]) -> str | None:
    """The region that AWS's own variables say."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")


class S3Login(Group):
    """Who asks S3; where nothing is given, whoever the environment, the container or the machine says it is."""

    access_key_id: Text = None
    """A static key."""
    secret_access_key: Secret = None
    """Its secret; only through `${VAR}`."""
    session_token: Secret = None
    """The token that goes along with keys that expire; only through `${VAR}`."""
    profile: Text = None
    """A profile of AWS's own files, single sign-on included; needs `distributary[aws]`."""
    role_arn: Text = None
    """A role to take on: with `web_identity_token_file` by that token, otherwise by the keys or the profile, which needs `distributary[aws]`."""
    role_session_name: str = "distributary"
    """What a role's session is called in AWS's logs."""
    web_identity_token_file: OptionalFile = None
    """The file with the token that a role is taken on with, as Kubernetes mounts it. It holds for all that a program asks of AWS: another pipeline that names nobody, or another role by a token, takes a process of its own."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if (self.access_key_id is None) != (self.secret_access_key is None):
            yield ("access_key_id",), "a key and its secret go together; write both or neither"
        if self.session_token is not None and self.access_key_id is None:
            yield ("session_token",), "a token needs its key; write access_key_id as well"
        if self.profile is not None and self.access_key_id is not None:
            yield ("profile",), "choose one: a profile, or a key"
        if self.web_identity_token_file is not None and self.role_arn is None:
            yield ("web_identity_token_file",), "a token needs its role; write role_arn as well"

    def config(self) -> Config:
        """The keys that are given, or the role and its token."""
        if self.web_identity_token_file is not None:
            return given(
                role_arn=self.role_arn,
                role_session_name=self.role_session_name,
                web_identity_token_file=self.web_identity_token_file,
            )
        if self.asked_for:
            return {}
        return given(
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            session_token=self.session_token,
        )

    def at_odds(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables that speak of another one than who asks here."""
        if environment.get(ROLE_OF_ONE) and self.is_nobody:
            yield from at_odds(environment, "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")
        if self == S3Login():
            return
        yield from at_odds(environment, "AWS_SKIP_SIGNATURE")
        if self.web_identity_token_file is not None:
            yield from at_odds(environment, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        elif not self.asked_for and self.session_token is None:
            yield from at_odds(environment, "AWS_SESSION_TOKEN", "AWS_TOKEN")

    @property
    def is_nobody(self) -> bool:
        """Whether it is left to the environment who asks, be it for the keys of a role."""
        return (self.access_key_id or self.profile or self.web_identity_token_file) is None

    def is_by_token(self, environment: Mapping[str, str]) -> bool:
        """Whether it is a role by a token who asks, be it that the environment says so."""
        named = (self.access_key_id or self.profile or self.role_arn) is not None
        return self.web_identity_token_file is not None or bool(
            not named and environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
        )

    def left_to_files(self, environment: Mapping[str, str]) -> bool:
        """Whether delta-rs looks into AWS's own files for keys: those that are told win, and without any two variables it asks as AWS's own tools do."""
        if self.web_identity_token_file is not None:
            return True
        told = environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY")
        return self.is_nobody and not (self.asked_for or _is_elsewhere(environment) or told)

    def roles_of_delta(self, environment: Mapping[str, str]) -> list[str]:
        """Where nobody is named, the variables with a role that delta-rs takes on, and nobody else."""
        return (
            []
            if self != S3Login() or _is_elsewhere(environment)
            else list(at_odds(environment, *_ROLES_OF_DELTA))
        )

    def container_of_delta(self, environment: Mapping[str, str]) -> list[str]:
        """Where nobody is named, the variable with an address of keys that delta-rs asks, and nobody else: obstore takes it with a file of its token alone."""
        keys, role = (
            all(map(environment.get, names))
            for names in (
                ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
                ("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
            )
        )
        alike = any(map(environment.get, _CONTAINERS_OF_ALL))
        if not self.is_nobody or self.asked_for or _is_elsewhere(environment) or keys or role or alike:
            return []
        return list(at_odds(environment, "AWS_CONTAINER_CREDENTIALS_FULL_URI"))

    @property
    def asked_for(self) -> bool:
        """Whether the keys have to be asked for."""
        return self.web_identity_token_file is None and (self.profile or self.role_arn) is not None

    def credentials(self, region: str | None) -> AwsCredentials | None:
        """What gives the keys that have to be asked for, one for all in this process; a role is asked for in this region. Raises ConfigError where it cannot."""
        return _credentials(self, region) if self.asked_for else None


# By these delta-rs takes on a role, and no other client.
_ROLES_OF_DELTA = ("AWS_IAM_ROLE_ARN", "AWS_S3_ASSUME_ROLE_ARN")


# By these a container's keys are found by all that ask.
_CONTAINERS_OF_ALL = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")


# Whatever these say, delta-rs asks for keys as AWS's own tools do, wherever the store is: one is left behind where it once had locks in DynamoDB.
_AS_AT_AWS = ("AWS_FORCE_CREDENTIAL_LOAD", "AWS_S3_LOCKING_PROVIDER")


def _is_elsewhere(environment: Mapping[str, str]) -> bool:
    """Whether the environment has delta-rs ask a store that is not AWS's, or nobody's keys."""
    elsewhere = () if environment.keys() & _AS_AT_AWS else ("AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    return any(at_odds(environment, *elsewhere, "AWS_SKIP_SIGNATURE"))


def _others(environment: Mapping[str, str], names: Iterable[str], own: str | None) -> Iterator[str]:
    """Which of these variables say something else than their own one does."""
    return (name for name in names if environment.get(name) not in {None, "", own})


# What a profile has that says how to come to keys.
_WAYS_OF_PROFILES = frozenset(
    {"aws_access_key_id", "credential_process", "role_arn", "sso_session", "sso_start_url", "login_session"}
)


def file_with_keys(environment: Mapping[str, str], login: S3Login) -> str | None:
    """The one of AWS's own files, if any, by which its own tools, and delta-rs, come to other keys where no profile is named to them; it wins over a role by a token, and over a machine's.

    https://docs.aws.amazon.com/sdkref/latest/guide/file-location.html
    """
    profile, home = environment.get("AWS_PROFILE") or "default", environment.get("HOME", "")
    role = login.role_arn or environment.get("AWS_ROLE_ARN")
    token = login.web_identity_token_file or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    same = {"role_arn": role, "web_identity_token_file": str(token)}
    # The default profile may have either title, of which the longer one wins.
    titled = [f"profile {profile}", *(["default"] if profile == "default" else [])]
    for variable, name, sections in (
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", [profile]),
        ("AWS_CONFIG_FILE", "config", titled),
    ):
        # A variable that is empty stands for no file.
        file = re.sub(r"^~(?=/)", lambda _: home, environment.get(variable, f"~/.aws/{name}" if home else ""))
        parser = ConfigParser(strict=False, interpolation=None)
        # One that cannot be read gives no keys, either.
        with suppress(ParsingError, OSError, UnicodeDecodeError):
            parser.read(file)
            titles = {" ".join(title.split()): title for title in parser.sections()}
            section = next((titles[one] for one in sections if one in titles), None)
            said = {} if section is None else dict(parser[section])
            # One that says the same role by the same token is nobody else.
            own = {"role_arn"} if same.items() <= said.items() else set[str]()
            if (_WAYS_OF_PROFILES & said.keys()) - own:
                return file
    return None


@lru_cache(maxsize=8)
def _credentials(login: S3Login, region: str | None) -> AwsCredentials:
    # boto3 takes twelve MiB of each of Spark's workers, and nobody else needs it.
    from distributary.ingest.storage.aws_credentials import AwsCredentials  # noqa: PLC0415

    static = given(
        aws_access_key_id=login.access_key_id,
        aws_secret_access_key=login.secret_access_key,
        aws_session_token=login.session_token,
    )
    keys = {name: str(value) for name, value in static.items()}
    return AwsCredentials(keys, login.profile, login.role_arn, login.role_session_name, region)


class S3Encryption(Group):
    """How S3 encrypts what is written, where its bucket's own default is not meant."""

    kind: Literal["AES256", "aws:kms", "aws:kms:dsse"]
    """By S3's own keys, by those of KMS, or by both."""
    kms_key_id: Text = None
    """The key in KMS; by default the account's own."""
    bucket_key: bool | None = None
    """Whether one key of the bucket's saves questions to KMS."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.kind == "AES256" and (self.kms_key_id is not None or self.bucket_key is not None):
            yield ("kind",), "a key of KMS is for aws:kms and aws:kms:dsse; write one of them"

    def config(self) -> Config:
        """By the crate's own names."""
        return given(
            server_side_encryption=self.kind,
            sse_kms_key_id=self.kms_key_id,
            sse_bucket_key_enabled=self.bucket_key,
        )


class S3(Group):
    """S3 and what speaks its protocol, from version 2024-08 on, which knows `If-None-Match`."""

    endpoint: Address = None
    """The address of a store that is not AWS's, such as `https://minio.example.com:9000`."""
    region: Text = None
    """The bucket's region."""
    path_style: bool = True
    """Whether the bucket stands in the path of an address, not in its host name."""
    requester_pays: bool = False
    """Whether who asks agrees to pay."""
    login: S3Login = S3Login()
    """Who asks."""
    encryption: S3Encryption | None = None
    """How it is encrypted."""

    def config(self, bucket: str) -> Config:
        """By the crate's own names."""
        return {
            **given(
                endpoint=self._address(bucket),
                region=self.region,
                virtual_hosted_style_request=not self.path_style,
                request_payer=True if self.requester_pays else None,
            ),
            **self.login.config(),
            **(self.encryption.config() if self.encryption else {}),
        }

    def at_odds(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables that speak of another store, or of another one than who asks."""
        yield from self.login.at_odds(environment)
        if self.endpoint is not None:
            yield from at_odds(environment, "AWS_ENDPOINT_URL_S3")

    def is_aws(self, environment: Mapping[str, str]) -> bool:
        """Whether delta-rs asks for keys as AWS's own tools do, and not for those alone that it is told."""
        return self.endpoint is None or bool(environment.keys() & _AS_AT_AWS)

    def at_odds_with_delta(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables by which delta-rs, and nobody else, takes on a role first, by whatever keys the machine has."""
        if self.is_aws(environment) and self.login != S3Login():
            yield from at_odds(environment, *_ROLES_OF_DELTA)

    def taken_for_aws(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables that delta-rs, and nobody else, would take for AWS's own, as it does without the `AWS_` before their names."""
        login, static = self.login, environment.get("AWS_ACCESS_KEY_ID")
        is_left = login.is_nobody and not login.asked_for
        if (
            login.session_token is None
            and (login.access_key_id or (is_left and static))
            and not login.asked_for
        ):
            yield from _others(environment, ("SESSION_TOKEN", "TOKEN"), environment.get("AWS_SESSION_TOKEN"))
        if is_left and "SECRET_ACCESS_KEY" in environment:
            yield from _others(environment, ("ACCESS_KEY_ID",), static)
        if self.endpoint is None and "AWS_ENDPOINT_URL" not in self.told_by(environment):
            yield from _others(environment, ("ENDPOINT", "ENDPOINT_URL"), None)

    def one_of(self, environment: Mapping[str, str]) -> Config:
        """Which store the environment means that names two, by the crate's own names: it would take either, and delta-rs is told this one."""
        told = given(endpoint=environment.get("AWS_ENDPOINT_URL") or None)
        return told if self.endpoint is None and environment.get("AWS_ENDPOINT") else {}

    def told_by(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What AWS's own variables say, or else holds for all that ask, for delta-rs: of those and such as it takes for them the first would win."""
        endpoint = environment.get("AWS_ENDPOINT_URL") or environment.get("AWS_ENDPOINT")
        region = region_of(environment)
        if not region and (environment.get("REGION") or environment.get("DEFAULT_REGION")):
            region = _FIRST_REGION
        # Other programs' are of seconds without a unit, which it cannot read.
        patience = "5s" if environment.get("CONNECT_TIMEOUT") else None
        told = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": region, "connect_timeout": patience}
        proxy = environment.get("AWS_PROXY_URL")
        if environment.get("PROXY_URL"):
            # Other programs' is none of its own, and may be no address at all.
            told |= {"proxy_url": proxy} if proxy else _NO_PROXY
        return {name: value for name, value in told.items() if value}

    def _address(self, bucket: str) -> str | None:
        """An address of one's own has to hold the bucket already where that stands in the host name."""
        if self.endpoint is None or self.path_style:
            return self.endpoint
        scheme, _, host = self.endpoint.partition("://")
        return f"{scheme}://{bucket}.{host}"
