"""Reads ranges of a topic's partitions with librdkafka, as Arrow batches. Nothing here imports Spark."""
