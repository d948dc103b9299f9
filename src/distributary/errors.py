"""Everything distributary raises on purpose.

Each message says what happened, where, and what to do; none holds a payload or a secret.

DistributaryError
├── ConfigError               the settings cannot work; fix them before running           (exit code 2)
├── SetupError                something outside is missing: Java, a jar, a port, disk     (exit code 2)
│   └── CredentialsRefused    a server does not accept who asks: a ConfigError, too           (exit code 2)
├── CheckFailed               a verification did not hold                                 (exit code 3)
├── SchemaError               a schema cannot be had or cannot be used
│   ├── SchemaNotFound        the registry knows no such schema id, subject or version
│   │   └── NotOffered        this registry has no such call at all
│   ├── RegistryUnavailable   the registry does not answer: wait, never quarantine
│   │   └── RegistryFault     it answers this one question with an error of its own, or not at all
│   │       └── RegistryBusy  it says that it has too much to do, as by HTTP 429
│   ├── RegistryChanged       the registry gives another schema under an id than it did before
│   ├── UnknownFieldException a record is newer than the schemas that a query began with: start it again
│   └── BadSchema             the schema's text does not compile or cannot become a table
├── CodecError                a codec cannot work at all
│   ├── UnknownCodec          no codec goes by that name
│   ├── BadRecord             a record cannot be decoded, and the query said FAILFAST
│   └── DecoderUnavailable    a decoder needs something that is not on the class path
└── PipelineError             the run stops
    ├── BrokerUnavailable     Kafka does not answer: worth another try
    ├── LeaseHeld             another run holds this checkpoint
    ├── Fenced                another run has begun with this checkpoint since: this one can decide nothing any more
    ├── AnswerLost            the run had decided a batch before without being told: worth another try
    ├── CheckpointMismatch    the checkpoint's files, the tables, the topic or the cluster disagree
    │   ├── TableAhead        a table has a batch that this log does not: the log is an old copy, or one of two
    │   └── NewerFormat       a newer version of distributary wrote a file: use that version, or a later one
    ├── TablesOfAnotherRun    the tables were filled from another checkpoint
    ├── EvolutionStopped      the schema changed and the settings say `fail`
    ├── PolicyStopped         a record or a change met a policy that says `fail`
    ├── SumsDisagree          what was read is not what was written: stopped before anything was visible
    ├── CommitImpossible      a table cannot take its files any more; `distributary resolve` decides
    └── BudgetSpent           too many failures, or too many evolution restarts, in their window
"""

from __future__ import annotations

import traceback


class DistributaryError(Exception):
    """The root of everything distributary raises on purpose.

    `exit_code` is the command line's. `fatal`: a run that meets it ends, since trying again cannot help before somebody
    has decided or mended something.
    """

    exit_code = 1
    fatal = False


class ConfigError(DistributaryError, ValueError):
    """The settings cannot work; the message says where and what to write instead."""

    exit_code = 2
    fatal = True


class SetupError(DistributaryError, RuntimeError):
    """Something outside of distributary is missing or in the way: Java, a jar, a port, disk, the network."""

    exit_code = 2
    fatal = True


class CredentialsRefused(ConfigError, SetupError):
    """A server does not accept who asks: a wrong setting at a start, and what may pass by itself amid a run."""


class CheckFailed(DistributaryError):
    """A verification did not hold; the differences are in the message."""

    exit_code = 3


class SchemaError(DistributaryError):
    """A schema cannot be had or cannot be used."""


class SchemaNotFound(SchemaError, LookupError):
    """The registry knows no such schema id, subject or version."""


class NotOffered(SchemaNotFound):
    """The registry has no such call at all, which is another thing than not to know what was asked for."""


class RegistryUnavailable(SchemaError, ConnectionError):
    """The registry does not answer; a reason to wait, never a bad record."""


class RegistryFault(RegistryUnavailable):
    """The registry answers one question with an error of its own, such as HTTP 500, or never; others it may answer all the same."""


class RegistryBusy(RegistryFault):
    """The registry says that it has too much to do, such as by HTTP 429: asked more slowly it may answer, unless it is always this question."""


class RegistryChanged(SchemaError):
    """The registry gives another schema under an id than before: it was emptied, replaced, or is another one."""

    fatal = True


class UnknownFieldException(SchemaError):
    """A record was written with a newer schema than those that its query began with; starting it again takes it in."""


class BadSchema(SchemaError, ValueError):
    """The schema's text does not compile, or it describes what no table can hold."""


class CodecError(DistributaryError):
    """A codec cannot work at all (one bad record is not an error but a failure in its result)."""

    fatal = True


class UnknownCodec(CodecError, LookupError):
    """No codec goes by that name; the message lists those that exist."""


class BadRecord(CodecError, ValueError):
    """A record cannot be decoded, in a query that fails on the first such one; the message never quotes it."""


class DecoderUnavailable(CodecError, RuntimeError):
    """A decoder needs something that is not there, such as spark-protobuf on Spark's class path."""


class PipelineError(DistributaryError):
    """The run stops; the message says at which topic, partition, offset or table, and what to do."""


class BrokerUnavailable(PipelineError, ConnectionError):
    """Kafka does not answer, or not in time; a reason to try again."""


class LeaseHeld(PipelineError):
    """Another run, still alive, holds this checkpoint."""

    fatal = True


class Fenced(PipelineError):
    """Another run has begun with this checkpoint since this one did, and goes on in its place."""

    fatal = True


class AnswerLost(PipelineError):
    """An earlier attempt of this run decided the batch, and the answer that said so was lost; the next one finishes it."""


class CheckpointMismatch(PipelineError):
    """The checkpoint's files, the tables, the topic or the cluster do not belong together."""

    fatal = True


class TableAhead(CheckpointMismatch):
    """A table has a batch that this log has not come to: the log is an old copy, or one of two."""


class NewerFormat(CheckpointMismatch):
    """A newer version of distributary wrote a file, in a format that this one does not read."""


class TablesOfAnotherRun(PipelineError):
    """The tables were filled from another checkpoint; the setting `start` says how to go on."""

    fatal = True


class EvolutionStopped(PipelineError):
    """A schema changed and the setting `decode.evolution` says `fail`."""

    fatal = True


class PolicyStopped(PipelineError):
    """A record or a change met a policy that says `fail`."""

    fatal = True


class SumsDisagree(PipelineError):
    """What was read is not what was written; the run stopped before anything became visible."""

    fatal = True


class CommitImpossible(PipelineError):
    """Tables cannot take their files any more; `distributary resolve` decides what becomes of them.

    `tables` are their folders under the sink's root; empty where no file of theirs was decided yet.
    """

    fatal = True

    def __init__(self, message: str, tables: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.tables = tables


class BudgetSpent(PipelineError):
    """Too many failures, or too many evolution restarts, within their window."""


def raised_at(error: BaseException) -> str:
    """An error's class and the line that raised it: its words may have a row's values."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {last.filename}, line {last.lineno}"


def unforeseen(error: BaseException) -> str:
    """Why one of several things failed, by an error that nobody has named beforehand."""
    return f"it failed by {raised_at(error)}, which nobody has foreseen"
