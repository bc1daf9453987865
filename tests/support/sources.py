"""Sources of pipelines by their options."""

from __future__ import annotations

from kvformat.ingestion.pipeline.source import PipelineSource, parse_source

BASE = {
    "type": "kafka",
    "properties.bootstrap.servers": "broker:9092",
    "topic": "shop",
    "scan.startup.mode": "earliest-offset",
}


def source_of(**options: str) -> PipelineSource:
    return parse_source({key: text for key, text in {**BASE, **options}.items() if text != "(none)"})
