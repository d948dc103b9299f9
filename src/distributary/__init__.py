"""Schema-registry-aware ingestion: one Kafka topic in, one Delta table an entity out, in one pass."""

__version__ = "0.1.0"
