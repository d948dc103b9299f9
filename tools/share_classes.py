"""Writes archives of the classes that broker and registry load: the tests' JVMs start from them in half the time.

`python tools/share_classes.py FOLDER` starts both once with a little to do; each writes its archive when it ends (Java's
dynamic class-data sharing, JEP 350). A JVM that an archive does not fit goes on without it. Spark's is `distributary jars`' to write.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from distributary.producer_sim.stack.local import LocalStack
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

TOPIC, SUBJECT = "classes", "classes-value"
SCHEMA = 'syntax = "proto3"; message Loaded { string name = 1; }'

# Where each of them finds options for its Java.
READ_BY = {
    "broker": "KAFKA_JVM_PERFORMANCE_OPTS",
    "registry": "JAVA_OPTS_APPEND",
}

# As the tests' JVMs run.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def write_archives(folder: Path) -> None:
    """Write `broker.jsa` and `registry.jsa` into the folder, in place of what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, variable in READ_BY.items():
        archive = folder / f"{name}.jsa"
        archive.unlink(missing_ok=True)
        os.environ[variable] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={archive} -Xlog:cds*=error"
    with tempfile.TemporaryDirectory() as scratch, LocalStack(Path(scratch) / "stack") as stack:
        admin = AdminClient({"bootstrap.servers": stack.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(30)
        with ConfluentRegistry(RegistryOptions(url=stack.registry_url)) as registry:
            registry.register(SUBJECT, SCHEMA, "PROTOBUF")
            registry.versions(SUBJECT)
        del admin


if __name__ == "__main__":
    write_archives(Path(sys.argv[1]).absolute())
