"""Functions of Flink SQL that a computed column may call, and why others are refused."""

from __future__ import annotations

ANY_COUNT = 2**31
FUNCTIONS = {
    name: counts
    for counts, names in {
        (0, 0): "E NOW PI UUID",
        (0, 1): "RAND",
        (0, 2): "UNIX_TIMESTAMP",
        (1, 1): "ABS ACOS ARRAY_DISTINCT ARRAY_MAX ARRAY_MIN ASIN ATAN BIN CARDINALITY LTRIM RTRIM CEIL CEILING "
        "CHARACTER_LENGTH CHAR_LENGTH CHR COS COSH COT DAYOFMONTH DAYOFWEEK DAYOFYEAR DEGREES EXP FLOOR "
        "HEX HOUR LN LOG10 LOG2 LOWER MAP_ENTRIES MAP_KEYS MAP_VALUES MD5 MINUTE MONTH QUARTER RADIANS "
        "REVERSE SECOND SHA1 SIN SINH SQRT TAN TANH UNHEX UPPER URL_DECODE URL_ENCODE YEAR",
        (1, 2): "BTRIM FROM_UNIXTIME LOG ROUND TO_DATE TO_TIMESTAMP",
        (1, ANY_COUNT): "COALESCE CONCAT",
        (2, 2): "ARRAY_APPEND ARRAY_CONTAINS ARRAY_EXCEPT ARRAY_INTERSECT ARRAY_POSITION ARRAY_PREPEND "
        "ARRAY_REMOVE ARRAY_UNION ATAN2 DATE_FORMAT DECODE ENCODE ENDSWITH IFNULL INSTR LEFT "
        "MAP_FROM_ARRAYS MOD NULLIF POWER REGEXP REGEXP_COUNT REGEXP_INSTR REGEXP_SUBSTR REPEAT RIGHT "
        "SHA2 STARTSWITH",
        (2, 3): "ARRAY_JOIN LOCATE PARSE_URL",
        (2, ANY_COUNT): "CONCAT_WS ELT PRINTF",
        (3, 3): "IF LPAD REPLACE RPAD STR_TO_MAP TRANSLATE",
    }.items()
    for name in names.split()
}
"""Functions that mean the same in Flink and in Spark, with the least and the most arguments they have in both."""
RENAMED = {"TO_TIMESTAMP": "to_timestamp_ntz"}
"""Spark's name of a function, if it differs: Flink's TO_TIMESTAMP returns a TIMESTAMP without time zone."""
EPOCH_FUNCTIONS = {"0": "timestamp_seconds", "3": "timestamp_millis"}
"""Spark's functions for TO_TIMESTAMP_LTZ, by precision."""
DIFFERENT = {
    "ASCII": "Flink returns the first byte, Spark the first character",
    "CURRENT_WATERMARK": "Spark SQL does not have this function",
    "GREATEST": "Flink returns NULL if an argument is NULL, Spark ignores that argument",
    "INITCAP": "a word ends at any punctuation in Flink, but only at blanks in Spark",
    "JSON_VALUE": "Spark's get_json_object returns objects and arrays as text, where Flink returns NULL",
    "LEAST": "Flink returns NULL if an argument is NULL, Spark ignores that argument",
    "PROCTIME": "a row has no processing time; use current_timestamp() in a query",
    "REGEXP_EXTRACT": "if nothing matches, Flink returns NULL, Spark an empty string",
    "SIGN": "Flink returns a number of the argument's type, Spark a DOUBLE",
    "SPLIT": "Flink splits at a string, Spark at a regular expression",
    "TO_TIMESTAMP_LTZ": "Spark supports it only for a number and the precision 0 or 3, TO_TIMESTAMP_LTZ(n, 3)",
}
"""Functions that exist in both but mean different things, or that have a similar one in Spark, with the reason."""
WITHOUT_BRACKETS = {"CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"}
"""Functions that are called without brackets."""
