from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.errors import SetupError
from distributary.producer_sim.stack.local import LocalStack, default_folder
from distributary.producer_sim.stack.processes import ProcessId, alive
from distributary.producer_sim.stack.service import Service

pytestmark = pytest.mark.stack

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A stack that these tests may stop, kill and start as they like."""
    stack = LocalStack(tmp_path_factory.mktemp("own"))
    yield stack
    stack.down()


def process_of(service: Service) -> ProcessId:
    process = service.process
    assert process is not None
    return process


def topics(stack: LocalStack) -> set[str]:
    return set(AdminClient({"bootstrap.servers": stack.bootstrap_servers}).list_topics(timeout=10).topics)


def create_topic(stack: LocalStack, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)


def record(*fields: tuple[str, str]) -> str:
    return json.dumps(
        {"type": "record", "name": "E", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    )


def register(stack: LocalStack, subject: str, schema: str) -> tuple[int, dict[str, object]]:
    """The registry's status and answer."""
    url = urlsplit(stack.registry_url)
    with closing(HTTPConnection(str(url.hostname), url.port, timeout=10)) as connection:
        path = f"{url.path}/subjects/{subject}/versions"
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        connection.request("POST", path, json.dumps({"schema": schema}), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def assert_same_after(stack: LocalStack, name: str, again: object) -> None:
    """Topics, schema ids, ports and addresses are the same before and after `again()`."""
    stack.up()
    create_topic(stack, name)
    first = register(stack, name, record(("a", "long")))
    places = (stack.bootstrap_servers, stack.registry_url)
    assert callable(again)
    again()
    stack.up()
    assert (stack.bootstrap_servers, stack.registry_url) == places
    assert name in topics(stack)
    assert register(stack, name, record(("a", "long"))) == first
    status, other = register(stack, f"{name}-other", record(("b", "string")))
    assert status == 200
    assert other["id"] != first[1]["id"]


# Both at once, and by a kill; test_each_can_be_away_alone_and_comes_back has either, ended in good order.
@pytest.mark.heavy
def test_topics_and_ids_survive_down_and_up(own: LocalStack) -> None:
    assert_same_after(own, "kept", own.down)


@pytest.mark.heavy
def test_topics_and_ids_survive_a_crash_of_both(own: LocalStack) -> None:
    def crash() -> None:
        own.broker.kill()
        own.registry.kill()

    assert_same_after(own, "crashed", crash)


def test_status_tells_what_runs_and_is_json(own: LocalStack) -> None:
    own.up()
    state = json.loads(json.dumps(asdict(own.status())))
    assert state["running"]
    assert state["broker"]["address"] == own.bootstrap_servers
    assert state["registry"]["address"] == own.registry_url
    assert psutil.pid_exists(state["broker"]["pid"])
    assert Path(state["registry"]["log"]).is_file()


def test_their_java_takes_the_options_that_their_own_scripts_take(own: LocalStack) -> None:
    own.up()
    for service, variable in ((own.broker, "KAFKA_JVM_PERFORMANCE_OPTS"), (own.registry, "JAVA_OPTS_APPEND")):
        wanted = os.environ[variable].split()
        assert wanted
        assert set(wanted) <= set(psutil.Process(process_of(service).pid).cmdline())


def test_status_before_the_first_start(tmp_path: Path) -> None:
    state = LocalStack(tmp_path).status()
    assert (state.running, state.broker.pid, state.registry.address) == (False, None, None)
    with pytest.raises(SetupError, match="never started: run `distributary stack up`"):
        _ = LocalStack(tmp_path).bootstrap_servers


def test_a_folder_that_no_server_of_ours_had_is_not_wiped(tmp_path: Path) -> None:
    for name in ("broker", "registry", "s3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").touch()
    # One of the three had one.
    (tmp_path / "broker" / "server.log").touch()
    LocalStack(tmp_path).down(wipe=True)
    assert not (tmp_path / "broker").exists()
    assert (tmp_path / "registry" / "mine.txt").exists()
    assert (tmp_path / "s3" / "mine.txt").exists()


def test_only_loopback_is_listened_on(own: LocalStack) -> None:
    own.up()
    for service in (own.broker, own.registry):
        connections = psutil.Process(process_of(service).pid).net_connections("inet")
        listening = {found.laddr[0] for found in connections if found.status == psutil.CONN_LISTEN}
        assert listening
        assert listening <= {"127.0.0.1", "::ffff:127.0.0.1"}


def test_backward_compatibility_is_enforced(own: LocalStack) -> None:
    own.up()
    assert register(own, "strict", record(("a", "long")))[0] == 200
    assert register(own, "strict", record(("a", "long"), ("new", "string")))[0] == 409


def test_up_again_changes_nothing(own: LocalStack) -> None:
    assert own.up() == own.up()


def test_another_port_while_it_runs_is_refused(own: LocalStack) -> None:
    own.up()
    with pytest.raises(
        SetupError, match=r"runs on port \d+, not 1024: run `distributary stack down --folder \S+`"
    ):
        LocalStack(own.folder, broker_port=1024).up()
    assert own.status().running


def test_each_can_be_away_alone_and_comes_back_to_its_port_with_what_it_had(own: LocalStack) -> None:
    own.up()
    before = own.status()
    create_topic(own, "stays")
    schema = register(own, "stays", record(("a", "long")))
    own.registry.stop()
    assert "strict" not in topics(own)
    with pytest.raises(ConnectionRefusedError):
        register(own, "away", record(("a", "long")))
    own.registry.start()
    assert register(own, "away", record(("a", "long")))[0] == 200
    assert register(own, "stays", record(("a", "long"))) == schema
    own.broker.stop()
    assert not own.status().broker.running
    assert own.status().registry.running
    own.broker.start()
    assert own.status().broker.address == before.broker.address
    assert "stays" in topics(own)


def test_a_store_runs_beside_them_where_it_is_asked_for_and_is_ended_by_whoever_ends_them(
    own: LocalStack,
) -> None:
    own.up()
    assert own.status().s3 is None
    with_store = LocalStack(own.folder, s3_port=0)
    try:
        with_store.s3.prepare()
    except SetupError as missing:
        pytest.skip(str(missing))
    state = with_store.up()
    assert state.running
    assert state.s3 is not None and state.s3.address == with_store.s3.endpoint
    assert own.status().s3 == state.s3
    with_store.s3.kill()
    assert own.status().running, "nobody asked for the store"
    assert not with_store.status().running
    store = with_store.up().s3
    assert store is not None and store.running
    own.down()
    assert not with_store.status().broker.running
    assert with_store.s3.process is None


PARENT = """\
import sys
from pathlib import Path
from distributary.producer_sim.stack.local import LocalStack
LocalStack(Path(sys.argv[1])).up()
print("up", flush=True)
sys.stdin.read()
"""


# One start for all of it: each would take a broker and a registry of its own.
def test_what_a_killed_parent_left_is_adopted_found_without_its_pid_ended_after_an_error_and_wiped(
    own: LocalStack,
) -> None:
    own.down()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(own.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        os.kill(parent.pid, signal.SIGKILL)
    left = [process_of(own.broker), process_of(own.registry)]
    with pytest.raises(ZeroDivisionError), own:
        assert [process_of(own.broker), process_of(own.registry)] == left, "adopted, not started again"
        state = own.broker.folder / "state.json"
        state.write_text(json.dumps(json.loads(state.read_text("utf-8")) | {"process": None}), "utf-8")
        assert own.broker.process == left[0]
        own.up()
        assert process_of(own.broker) == left[0]
        raise ZeroDivisionError
    assert not any(alive(process) for process in left)
    assert (own.broker.folder / "data").is_dir()
    own.down(wipe=True)
    assert not own.broker.folder.exists()
    assert not own.registry.folder.exists()
    assert own.status().s3 is None


def test_a_process_that_got_an_old_pid_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as innocent:
        stack = LocalStack(tmp_path)
        stack.broker.folder.mkdir()
        stale = {"ports": {"main": 1, "controller": 2}, "process": {"pid": innocent.pid, "started": 1.0}}
        (stack.broker.folder / "state.json").write_text(json.dumps(stale), "utf-8")
        assert stack.broker.process is None
        stack.down()
        assert innocent.poll() is None
        innocent.communicate(b"\n")


# The registry's takes a broker that runs before it.
@pytest.mark.parametrize("service", ["broker", pytest.param("registry", marks=pytest.mark.heavy)])
def test_a_taken_port_is_named_with_the_way_out(tmp_path: Path, service: str) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        stack = LocalStack(tmp_path, **{f"{service}_port": port})
        with pytest.raises(SetupError, match=rf"port {port} .* is taken .*--{service}-port") as caught:
            stack.up()
    assert f"process {os.getpid()}" in str(caught.value)
    assert not stack.status().broker.running, "what was started with it is ended again"


def test_a_port_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="70000 is no port"):
        LocalStack(tmp_path, broker_port=70_000).up()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    stack = LocalStack(tmp_path)
    data = stack.broker.folder / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=abc\nnode.id=77\n", encoding="utf-8")
    with pytest.raises(SetupError, match="Kafka broker ended while starting; its log is") as caught:
        stack.broker.start()
    assert str(stack.broker.log) in str(caught.value)
    assert "77" in str(caught.value)


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match=r"cannot use the stack's folder .* --folder"):
        LocalStack(tmp_path / "file" / "stack").up()


def test_default_folder_is_the_users() -> None:
    assert LocalStack().folder == default_folder()
    assert default_folder().is_relative_to(Path.home())


def test_the_page_s_lines_make_a_topic_and_put_a_record_into_it(stack: LocalStack) -> None:
    page = (ROOT / "docs" / "how-to" / "local-stack.md").read_text(encoding="utf-8")
    (lines,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "NewTopic" in block)
    topic = f"customers-{uuid.uuid4().hex}"
    exec(lines.replace("127.0.0.1:9092", stack.bootstrap_servers).replace('"customers"', f'"{topic}"'), {})  # noqa: S102
    reader = Consumer({"bootstrap.servers": stack.bootstrap_servers, "group.id": topic})
    try:
        found = [reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10) for number in (0, 1)]
    finally:
        reader.close()
    assert sorted(found) == [(0, 0), (0, 1)]
