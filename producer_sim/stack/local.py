"""The local stack: a real Kafka broker, a real schema registry and, if asked for, an object store, without Docker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import platformdirs
from typing_extensions import Self

from distributary.errors import SetupError
from distributary.files import file_lock
from distributary.ingest.spark.artifacts import Report, to_stderr
from distributary.producer_sim.stack.apicurio import ApicurioRegistry
from distributary.producer_sim.stack.kafka_broker import KafkaBroker
from distributary.producer_sim.stack.s3_store import S3Store
from distributary.producer_sim.stack.service import Service, ServiceStatus


@dataclass(frozen=True, slots=True)
class StackStatus:
    """What `distributary stack status` says; `dataclasses.asdict` makes it JSON.

    running  whether broker and registry run, and the store if it was asked for
    s3       None where the folder never had a store
    """

    folder: str
    running: bool
    broker: ServiceStatus
    registry: ServiceStatus
    s3: ServiceStatus | None


def default_folder() -> Path:
    """Where the user's stack keeps topics, schemas and logs unless he names a folder."""
    return platformdirs.user_state_path("distributary") / "stack"


# So that two do not start servers over one folder.
_LOCK = "stack.lock"


class LocalStack:
    """A real Kafka broker and schema registry on this machine; what they hold stays across `down` and `up`.

    As a context manager both run inside the `with` block: `with LocalStack(Path("stack")) as stack: ...`. It ends them
    afterwards; their topics and schemas stay in the folder.

    Started by `up`, both run on after this object, and after this program, until `down` ends them. `broker`, `registry` and `s3`
    can be stopped and started alone; they come back on the same port.

    With an `s3_port` a store that speaks S3 runs beside them: `s3.url` and `s3.storage()` are what a pipeline's settings take
    as `sink.root` and `storage`. It holds all in memory: what is in it ends with it.
    """

    def __init__(
        self,
        folder: Path | None = None,
        broker_port: int | None = None,
        registry_port: int | None = None,
        report: Report = to_stderr,
        s3_port: int | None = None,
    ) -> None:
        """Manage the stack of this folder.

        Ports: None is the one used last time, or else a free one; 0 is a free one. `s3_port`: None is no store.
        """
        self.folder = (folder or default_folder()).expanduser().absolute()
        self.broker = KafkaBroker(self.folder / "broker", broker_port, report)
        self.registry = ApicurioRegistry(self.folder / "registry", registry_port, report)
        self.s3 = S3Store(self.folder / "s3", s3_port)
        self._with_s3 = s3_port is not None

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def bootstrap_servers(self) -> str:
        """What Kafka clients take as `bootstrap.servers`."""
        return self.broker.bootstrap_servers

    @property
    def registry_url(self) -> str:
        """What Confluent's registry clients take as `url`."""
        return self.registry.url

    def up(self) -> StackStatus:
        """Start what does not run yet and wait until all can be used. Raises SetupError.

        Servers that an earlier run of ours left behind are adopted. When one cannot start, the one that
        was started with it is ended again.
        """
        with self._alone():
            for asked in self._asked_for:
                asked.prepare()
            started: list[Service] = []
            try:
                for asked in self._asked_for:
                    if asked.launch():
                        started.append(asked)
                for asked in self._asked_for:
                    asked.wait_ready()
            except BaseException:
                for service in started:
                    service.stop()
                raise
        return self.status()

    def down(self, wipe: bool = False) -> StackStatus:
        """End all in good order; `wipe` also deletes their topics, schemas and logs."""
        with self._alone():
            for service in self._there:
                service.stop()
                # Somebody may have a folder that is called so where the stack never ran.
                if wipe and service.has_run:
                    shutil.rmtree(service.folder, ignore_errors=True)
        return self.status()

    def status(self) -> StackStatus:
        """What runs now, where, and where the logs are."""
        broker, registry = self.broker.status(), self.registry.status()
        s3 = self.s3.status() if self.s3 in self._there else None
        running = (
            broker.running and registry.running and (not self._with_s3 or (s3 is not None and s3.running))
        )
        return StackStatus(str(self.folder), running, broker, registry, s3)

    @property
    def has_others(self) -> bool:
        """Whether its folder has anything in it that no stack puts there."""
        ours = {_LOCK, *(one.folder.name for one in (self.broker, self.registry, self.s3))}
        return any(one.name not in ours for one in self.folder.iterdir())

    @property
    def _asked_for(self) -> Sequence[KafkaBroker | ApicurioRegistry | S3Store]:
        both = (self.broker, self.registry)
        return (*both, self.s3) if self._with_s3 else both

    @property
    def _there(self) -> Sequence[Service]:
        """With the store, whoever asked for it."""
        both = (self.broker, self.registry)
        return (*both, self.s3) if self._with_s3 or self.s3.folder.is_dir() else both

    @contextmanager
    def _alone(self) -> Iterator[None]:
        # Two `up` at the same time would start two brokers over one folder.
        try:
            with file_lock(self.folder / _LOCK):
                yield
        except OSError as error:
            raise SetupError(
                f"cannot use the stack's folder {self.folder}: {error.strerror or error};"
                " make it writable or name another one with --folder"
            ) from error


def running_stack(otherwise: str) -> LocalStack:
    """The user's stack, which runs. Raises SetupError, which says to do `otherwise`, if it does not."""
    stack = LocalStack()
    if not stack.status().running:
        raise SetupError(
            f"the local stack does not run; start it with `distributary stack up`, or {otherwise}"
        )
    return stack
