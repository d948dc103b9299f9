"""Fetches exact artifacts with the Apache Ivy jar that PySpark ships: no poms, no transitive search."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from distributary.errors import SetupError
from distributary.ingest.spark.artifact_list import Artifact
from distributary.ingest.spark.java import find_java

SETTINGS_VARIABLE = "DISTRIBUTARY_IVY_SETTINGS"

_MAVEN = "http://ant.apache.org/ivy/maven"

# No host is named: `ibiblio` is Ivy's word for its default public repository. Poms are ignored because the
# lists are complete, and because some of the poms and parents they name cannot be had everywhere.
_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" useMavenMetadata="false" checkconsistency="false"/>
  </resolvers>
</ivysettings>
"""

_NO_NETWORK = re.compile(
    r"Host \S+ not found|UnknownHost|Connect(ion)? ?(Exception|timed out|refused)|SSLException"
)

_NO_DISK = re.compile(r"No space left on device|Disk quota exceeded")


def retrieve(artifacts: Sequence[Artifact], target: Path, work: Path) -> None:
    """Bring all `artifacts` into the folder `target`, under their `file_name`s. Raises SetupError.

    `work` keeps Ivy's own cache and log, so that an interrupted download is not started from nothing.
    """
    work.mkdir(parents=True, exist_ok=True)
    (work / "ivy.xml").write_text(_ivy_file(artifacts), encoding="utf-8")
    log = work / "ivy.log"
    command = [
        *(str(find_java().path), "-jar", str(_ivy_jar())),
        *(
            "-settings",
            str(_settings_file(work)),
            "-ivy",
            str(work / "ivy.xml"),
            "-cache",
            str(work / "cache"),
        ),
        *("-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    with log.open("w", encoding="utf-8") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    missing = [artifact for artifact in artifacts if not (target / artifact.file_name).is_file()]
    if code != 0 or missing:
        raise SetupError(_failure(log, missing or artifacts))


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec is not None and spec.origin is not None else Path()
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise SetupError(
            f"no ivy-*.jar in {folder}: install pyspark from its wheel again (pip install pyspark)"
        )
    return found[-1]


def _settings_file(work: Path) -> Path:
    own = os.environ.get(SETTINGS_VARIABLE)
    if own:
        path = Path(own).expanduser()
        if not path.is_file():
            raise SetupError(f"{SETTINGS_VARIABLE} names {path}, which is not a file: correct or unset it")
        return path
    path = work / "ivysettings.xml"
    path.write_text(_SETTINGS, encoding="utf-8")
    return path


def _ivy_file(artifacts: Sequence[Artifact]) -> str:
    ElementTree.register_namespace("m", _MAVEN)
    module = ElementTree.Element("ivy-module", {"version": "2.0"})
    ElementTree.SubElement(module, "info", {"organisation": "distributary", "module": "artifacts"})
    ElementTree.SubElement(ElementTree.SubElement(module, "configurations"), "conf", {"name": "default"})
    dependencies = ElementTree.SubElement(module, "dependencies")
    for artifact in artifacts:
        _add_dependency(dependencies, artifact)
    return ElementTree.tostring(module, encoding="unicode")


def _add_dependency(dependencies: ElementTree.Element, artifact: Artifact) -> None:
    dependency = ElementTree.SubElement(
        dependencies,
        "dependency",
        {"org": artifact.org, "name": artifact.name, "rev": artifact.revision, "conf": "default->default"},
    )
    if artifact.classifier:
        attributes = {"name": artifact.name, "type": artifact.extension, "ext": artifact.extension}
        ElementTree.SubElement(
            dependency, "artifact", attributes | {f"{{{_MAVEN}}}classifier": artifact.classifier}
        )


def _failure(log: Path, missing: Sequence[Artifact]) -> str:
    text = log.read_text(encoding="utf-8", errors="replace")
    names = ", ".join(artifact.file_name for artifact in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    if _NO_DISK.search(text):
        return f"the disk is full: cannot store {names}{more}; free some space or set DISTRIBUTARY_CACHE (log: {log})"
    if _NO_NETWORK.search(text):
        return (
            f"no network: cannot fetch {names}{more}; go online once, set JAVA_TOOL_OPTIONS for a proxy, or name"
            f" a mirror in an Ivy settings file with {SETTINGS_VARIABLE} (log: {log})"
        )
    return (
        f"the artifact repository does not give {names}{more}; name another one in an Ivy settings file with"
        f" {SETTINGS_VARIABLE} (log: {log})"
    )
