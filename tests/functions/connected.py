"""A notebook of somebody who has Spark Connect, as a program: its arguments are a registry's address, an Avro subject, and a record in hex."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from distributary import functions

LOOPBACK = "127.0.0.1"


def main(address: str, subject: str, record: str) -> None:
    """Print what the functions make of the record, as JSON."""
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.driver.host", LOOPBACK)
        .config("spark.driver.bindAddress", LOOPBACK)
        .config("spark.connect.grpc.binding.address", LOOPBACK)
        .getOrCreate()
    )
    frame = spark.createDataFrame(
        [(number, bytes.fromhex(record)) for number in range(3)], "n int, value binary"
    )
    options = {"schema.registry.subject": subject, "schema.registry.address": address}
    decoded = functions.decode(frame, registry=address, subject=subject)
    column = frame.select("n", functions.from_avro("value", options=options).alias("event"))
    found = {
        "session": type(spark).__module__,
        "decode": [row.asDict() for row in decoded.collect()],
        "from_avro": [row.asDict(recursive=True) for row in column.collect()],
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
