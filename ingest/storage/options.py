"""How to reach a store: its address, who asks, and how long is waited. One group of settings for all that ask it.

obstore and delta-rs get the same, each in its own spelling: both rest on the Rust crate `object_store`. What is not given
here comes from the environment, by the names that each cloud's own tools know.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from distributary.errors import ConfigError
from distributary.files import tag_of
from distributary.ingest.storage.authorities import authorities_of, keep_trusted
from distributary.ingest.storage.option_types import (
    Address,
    Config,
    ForObstore,
    Text,
    at_odds,
    delta_name,
    delta_text,
    delta_time,
    given,
)
from distributary.ingest.storage.place import Kind, Place
from distributary.ingest.storage.s3_options import ROLE_OF_ONE, S3, file_with_keys, forget_empty, region_of
from distributary.passed_on_options import ClientOptions, without_secrets
from distributary.values import Group, OptionalFile, PositiveSeconds, Seconds, Secret, Wrong

if TYPE_CHECKING:
    from distributary.ingest.storage.aws_credentials import AwsCredentials

_AZURE_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")

# Where the environment says that a store is, the one first that wins.
_ADDRESSES: Mapping[Kind, tuple[str, ...]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "azure": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "gcs": ("GOOGLE_BASE_URL",),
}

_AZURE_CLIENTS = ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID")
_AZURE_TENANTS = (
    *("AZURE_STORAGE_TENANT_ID", "AZURE_STORAGE_AUTHORITY_ID"),
    *("AZURE_TENANT_ID", "AZURE_AUTHORITY_ID"),
)

# Whoever the environment says asks: the variables, and whether it takes a client and a tenant beside them. In the order in which obstore looks for them.
_AZURE_WAYS: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "token": (("AZURE_STORAGE_TOKEN",), False),
    "key": (_AZURE_KEYS, False),
    "identity": (("AZURE_FEDERATED_TOKEN_FILE",), True),
    "secret": (("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"), True),
    "signature": (("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN"), False),
}

_DELTAS_AZURE_WAYS = ("key", "signature", "token", "secret", "identity")
# Where it is told a client or a tenant, it first looks for what goes with them.
_DELTAS_AZURE_WAYS_OF_NAMED = ("key", "secret", "identity", "signature", "token")

# Where machines and containers of clouds ask for their own keys, in clear: a proxy would be told them, or give those of its own machine.
_OF_MACHINES = ("169.254.0.0/16", "fd00:ec2::/32", "metadata.google.internal")

_GOOGLE_FILES = ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH")


class Azure(Group):
    """Azure Blob Storage and Data Lake Storage; where no key is given, a managed identity or what the environment names."""

    account: Text = None
    """The storage account, where the URL does not name it."""
    endpoint: Address = None
    """The address of a store that is not at Azure's own, with the account in its path where that stands there."""
    account_key: Secret = None
    """The account's key; only through `${VAR}`."""
    sas_token: Secret = None
    """A shared access signature; only through `${VAR}`."""
    tenant_id: Text = None
    """The tenant of a service principal or workload identity."""
    client_id: Text = None
    """Its client id, or that of a managed identity."""
    client_secret: Secret = None
    """The service principal's secret; only through `${VAR}`."""
    federated_token_file: OptionalFile = None
    """The file with a workload identity's token, as Kubernetes mounts it."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        ways = ("account_key", "sas_token", "client_secret", "federated_token_file")
        chosen = [name for name in ways if getattr(self, name) is not None]
        if len(chosen) > 1:
            yield (chosen[1],), f"choose one: {' or '.join(chosen)}"
        for name in ("client_secret", "federated_token_file"):
            if getattr(self, name) is not None and None in (self.tenant_id, self.client_id):
                yield (name,), "it needs its tenant and client; write tenant_id and client_id as well"

    def at_odds(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables that speak of another one than who asks here, and that the crate asks first."""
        if self._is_left:
            return
        yield from at_odds(
            environment, "AZURE_SKIP_SIGNATURE", "AZURE_STORAGE_USE_EMULATOR", "AZURE_STORAGE_TOKEN"
        )
        if self.account_key is None:
            yield from at_odds(environment, *_AZURE_KEYS)
            if self.client_secret is None:
                yield from at_odds(environment, "AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET")
            if self.federated_token_file is None and self._is_another_in_pod(environment):
                # A pod's, which obstore is before it looks at either way, and delta-rs is not.
                yield from at_odds(environment, "AZURE_FEDERATED_TOKEN_FILE")

    def two_of(self, environment: Mapping[str, str]) -> list[str]:
        """Where it is left to the environment by what is asked, the variables of two who would ask: obstore looks for them in another order than delta-rs."""
        if not self._is_left:
            return []
        told = {
            way: list(at_odds(environment, *names))
            for way, (names, needs_ids) in _AZURE_WAYS.items()
            if not needs_ids or self._has_ids(environment)
        }
        obstore = next((way for way in _AZURE_WAYS if told.get(way)), None)
        named = (self.client_id or self.tenant_id) is not None
        order = _DELTAS_AZURE_WAYS_OF_NAMED if named else _DELTAS_AZURE_WAYS
        delta = next((way for way in order if told.get(way)), None)
        # By its token and by its secret it is one client.
        if obstore is None or delta is None or obstore == delta or {obstore, delta} == {"identity", "secret"}:
            return []
        return [*told[obstore], *told[delta]]

    @property
    def _is_left(self) -> bool:
        """Whether the environment says by what is asked, be it that it is said who asks."""
        return not (self.account_key or self.sas_token or self.client_secret or self.federated_token_file)

    def _is_another_in_pod(self, environment: Mapping[str, str]) -> bool:
        """Whether a pod's token would be asked with, and is not known to be of the client whose secret is given."""
        client, tenant = (
            {environment.get(one) for one in names} for names in (_AZURE_CLIENTS, _AZURE_TENANTS)
        )
        own = self.client_secret is not None and self.client_id in client and self.tenant_id in tenant
        return self._has_ids(environment) and not own

    def _has_ids(self, environment: Mapping[str, str]) -> bool:
        """Whether a token of a workload identity would find its client and its tenant."""
        client = self.client_id or any(at_odds(environment, *_AZURE_CLIENTS))
        return bool(client and (self.tenant_id or any(at_odds(environment, *_AZURE_TENANTS))))

    def told_by(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Where a container is given its identity, for delta-rs, which would ask the machine for one."""
        endpoint = environment.get("IDENTITY_ENDPOINT")
        return {"AZURE_MSI_ENDPOINT": endpoint} if endpoint else {}

    def config(self, account: str | None) -> Config:
        """By the crate's own names; `account` is the one that the URL names."""
        return given(
            account_name=account or self.account,
            endpoint=self.endpoint,
            account_key=self.account_key,
            sas_key=self.sas_token,
            tenant_id=self.tenant_id,
            client_id=self.client_id,
            client_secret=self.client_secret,
            federated_token_file=self.federated_token_file,
        )


class Gcs(Group):
    """Google Cloud Storage; where nothing is given, the application default credentials."""

    endpoint: Address = None
    """The address of a store that is not Google's own."""
    service_account_file: OptionalFile = None
    """The file with a service account's key."""
    service_account_key: Secret = None
    """That key itself, as JSON; only through `${VAR}`."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.service_account_file is not None and self.service_account_key is not None:
            yield ("service_account_key",), "choose one: the file, or the key itself"

    def at_odds(self, environment: Mapping[str, str]) -> Iterator[str]:
        """Variables that speak of another one than who asks here."""
        if self.service_account_file is not None:
            yield from at_odds(environment, "GOOGLE_SKIP_SIGNATURE", "GOOGLE_SERVICE_ACCOUNT_KEY")
        elif self.service_account_key is not None:
            yield from at_odds(environment, "GOOGLE_SKIP_SIGNATURE", *_GOOGLE_FILES)
        if self.service_account_file is None and not self._says_the_same(environment):
            # obstore alone takes it for the file with a key; none of Google's own tools does.
            yield from at_odds(environment, "SERVICE_ACCOUNT")

    def _says_the_same(self, environment: Mapping[str, str]) -> bool:
        """Whether the file is passed over that obstore alone knows, or is the one that all take."""
        if self.service_account_key is not None:
            return False
        own = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
        return any(at_odds(environment, *_GOOGLE_FILES)) or environment.get("SERVICE_ACCOUNT") == own

    def key_file(self, environment: Mapping[str, str]) -> str | None:
        """The file that says who asks, which the crate reads once; None where none does."""
        if self.service_account_key is not None:
            return None
        return self.service_account_file or environment.get("GOOGLE_APPLICATION_CREDENTIALS")

    def config(self) -> Config:
        """By the crate's own names."""
        return given(
            base_url=self.endpoint,
            service_account=self.service_account_file,
            service_account_key=self.service_account_key,
        )


class Http(Group):
    """How any store's address is reached, and how patiently."""

    proxy: Address = None
    """A proxy for all requests, but for those by which a machine or a container of a cloud asks for its own keys."""
    no_proxy: Text = None
    """Hosts, separated by commas, that are reached without it."""
    ca_file: OptionalFile = None
    """PEM file with authorities that a store's certificate is checked against beside the system's. It may be replaced while a run goes on."""
    timeout_seconds: PositiveSeconds = 60.0
    """How long one request may take, its body included."""
    retry_seconds: Seconds = 60.0
    """For how long a request that fails is tried again, ten times at the most: where each try is refused at once that is some three seconds."""

    def client(self) -> dict[str, Any]:
        """As obstore takes them. Raises ConfigError for a file that cannot be read."""
        client: dict[str, Any] = {"timeout": timedelta(seconds=self.timeout_seconds), **self._proxy()}
        if self.ca_file is not None:
            # It reads what the environment names as well.
            keep_trusted(self.ca_file)
            client["root_certificate"] = authorities_of(self.ca_file)
        return client

    def for_delta(self) -> dict[str, str]:
        """As delta-rs takes them, which finds the authorities in a file that the environment names."""
        if self.ca_file is not None:
            keep_trusted(self.ca_file)
        patience = {
            "timeout": delta_time(self.timeout_seconds),
            "retry_timeout": delta_time(self.retry_seconds),
        }
        return {**patience, **self._proxy()}

    def read_once(self) -> tuple[object, ...]:
        """What a client reads of files when it is made, as it is now."""
        return () if self.ca_file is None else (authorities_of(self.ca_file),)

    def _proxy(self) -> dict[str, str]:
        if self.proxy is None:
            return {}
        around = ",".join(filter(None, (self.no_proxy, *_OF_MACHINES)))
        return {"proxy_url": self.proxy, "proxy_excludes": around}


class StorageOptions(Group):
    """How to reach stores. A folder needs none of it."""

    s3: S3 = S3()
    """For `s3://` and `s3a://`."""
    azure: Azure = Azure()
    """For `az://`, `abfs://` and `abfss://`."""
    gcs: Gcs = Gcs()
    """For `gs://`."""
    hdfs: ClientOptions = ClientOptions({})
    """For `hdfs://`: properties of Hadoop's client, by their own names, beside those in the files under `HADOOP_CONF_DIR`. One that is a secret is never shown, and is taken from the environment only, as `${NAME}`."""
    http: Http = Http()
    """For all of them but HDFS."""

    def for_obstore(self, place: Place) -> ForObstore:
        """What obstore takes to open this place. Raises ConfigError where that cannot be had, or the environment speaks of another one."""
        if place.kind == "s3":
            forget_empty(os.environ)
        self._require_no_other(place, os.environ)
        _require_known(place, self.azure.endpoint or any(map(os.environ.get, _ADDRESSES["azure"])))
        client = {**self.http.client(), "allow_http": self._is_plain(place)}
        retry = {"retry_timeout": timedelta(seconds=self.http.retry_seconds)}
        credentials = self._asked_for(place)
        told = self.s3.one_of(os.environ) if place.kind == "s3" else {}
        return ForObstore({**told, **self._config(place)}, client, retry, credentials)

    def for_delta(self, place: Place) -> dict[str, str]:
        """delta-rs' `storage_options` for this place; those for minutes only where keys have to be asked for. Raises ConfigError as `for_obstore` does."""
        if place.kind == "posix":
            return {}
        if place.kind == "hdfs":
            return dict(self.hdfs)
        if place.kind == "s3":
            forget_empty(os.environ)
        # Another pipeline of the program may have told it meanwhile who that is.
        self._require_no_other(place, os.environ)
        self.require_delta_alike(place, os.environ)
        options = {
            delta_name(place.kind, name): delta_text(value) for name, value in self._config(place).items()
        }
        plain = {"allow_http": "true"} if self._is_plain(place) else {}
        clouds: Mapping[Kind, S3 | Azure] = {"s3": self.s3, "azure": self.azure}
        told = clouds[place.kind].told_by(os.environ) if place.kind in clouds else {}
        return {**told, **options, **self._delta_keys(place), **self.http.for_delta(), **plain}

    def tell(self, place: Place, environment: MutableMapping[str, str]) -> None:
        """Have the environment say who asks, before delta-rs is first asked: that of AWS's own stores it reads from there alone, and only once.

        Raises ConfigError where it speaks of another one, who would be taken.
        """
        login = self.s3.login
        if place.kind != "s3" or not self.s3.is_aws(environment):
            return
        if login.web_identity_token_file is not None:
            self._tell_role(place, environment)
        if self.s3.region is not None and login.is_by_token(environment) and not region_of(environment):
            # It asks AWS's token service nothing without one, whatever the settings say.
            environment["AWS_DEFAULT_REGION"] = self.s3.region

    def _tell_role(self, place: Place, environment: MutableMapping[str, str]) -> None:
        login = self.s3.login
        told = given(AWS_WEB_IDENTITY_TOKEN_FILE=login.web_identity_token_file, AWS_ROLE_ARN=login.role_arn)
        _refuse(
            place, [name for name, value in told.items() if environment.get(name) not in {None, "", value}]
        )
        if any(environment.get(name) != value for name, value in told.items()):
            environment[ROLE_OF_ONE] = "true"
        environment.update({name: str(value) for name, value in told.items()})
        # It is a name in AWS's logs, and as in AWS's own tools what the process was started with wins.
        environment.setdefault("AWS_ROLE_SESSION_NAME", login.role_session_name)

    def require_delta_alike(self, place: Place, environment: Mapping[str, str]) -> None:
        """Raises ConfigError where delta-rs would be another one than who asks here.

        It opens tables, and nothing else: what is beside them, and workers, are no concern of it.
        """
        _require_known(place)
        if place.kind == "azure" and (found := self.azure.two_of(environment)):
            raise ConfigError(
                f"storage: {', '.join(found)} in the environment are two who would ask, for {place}: one for files, and delta-rs as the other for tables; "
                "unset what you do not mean for this program and its executors"
            )
        if place.kind != "s3":
            return
        login = self.s3.login
        _refuse(place, self.s3.at_odds_with_delta(environment))
        if found := sorted(self.s3.taken_for_aws(environment)):
            raise ConfigError(
                f"storage: delta-rs would take {', '.join(found)} in the environment for AWS's variables of like names, for {place}, and ask with that; "
                "unset it for this program, or give it another name"
            )
        if not self.s3.is_aws(environment):
            return
        if roles := login.roles_of_delta(environment):
            raise ConfigError(
                f"storage: {', '.join(roles)} in the environment is a role that delta-rs alone would take on, for {place}; "
                "unset it for this program, and name the role as storage.s3.login.role_arn"
            )
        if found := login.container_of_delta(environment):
            raise ConfigError(
                f"storage: {found[0]} in the environment gives keys that delta-rs alone would take, for {place}; unset it for this program, or put the token that "
                "goes with it into a file and name that in AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"
            )
        if login.left_to_files(environment) and (file := file_with_keys(environment, login)) is not None:
            raise ConfigError(
                f"storage: {file} has keys that delta-rs would take before the role that storage.s3, the environment or the machine says, for {place}; "
                "have AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE name /dev/null for this program, or name that profile as storage.s3.login.profile"
            )

    def read_once(self, place: Place) -> tuple[object, ...]:
        """What a client for this place reads of files when it is made, as it is now: where that has changed another client is needed."""
        if place.kind == "hdfs":
            return ()
        key = self.gcs.key_file(os.environ) if place.kind == "gcs" else None
        return self.http.read_once() if key is None else (*self.http.read_once(), tag_of(key))

    def keys_are_away(self, place: Place) -> bool:
        """Whether keys for a place have to be asked for, and nobody answered when that was done last."""
        credentials = self._asked_for(place)
        return credentials is not None and credentials.away

    def _asked_for(self, place: Place) -> AwsCredentials | None:
        """What gives the keys that have to be asked for, where there are such."""
        if place.kind != "s3":
            return None
        return self.s3.login.credentials(os.environ.get("AWS_REGION") or self.s3.region)

    def masked(self, text: str) -> str:
        """The text with every secret of these options blotted out."""
        login, azure = self.s3.login, self.azure
        secrets = (
            *(login.secret_access_key, login.session_token),
            *(azure.account_key, azure.sas_token, azure.client_secret),
            self.gcs.service_account_key,
        )
        for secret in filter(None, secrets):
            text = text.replace(secret, "***")
        return without_secrets(text, self.hdfs) if self.hdfs else text

    def _require_no_other(self, place: Place, environment: Mapping[str, str]) -> None:
        """The crate takes what the settings say, and of all else what the environment says: of two identities it would make one."""
        groups: Mapping[str, S3 | Azure | Gcs] = {"s3": self.s3, "azure": self.azure, "gcs": self.gcs}
        _refuse(place, groups[place.kind].at_odds(environment))

    def _config(self, place: Place) -> Config:
        if place.kind == "s3":
            return self.s3.config(place.bucket)
        return self.azure.config(place.account) if place.kind == "azure" else self.gcs.config()

    def _is_plain(self, place: Place) -> bool:
        """Whether the address is one without TLS: the one that is given, or else the environment's."""
        config = self._config(place)
        given = str(config.get("endpoint") or config.get("base_url") or "")
        told = [given] if given else filter(None, map(os.environ.get, _ADDRESSES[place.kind]))
        return next(iter(told), "").startswith("http://")

    def _delta_keys(self, place: Place) -> dict[str, str]:
        credentials = self._asked_for(place)
        if credentials is None:
            return {}
        keys = credentials()
        token = {"AWS_SESSION_TOKEN": keys["token"]} if keys["token"] else {}
        return {
            "AWS_ACCESS_KEY_ID": keys["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": keys["secret_access_key"],
            **token,
        }


def _require_known(place: Place, address: object = None) -> None:
    """Raises ConfigError for an account of another cloud, unless its address is said."""
    if place.is_of_another_cloud and not address:
        raise ConfigError(
            f"storage: {place} is in another cloud than Azure's public one, of which no client knows by such a URL; write az://container/lake, with account "
            "and endpoint in storage.azure"
        )


def _refuse(place: Place, variables: Iterable[str]) -> None:
    """Raises ConfigError where there are variables that would be taken beside, or in the place of, what the settings say."""
    if found := sorted(set(variables)):
        raise ConfigError(
            f"storage: {', '.join(found)} in the environment would be taken beside what storage.{place.kind} says, for {place};"
            " unset it for this program and its executors (where another pipeline of the program has set it, give that one a process of its own),"
            " or leave the matter to the environment"
        )
