"""One server process of the local stack: started, awaited, found again after our crash, ended."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from distributary.errors import SetupError
from distributary.files import replace
from distributary.producer_sim.stack.ports import free_port, require_free
from distributary.producer_sim.stack.processes import Children, ProcessId, alive, find_process, last_lines


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What `distributary stack status` says about one server.

    port   the last one used when it is down
    keeps  whether what it holds is there again at its next start
    """

    name: str
    running: bool
    pid: int | None
    address: str | None
    port: int | None
    folder: str
    log: str
    keeps: bool


@dataclass(frozen=True, slots=True)
class _State:
    """What is written down: the ports before the process starts, the process as soon as it has started."""

    ports: Mapping[str, int]
    process: ProcessId | None = None


class Service(ABC):
    """A server with a folder of its own for its data, its log and its state.

    A subclass says how it is set up and started (`_command`), what address users give (`_address`) and
    when it can be used (`_ready`). Ports stay the same from one start to the next unless others are asked for.
    """

    name: str
    port_option: str
    port_names: tuple[str, ...] = ("main",)
    keeps = True
    start_seconds = 90.0
    stop_seconds = 30.0

    # Somebody else can take a free port before the server listens there: then it is started on others.
    _moves = 2

    # A program's servers share one, since they may outlive the object that started them.
    _children = Children()

    def __init__(self, folder: Path, port: int | None = None) -> None:
        """Manage the server of this folder.

        `port`: None is the one it had last time, or else a free one; 0 is a free one.
        """
        self.folder = folder.absolute()
        self.log = self.folder / "server.log"
        self._wanted_port = port
        self._moves_left = 0

    @property
    def port(self) -> int:
        """The port it listens on, or did when it ran last. Raises SetupError if it never ran."""
        state = self._read_state()
        if state is None:
            raise SetupError(
                f"the {self.name} in {self.folder} was never started: run `distributary stack up`"
            )
        return state.ports["main"]

    @property
    def process(self) -> ProcessId | None:
        """Its running process, also one that an earlier run of ours left behind."""
        state = self._read_state()
        if state is not None and state.process is not None and alive(state.process):
            return state.process
        return find_process(self._mark)

    @property
    def has_run(self) -> bool:
        """Whether the folder is one that a server of ours had."""
        return self._state_file.exists() or self.log.exists()

    def start(self) -> None:
        """Start the server, or adopt the one that runs, and wait until it can be used. Raises SetupError."""
        self.launch()
        self.wait_ready()

    def launch(self) -> bool:
        """Start the process without waiting for it; false when it runs already."""
        running = self.process
        if running is not None:
            self._adopt(running)
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        told = self._wanted_port or self._read_state() is not None
        self._moves_left = 0 if told else self._moves
        self._launch()
        return True

    def wait_ready(self) -> None:
        """Wait until the server can be used. Raises SetupError with the end of its log if it does not come up."""
        deadline = time.monotonic() + self.start_seconds
        while not self._ready():
            if self.process is None and not self._moved():
                raise SetupError(self._failure("ended while starting"))
            if time.monotonic() > deadline:
                raise SetupError(self._failure(f"was not ready within {self.start_seconds:.0f} seconds"))
            time.sleep(0.1)

    def stop(self) -> None:
        """End the server in good order; its data stays. One that does not run is fine."""
        running = self.process
        if running is not None:
            self._children.stop(running, self.stop_seconds)

    def kill(self) -> None:
        """End the server as a crash would; its data stays as the crash leaves it."""
        running = self.process
        if running is not None:
            self._children.kill(running)

    def status(self) -> ServiceStatus:
        """What is known about the server now."""
        running, state = self.process, self._read_state()
        port = state.ports["main"] if state is not None else None
        return ServiceStatus(
            name=self.name,
            running=running is not None,
            pid=running.pid if running is not None else None,
            address=self._address(port) if running is not None and port is not None else None,
            port=port,
            folder=str(self.folder),
            log=str(self.log),
            keeps=self.keeps,
        )

    @abstractmethod
    def _command(self, ports: Mapping[str, int]) -> Sequence[str]:
        """The command that starts the server on these ports, set up if need be; it holds `_mark`."""

    @abstractmethod
    def _address(self, port: int) -> str:
        """What users give their clients to reach the server."""

    @abstractmethod
    def _ready(self) -> bool:
        """Whether the server can be used now; no error while it is not."""

    @property
    def _mark(self) -> str:
        # A system property that nobody reads: with it a process is found though its pid was never written.
        return f"-Ddistributary.service={self.folder}"

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.json"

    def _launch(self) -> None:
        ports = self._choose_ports()
        command = self._command(ports)
        self._write_state(_State(ports))
        self._write_state(_State(ports, self._children.start(command, self.log, self.folder)))

    def _moved(self) -> bool:
        """Whether it was started again, on other ports, after it ended on ones that nobody was told of."""
        if self._moves_left == 0:
            return False
        self._moves_left -= 1
        self._state_file.unlink(missing_ok=True)
        self._launch()
        return True

    def _choose_ports(self) -> dict[str, int]:
        state = self._read_state()
        last = dict(state.ports) if state is not None else {}
        # 0 asks for a free one, and once there is one, whoever was told of it must find the server there again.
        wanted = last | ({"main": self._wanted_port} if self._wanted_port else {})
        ports = {name: wanted.get(name) or free_port() for name in self.port_names}
        require_free(ports["main"], self.name, self.port_option)
        return ports

    def _adopt(self, running: ProcessId) -> None:
        state = self._read_state()
        if state is None:
            raise SetupError(
                f"the {self.name} of {self.folder} runs (process {running.pid}) but its state file is gone:"
                f" run `distributary stack down --folder {self.folder.parent}` first"
            )
        if self._wanted_port and self._wanted_port != state.ports["main"]:
            raise SetupError(
                f"the {self.name} of {self.folder} runs on port {state.ports['main']}, not {self._wanted_port}:"
                f" run `distributary stack down --folder {self.folder.parent}` first to change it"
            )
        self._write_state(_State(state.ports, running))

    def _read_state(self) -> _State | None:
        try:
            found = json.loads(self._state_file.read_text(encoding="utf-8"))
            process = found["process"]
            return _State(found["ports"], ProcessId(**process) if process else None)
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            # Never started, or a file that a loss of power emptied: the mark still finds what runs.
            return None

    def _write_state(self, state: _State) -> None:
        replace(self._state_file, json.dumps(asdict(state)).encode())

    def _failure(self, what: str) -> str:
        return f"the {self.name} {what}; its log is {self.log} and ends with:\n{last_lines(self.log)}"
