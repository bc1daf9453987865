"""The tables "Data type mappings" of Debezium's documentation, row by row.

A row has the page (connectors/* of 3.x), the section or mode, the types of the database, Connect's primitive and name,
and the column to declare.
"""

from __future__ import annotations

_TIME, _DATA, _CONNECT = "io.debezium.time.", "io.debezium.data.", "org.apache.kafka.connect.data."
_SHARED = "mysql, mariadb"
DOCUMENTED: list[tuple[str, str, str, str, str, str]] = [
    *(
        (_SHARED, "basic types", database, primitive, name, column)
        for database, primitive, name, column in [
            ("BOOLEAN, BIT(1)", "boolean", "", "BOOLEAN"),
            ("TINYINT(1)", "int16", "", "BOOLEAN"),
            ("BIT(>1)", "bytes", f"{_DATA}Bits", "BIGINT"),
            ("TINYINT, SMALLINT", "int16", "", "SMALLINT"),
            ("MEDIUMINT, INT", "int32", "", "INT"),
            ("BIGINT", "int64", "", "BIGINT"),
            ("REAL, FLOAT", "float32", "", "FLOAT"),
            ("DOUBLE", "float64", "", "DOUBLE"),
            ("CHAR, VARCHAR, TEXT", "string", "", "STRING"),
            ("BINARY, VARBINARY, BLOB", "bytes", "", "BYTES"),
            ("JSON", "string", f"{_DATA}Json", "STRING"),
            ("ENUM", "string", f"{_DATA}Enum", "STRING"),
            ("SET", "string", f"{_DATA}EnumSet", "ARRAY"),
            ("YEAR", "int32", f"{_TIME}Year", "INT"),
            ("TIMESTAMP", "string", f"{_TIME}ZonedTimestamp", "TIMESTAMP_LTZ"),
        ]
    ),
    (_SHARED, "adaptive", "DATE", "int32", f"{_TIME}Date", "DATE"),
    (_SHARED, "adaptive", "TIME(0-6)", "int64", f"{_TIME}MicroTime", "TIME"),
    (_SHARED, "adaptive", "DATETIME(0-3)", "int64", f"{_TIME}Timestamp", "TIMESTAMP"),
    (_SHARED, "adaptive", "DATETIME(4-6)", "int64", f"{_TIME}MicroTimestamp", "TIMESTAMP"),
    (_SHARED, "structured", "TIME", "struct", f"{_TIME}StructuredDuration", "TIME"),
    (_SHARED, "decimal types", "NUMERIC, DECIMAL", "bytes", f"{_CONNECT}Decimal", "DECIMAL"),
    (_SHARED, "decimal types, string", "NUMERIC, DECIMAL", "string", "", "DECIMAL"),
    (_SHARED, "decimal types, double", "NUMERIC, DECIMAL", "float64", "", "DECIMAL"),
    (_SHARED, "spatial types", "GEOMETRY, LINESTRING, ...", "struct", f"{_DATA}geometry.Geometry", "ROW"),
    (_SHARED, "vector types", "VECTOR", "array", f"{_DATA}FloatVector", "ARRAY"),
    *(
        ("postgresql", "basic types", database, primitive, name, column)
        for database, primitive, name, column in [
            ("BOOLEAN, BIT(1)", "boolean", "", "BOOLEAN"),
            ("BIT(>1), BIT VARYING", "bytes", f"{_DATA}Bits", "BYTES"),
            ("SMALLINT", "int16", "", "SMALLINT"),
            ("INTEGER", "int32", "", "INT"),
            ("BIGINT, OID", "int64", "", "BIGINT"),
            ("REAL", "float32", "", "FLOAT"),
            ("DOUBLE PRECISION", "float64", "", "DOUBLE"),
            ("CHAR, VARCHAR, TEXT, CITEXT, INET, ranges", "string", "", "STRING"),
            ("TIMESTAMPTZ", "string", f"{_TIME}ZonedTimestamp", "TIMESTAMP_LTZ"),
            ("TIMETZ", "string", f"{_TIME}ZonedTime", "TIME"),
            ("INTERVAL, numeric", "int64", f"{_TIME}MicroDuration", "INTERVAL DAY TO SECOND"),
            ("INTERVAL, string", "string", f"{_TIME}Interval", "STRING"),
            ("BYTEA", "bytes", "", "BYTES"),
            ("JSON, JSONB", "string", f"{_DATA}Json", "STRING"),
            ("XML", "string", f"{_DATA}Xml", "STRING"),
            ("UUID", "string", f"{_DATA}Uuid", "STRING"),
            ("POINT", "struct", f"{_DATA}geometry.Point", "ROW"),
            ("BOX, LSEG, PATH, POLYGON", "struct", f"{_DATA}geometry.Geometry", "ROW"),
            ("CIRCLE", "struct", f"{_DATA}geometry.Circle", "ROW"),
            ("LINE", "struct", f"{_DATA}geometry.Line", "ROW"),
            ("LTREE", "string", f"{_DATA}Ltree", "STRING"),
            ("ENUM", "string", f"{_DATA}Enum", "STRING"),
            ("arrays", "array", "", "ARRAY"),
        ]
    ),
    ("postgresql", "adaptive", "DATE", "int32", f"{_TIME}Date", "DATE"),
    ("postgresql", "adaptive", "TIME(1-3)", "int32", f"{_TIME}Time", "TIME"),
    ("postgresql", "adaptive", "TIME(4-6)", "int64", f"{_TIME}MicroTime", "TIME"),
    ("postgresql", "adaptive", "TIMESTAMP(1-3)", "int64", f"{_TIME}Timestamp", "TIMESTAMP"),
    ("postgresql", "adaptive", "TIMESTAMP(4-6)", "int64", f"{_TIME}MicroTimestamp", "TIMESTAMP"),
    ("postgresql", "structured", "TIMETZ", "struct", f"{_TIME}StructuredZonedTime", "TIME"),
    ("postgresql", "structured", "INTERVAL", "struct", f"{_TIME}StructuredDuration", "INTERVAL DAY TO SECOND"),
    ("postgresql", "decimal types", "NUMERIC(p, s), MONEY", "bytes", f"{_CONNECT}Decimal", "DECIMAL"),
    ("postgresql", "decimal types", "NUMERIC", "struct", f"{_DATA}VariableScaleDecimal", "DECIMAL"),
    ("postgresql", "HSTORE types", "HSTORE, json", "string", f"{_DATA}Json", "STRING"),
    ("postgresql", "HSTORE types", "HSTORE, map", "map", "", "MAP"),
    ("postgresql", "PostGIS types", "GEOMETRY", "struct", f"{_DATA}geometry.Geometry", "ROW"),
    ("postgresql", "PostGIS types", "GEOGRAPHY", "struct", f"{_DATA}geometry.Geography", "ROW"),
    ("postgresql", "pgvector types", "VECTOR", "array", f"{_DATA}DoubleVector", "ARRAY"),
    ("postgresql", "pgvector types", "HALFVEC", "array", f"{_DATA}FloatVector", "ARRAY"),
    ("postgresql", "TSVECTOR types", "TSVECTOR", "string", f"{_DATA}Tsvector", "STRING"),
    *(
        ("sqlserver", "basic types", database, primitive, name, column)
        for database, primitive, name, column in [
            ("BIT", "boolean", "", "BOOLEAN"),
            ("TINYINT, SMALLINT", "int16", "", "SMALLINT"),
            ("INT", "int32", "", "INT"),
            ("BIGINT", "int64", "", "BIGINT"),
            ("REAL", "float32", "", "FLOAT"),
            ("FLOAT", "float64", "", "DOUBLE"),
            ("CHAR, VARCHAR, TEXT, NCHAR, UNIQUEIDENTIFIER", "string", "", "STRING"),
            ("BINARY, VARBINARY", "bytes", "", "BYTES"),
            ("XML", "string", f"{_DATA}Xml", "STRING"),
            ("DATETIMEOFFSET", "string", f"{_TIME}ZonedTimestamp", "TIMESTAMP_LTZ"),
        ]
    ),
    ("sqlserver", "temporal values", "DATE", "int32", f"{_TIME}Date", "DATE"),
    ("sqlserver", "temporal values", "TIME(0-3)", "int32", f"{_TIME}Time", "TIME"),
    ("sqlserver", "temporal values", "TIME(4-6)", "int64", f"{_TIME}MicroTime", "TIME"),
    ("sqlserver", "temporal values", "TIME(7)", "int64", f"{_TIME}NanoTime", "TIME"),
    ("sqlserver", "temporal values", "DATETIME, SMALLDATETIME", "int64", f"{_TIME}Timestamp", "TIMESTAMP"),
    ("sqlserver", "temporal values", "DATETIME2(4-6)", "int64", f"{_TIME}MicroTimestamp", "TIMESTAMP"),
    ("sqlserver", "temporal values", "DATETIME2(7)", "int64", f"{_TIME}NanoTimestamp", "TIMESTAMP"),
    ("sqlserver", "decimal values", "NUMERIC, DECIMAL, MONEY", "bytes", f"{_CONNECT}Decimal", "DECIMAL"),
    *(
        ("oracle", section, database, primitive, name, column)
        for section, database, primitive, name, column in [
            ("character types", "CHAR, VARCHAR2, NCHAR, ROWID", "string", "", "STRING"),
            ("binary and character LOB types", "CLOB", "string", "", "STRING"),
            ("binary and character LOB types", "BLOB, RAW", "bytes", "", "BYTES"),
            ("numeric types", "BINARY_FLOAT", "float32", "", "FLOAT"),
            ("numeric types", "BINARY_DOUBLE", "float64", "", "DOUBLE"),
            ("numeric types", "DECIMAL(p, s), NUMBER(p, s > 0)", "bytes", f"{_CONNECT}Decimal", "DECIMAL"),
            ("numeric types", "FLOAT, NUMBER", "struct", f"{_DATA}VariableScaleDecimal", "DECIMAL"),
            ("numeric types", "NUMBER(p, s <= 0)", "int16", "", "SMALLINT"),
            ("numeric types", "NUMBER(p, s <= 0)", "int32", "", "INT"),
            ("numeric types", "NUMBER(p, s <= 0)", "int64", "", "BIGINT"),
            ("numeric types", "NUMBER(1), by NumberOneToBooleanConverter", "boolean", "", "BOOLEAN"),
            ("temporal types", "DATE, TIMESTAMP(0-3)", "int64", f"{_TIME}Timestamp", "TIMESTAMP"),
            ("temporal types", "TIMESTAMP(4-6)", "int64", f"{_TIME}MicroTimestamp", "TIMESTAMP"),
            ("temporal types", "TIMESTAMP(7-9)", "int64", f"{_TIME}NanoTimestamp", "TIMESTAMP"),
            ("temporal types", "TIMESTAMP WITH TIME ZONE", "string", f"{_TIME}ZonedTimestamp", "TIMESTAMP_LTZ"),
            ("temporal types", "INTERVAL", "int64", f"{_TIME}MicroDuration", "INTERVAL DAY TO SECOND"),
            ("temporal types", "INTERVAL, string", "string", f"{_TIME}Interval", "STRING"),
            ("JSON types", "JSON", "string", f"{_DATA}Json", "STRING"),
            ("XML types", "XMLTYPE", "string", f"{_DATA}Xml", "STRING"),
        ]
    ),
    *(  # `TemporalPrecisionMode`; Connect's Time is INT32, although Debezium's page on MySQL says INT64
        (connector, mode, database, primitive, name, column)
        for connector in (_SHARED, "postgresql", "sqlserver", "oracle")
        for mode, database, primitive, name, column in [
            ("connect", "DATE", "int32", f"{_CONNECT}Date", "DATE"),
            ("connect", "TIME", "int32", f"{_CONNECT}Time", "TIME"),
            ("connect", "TIMESTAMP", "int64", f"{_CONNECT}Timestamp", "TIMESTAMP"),
            ("isostring", "DATE", "string", f"{_TIME}IsoDate", "DATE"),
            ("isostring", "TIME", "string", f"{_TIME}IsoTime", "TIME"),
            ("isostring", "TIMESTAMP", "string", f"{_TIME}IsoTimestamp", "TIMESTAMP"),
            ("nanoseconds", "TIME", "int64", f"{_TIME}NanoTime", "TIME"),
            ("nanoseconds", "TIMESTAMP", "int64", f"{_TIME}NanoTimestamp", "TIMESTAMP"),
            ("structured", "DATE", "struct", f"{_TIME}StructuredDate", "DATE"),
            ("structured", "TIME", "struct", f"{_TIME}StructuredTime", "TIME"),
            ("structured", "TIMESTAMP", "struct", f"{_TIME}StructuredTimestamp", "TIMESTAMP"),
            ("structured", "TIMESTAMP WITH TIME ZONE", "struct", f"{_TIME}StructuredZonedTimestamp", "TIMESTAMP_LTZ"),
        ]
    ),
]
