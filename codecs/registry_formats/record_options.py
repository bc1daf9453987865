"""The options of topics with records of several types."""

from __future__ import annotations

from kvformat.codecs.changes.other_messages import ERROR, SKIP
from kvformat.registry.contract.options import Option

RECORD_NAME, RECORD_COLUMNS, OTHER_MESSAGES = "record-name", "record-columns", "other-messages"
SUBJECT_STRATEGY, TOPIC = "subject-name-strategy", "subject-topic"
TABLES_OF_TYPES = "tables-by-record-name"
"""The option of ingestion that makes a table of each type."""
BY_TOPIC, BY_RECORD, BY_TOPIC_AND_RECORD = "topic-name", "record-name", "topic-record-name"
_CONFLUENTS = "io.confluent.kafka.serializers.subject."
STRATEGIES = {
    **{name: name for name in (BY_TOPIC, BY_RECORD, BY_TOPIC_AND_RECORD)},
    f"{_CONFLUENTS}TopicNameStrategy": BY_TOPIC,
    f"{_CONFLUENTS}RecordNameStrategy": BY_RECORD,
    f"{_CONFLUENTS}TopicRecordNameStrategy": BY_TOPIC_AND_RECORD,
}
"""The strategies by their names, ours and those of Confluent's classes."""

RECORD_OPTIONS = (
    Option(
        name=RECORD_NAME,
        doc="Ours. The full name of the type of the table's records, such as `com.shop.Order`, for a topic with "
        "records of several types. A message's type is that of its schema. Writing gives the derived schema this name.",
    ),
    Option(
        name=RECORD_COLUMNS,
        type="map",
        doc="Ours. A column for each type of records, such as `order:com.shop.Order,refund:com.shop.Refund`. The "
        "columns are ROWs, and all but one are NULL.",
    ),
    Option(
        name=OTHER_MESSAGES,
        type="enum",
        default=ERROR,
        allowed=(ERROR, SKIP),
        doc=f"Ours. Reading: what becomes of messages of types that `{RECORD_NAME}` or `{RECORD_COLUMNS}` does not "
        "name: an error, or they are skipped.",
    ),
    Option(
        name=SUBJECT_STRATEGY,
        type="enum",
        default=BY_TOPIC,
        allowed=tuple(STRATEGIES),
        doc="Ours. Writing: the subject that the schema is registered under. `topic-name` is the option `subject`, by "
        "default the topic with `-key` or `-value`; `record-name` is the full name of the type of the records, and "
        "`topic-record-name` is the topic, `-` and this name.",
    ),
    Option(
        name=TOPIC,
        doc=f"Ours. Writing: the topic in the subject of `{BY_TOPIC_AND_RECORD}`. A table of one Kafka topic sets it.",
    ),
)
"""The options about records, of formats whose messages are rows."""
