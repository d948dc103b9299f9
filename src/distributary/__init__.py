"""Schema-registry-aware ingestion: one Kafka topic in, one Delta table an entity out, in one pass."""
