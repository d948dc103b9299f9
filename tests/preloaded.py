"""What the tests' Spark workers are forked with; see `ingest/spark/daemon.py`."""

from __future__ import annotations

FOR_WORKERS = (
    "distributary.ingest.worker.demux",
    "distributary.codecs.avro.codec",
    "distributary.codecs.json.codec",
    "distributary.codecs.jsonschema.codec",
    "distributary.codecs.mixed.codec",
    "distributary.codecs.protobuf.codec",
    "ptars",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.pandas.serializers",
)
