"""grpcio-tools' protoc, asked for descriptors without a word on the process's standard error."""

from __future__ import annotations

import ast
import errno
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Container, Iterable, Mapping
from importlib import import_module
from importlib.resources import files as package_files
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import _protoc_compiler

from distributary.errors import BadSchema, SetupError

# Its importer is built for one caller, and our filter of its warnings is the whole process's.
_one_at_a_time = Lock()

_SECONDS = 60

_SPACE_OR_COMMENT = r"(?:\s|//[^\n]*(?:\n|$)|/\*(?:[^*]|\*(?!/))*\*/)*"

_NAMES_ITS_SYNTAX = re.compile(_SPACE_OR_COMMENT + r"(?:syntax|edition)\b")

# Imports that Confluent's registry knows without a reference; confluent-kafka ships their descriptors.
_CONFLUENT = {
    "confluent/meta.proto": "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent/type/decimal.proto": "confluent_kafka.schema_registry.confluent.type.decimal_pb2",
    "confluent/type/variant.proto": "confluent_kafka.schema_registry.confluent.type.variant_pb2",
    "confluent/types/decimal.proto": "confluent_kafka.schema_registry.confluent.types.decimal_pb2",
}


def compile_files(
    root: str, texts: Mapping[str, str], descriptors: Mapping[str, FileDescriptorProto]
) -> FileDescriptorSet:
    """The descriptor of the text called `root` and before it of all it imports, from `texts` or `descriptors`.

    Names must have passed `checked_import_name`. Raises BadSchema with protoc's message.
    """
    descriptors = {**_confluent_imports(texts), **descriptors}
    with TemporaryDirectory(prefix="distributary-protoc-") as folder:
        sources, extra = Path(folder, "sources"), Path(folder, "extra")
        _write(sources, texts)
        # google/protobuf first: decoders know these types by name, whatever copy a registry was given.
        include = [_well_known(), str(sources), _google_types(extra)]
        if descriptors:
            return _by_process(root, include, descriptors, Path(folder))
        return _in_process(root, include, texts)


def _in_process(root: str, include: list[str], texts: Container[str]) -> FileDescriptorSet:
    """In 1 to 2 ms, by the call that imports .proto files as modules: it alone reports errors as objects."""
    with _one_at_a_time:
        warnings.filterwarnings("ignore", category=_protoc_compiler.ProtocWarning)
        try:
            modules = _protoc_compiler.get_protos(root.encode(), [os.fsencode(path) for path in include])
        except _protoc_compiler.ProtocErrors as errors:
            _require_opened(errors.errors(), texts)
            raise BadSchema(f"protoc: {_listed(errors.errors())}") from None
        # Still one at a time: Python 3.11 counts the depth of all threads' syntax trees in one place, and
        # then finds that it does not add up (https://github.com/python/cpython/issues/106905).
        return FileDescriptorSet(file=[_file_of(code) for _, code in modules])


def _require_opened(errors: Iterable[object], texts: Container[str]) -> None:
    """Raises OSError where protoc could not open one of these files, which are there, as where the machine has no more open files to give."""
    for error in islice(errors, 10 * _MOST_ERRORS):
        name, line = (getattr(error, one) for one in ("filename", "line"))
        # What imports one in vain is told of by that, with its line. Of others nobody knows whether they are to be there.
        if line < 0 and _text(name) in texts and _message(error).endswith(_NOT_OPENED):
            raise OSError(errno.EMFILE, f"protoc could not open {_text(name)}: {os.strerror(errno.EMFILE)}?")


_NOT_OPENED = "File not found."


def _by_process(
    root: str, include: list[str], descriptors: Mapping[str, FileDescriptorProto], folder: Path
) -> FileDescriptorSet:
    """In 100 ms and in its own process: only protoc's command line mixes texts and descriptors, and it prints."""
    given, made = folder / "given.pb", folder / "made.pb"
    given.write_bytes(FileDescriptorSet(file=descriptors.values()).SerializeToString())
    command = [
        *(sys.executable, "-c", _RUN, *(f"-I{path}" for path in include)),
        *(f"--descriptor_set_in={given}", "--include_imports", f"--descriptor_set_out={made}", root),
    ]
    done = _done(command, (given, made))
    if done.returncode != 0:
        printed = done.stderr.replace(f"{folder}/sources/", "").strip().splitlines()
        raise BadSchema(f"protoc: {_shortened(printed)}")
    return FileDescriptorSet.FromString(made.read_bytes())


# Who sends these, such as the system that is out of memory, says nothing of the schema.
_BY_OTHERS = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL, signal.SIGTERM}


# By its exit code, as a schema may have anything printed, the words of an error of Python's among it.
_NOT_BEGUN = 75

_RUN = f"""
import sys
try:
    from grpc_tools import protoc
except BaseException:
    sys.exit({_NOT_BEGUN})
sys.exit(protoc.main(sys.argv))
"""

# What becomes of a file of ours when the machine lacks something.
_LACKING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)


def _done(command: list[str], files: Iterable[Path]) -> subprocess.CompletedProcess[str]:
    """What became of the process. Raises BadSchema where it takes too long, and OSError where the machine is to blame."""
    # The first time perhaps it stood still, and all of the machine with it.
    done = _in_time(command) or _in_time(command)
    if done is None:
        raise BadSchema(f"protoc: it was not done after {_SECONDS} s")
    if -done.returncode in _BY_OTHERS:
        raise InterruptedError(errno.EINTR, f"protoc was ended by {signal.Signals(-done.returncode).name}")
    if done.returncode == _NOT_BEGUN:
        raise OSError(errno.EAGAIN, f"protoc could not be begun by {sys.executable}")
    for code in _LACKING if done.returncode != 0 else ():
        # Of these, whose names no schema knows: one may import what is called like an error.
        lines = {f"{file}: {os.strerror(code)}" for file in files}
        if not lines.isdisjoint(map(str.rstrip, done.stderr.splitlines())):
            raise OSError(code, f"protoc: {os.strerror(code)}")
    return done


def _in_time(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    """The same as it ended; None where it takes too long."""
    try:
        # In a session of its own: what a terminal sends to a run is for that to decide about.
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, start_new_session=True
        )
    except subprocess.TimeoutExpired:
        return None
    except (FileNotFoundError, PermissionError) as error:
        raise SetupError(f"protoc could not be run by {sys.executable}: {error}") from error


def _file_of(code: bytes) -> FileDescriptorProto:
    """The descriptor inside a generated module: the one bytes literal given to `AddSerializedFile`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            return FileDescriptorProto.FromString(ast.literal_eval(node.args[0]))
    raise SetupError("grpcio-tools generates modules of an unknown form; install the version in the lock")


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir()
    for name, text in texts.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_with_syntax(text).encode())
        except UnicodeEncodeError:
            raise BadSchema(f"{name} holds characters that are not Unicode") from None
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise BadSchema(f"import name {name!r} is a file and a folder at once") from None


def _with_syntax(text: str) -> str:
    """The text with the syntax it implies, on the same line: protoc would print a warning that it lacks one."""
    text = text.removeprefix("\ufeff")
    return text if _NAMES_ITS_SYNTAX.match(text) else f'syntax = "proto2"; {text}'


def _well_known() -> str:
    return str(package_files("grpc_tools") / "_proto")


def _google_types(folder: Path) -> str:
    """A folder through which only `google/type/*.proto` can be imported, from googleapis-common-protos."""
    (folder / "google").mkdir(parents=True)
    spec = find_spec("google.type")
    if spec is not None and spec.submodule_search_locations:
        (folder / "google" / "type").symlink_to(next(iter(spec.submodule_search_locations)))
    return str(folder)


def _confluent_imports(texts: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
    mentioned = [name for name in _CONFLUENT if name not in texts and _mentions(texts.values(), name)]
    return {name: _shipped(name) for name in mentioned}


def _mentions(texts: Iterable[str], name: str) -> bool:
    return any(name in text for text in texts)


def _shipped(name: str) -> FileDescriptorProto:
    file = FileDescriptorProto.FromString(import_module(_CONFLUENT[name]).DESCRIPTOR.serialized_pb)
    file.name = name
    return file


# Of four million characters that are no schema protoc writes a hundred million.
_MOST_ERRORS, _LONGEST_ERROR = 20, 500


def _listed(errors: Iterable[object]) -> str:
    return _shortened(dict.fromkeys(_message(error) for error in islice(errors, 10 * _MOST_ERRORS)))


def _shortened(errors: Iterable[str]) -> str:
    return "; ".join(error[:_LONGEST_ERROR] for error in islice(errors, _MOST_ERRORS))


def _message(error: object) -> str:
    """One error as protoc prints it; its lines and columns count from 0, and line -1 means the whole file."""
    file, line, column, message = (getattr(error, name) for name in ("filename", "line", "column", "message"))
    place = f"{_text(file)}:{line + 1}:{column + 1}" if line >= 0 else _text(file)
    return f"{place}: {_text(message)}"


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
