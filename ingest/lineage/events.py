"""What a run tells data catalogues: OpenLineage's events, made of a pipeline's graph, as the standard client has them.

https://openlineage.io/docs/spec/object-model
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    DatasetFacet,
    RunFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    parent_run,
    schema_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from distributary.ingest.lineage.flow import Flow, FlowNode
from distributary.ingest.lineage.naming import dataset_name, made_of, sent_on, sources_of, tables_of

if TYPE_CHECKING:
    from distributary.ingest.derived.refresh import Refreshed

# A message is for people, and not for all that a program might say.
_LONGEST_MESSAGE = 1000


@dataclass(frozen=True, slots=True)
class Telling:
    """One run, as each of its events names it.

    producer   tells distributary, and which version of it
    job        the pipeline
    run        tells the run from all others
    command    of a command about the pipeline, which is a job of its own, what it is called
    """

    producer: str
    namespace: str
    job: str
    run: str
    command: str = ""

    @classmethod
    def begun(cls, producer: str, namespace: str, job: str, command: str = "") -> Telling:
        """A run that begins now."""
        return cls(producer, namespace, job, str(generate_new_uuid()), command)

    @property
    def own_job(self) -> str:
        """What the job is called that runs."""
        return f"{self.job}.{self.command}" if self.command else self.job

    def of_run(self, state: RunState, at: float, flow: Flow | None = None, why: str = "") -> RunEvent:
        """That the run began, goes on or ended, with what the pipeline reads and writes as far as that is known."""
        topics = [] if flow is None else sources_of(flow)
        tables = [] if flow is None else tables_of(flow)
        outputs = [self._output(one, _of_records(one, topics)) for one in tables]
        job, run = self._job(self.own_job, "STREAMING"), Run(self.run, self._failed(why))
        return self._event(state, at, run, job, _inputs(topics), outputs)

    def of_command(  # noqa: PLR0913, PLR0917 - what an event tells
        self,
        state: RunState,
        at: float,
        flow: Flow | None,
        read: Sequence[str],
        rows: Mapping[str, int],
        why: str = "",
    ) -> RunEvent:
        """That a command began or ended which reads what is of these kinds, and has put so many rows into tables, by their folders."""
        nodes = () if flow is None else flow.nodes
        outputs = [self._output(one, rows=rows[one.name]) for one in nodes if one.name in rows]
        job, run = self._job(self.own_job, "BATCH"), Run(self.run, self._failed(why))
        return self._event(state, at, run, job, _inputs(one for one in nodes if one.kind in read), outputs)

    def of_derived(self, done: Refreshed, flow: Flow, at: float) -> Iterator[RunEvent]:
        """That a derived table was made current, or was not: the beginning of that, and its end."""
        node = flow.node(f"table:{done.table}")
        job = self._job(f"{self.job}.{done.table}", "BATCH")
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(self.run),
            job=parent_run.Job(self.namespace, self.own_job),
            producer=self.producer,
        )
        run = Run(str(generate_new_uuid()), {"parent": parent})
        of = {one.name: one for one in made_of(flow, node)}
        inputs = [self._input(one, done.inputs.get(name)) for name, one in of.items()]
        yield self._event(RunState.START, at - done.seconds, run, job, inputs, [])
        failed = done.how == "failed"
        outputs = (
            []
            if failed
            else [
                self._output(node, _of_columns(done, of), done.rows),
                *map(self._output, sent_on(flow, node)),
            ]
        )
        ended = Run(run.runId, {"parent": parent, **(self._failed(done.why) if failed else {})})
        yield self._event(RunState.FAIL if failed else RunState.COMPLETE, at, ended, job, inputs, outputs)

    def _event(  # noqa: PLR0913, PLR0917 - the parts of an event
        self,
        state: RunState,
        at: float,
        run: Run,
        job: Job,
        inputs: Sequence[InputDataset],
        outputs: Sequence[OutputDataset],
    ) -> RunEvent:
        when = datetime.fromtimestamp(at, timezone.utc).isoformat()
        return RunEvent(
            eventTime=when,
            producer=self.producer,
            run=run,
            job=job,
            eventType=state,
            inputs=list(inputs),
            outputs=list(outputs),
        )

    def _job(self, name: str, how: str) -> Job:
        about = job_type_job.JobTypeJobFacet(
            processingType=how, integration="DISTRIBUTARY", jobType="JOB", producer=self.producer
        )
        return Job(self.namespace, name, {"jobType": about})

    def _failed(self, why: str) -> dict[str, RunFacet]:
        if not why:
            return {}
        told = error_message_run.ErrorMessageRunFacet(
            message=why[:_LONGEST_MESSAGE], programmingLanguage="PYTHON", producer=self.producer
        )
        return {"errorMessage": told}

    def _input(self, node: FlowNode, version: int | None) -> InputDataset:
        told = {}
        if version is not None:
            told["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
                datasetVersion=str(version), producer=self.producer
            )
        return InputDataset(**asdict(dataset_name(node)), facets=dict(told))

    def _output(
        self,
        node: FlowNode,
        came_from: Mapping[str, column_lineage_dataset.Fields] | None = None,
        rows: int | None = None,
    ) -> OutputDataset:
        """A dataset with its columns, where each came from, and how many rows it was given."""
        facets: dict[str, DatasetFacet] = {}
        if node.columns:
            facets["schema"] = schema_dataset.SchemaDatasetFacet(
                fields=[
                    schema_dataset.SchemaDatasetFacetFields(name=one.name, type=one.type)
                    for one in node.columns
                ],
                producer=self.producer,
            )
        if came_from:
            facets["columnLineage"] = column_lineage_dataset.ColumnLineageDatasetFacet(
                fields=dict(came_from), producer=self.producer
            )
        counted = {}
        if rows is not None:
            counted["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=rows, producer=self.producer
            )
        return OutputDataset(**asdict(dataset_name(node)), facets=facets, outputFacets=dict(counted))


def _inputs(nodes: Iterable[FlowNode]) -> list[InputDataset]:
    return [InputDataset(**asdict(dataset_name(one))) for one in nodes]


def _of_records(node: FlowNode, topics: Sequence[FlowNode]) -> Mapping[str, column_lineage_dataset.Fields]:
    """Which field of a topic's records each column of a table holds."""
    return {
        one.name: column_lineage_dataset.Fields(
            inputFields=[_field(topic, one.source, one.masked) for topic in topics]
        )
        for one in node.columns
        if one.source is not None
    }


def _of_columns(done: Refreshed, of: Mapping[str, FlowNode]) -> Mapping[str, column_lineage_dataset.Fields]:
    """Of which columns of its inputs each column of a derived table is made."""
    return {
        name: column_lineage_dataset.Fields(
            inputFields=[
                column_lineage_dataset.InputField(
                    **asdict(dataset_name(of[one.table])),
                    field=one.column,
                    transformations=[
                        column_lineage_dataset.Transformation(type="DIRECT", subtype=one.how, masking=False)
                    ],
                )
                for one in found
            ]
        )
        for name, found in done.columns.items()
        if all(one.table in of for one in found)
    }


def _field(topic: FlowNode, field: str, masked: bool) -> column_lineage_dataset.InputField:
    """A field of a record as what a column holds."""
    how = column_lineage_dataset.Transformation(
        type="DIRECT", subtype="TRANSFORMATION" if masked else "IDENTITY", masking=masked
    )
    return column_lineage_dataset.InputField(
        **asdict(dataset_name(topic)), field=field, transformations=[how]
    )
