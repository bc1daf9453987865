"""Dates and times as Java writes and reads them.

`formatter_*` is `java.time.format.DateTimeFormatter`, `simple_*` is `java.text.SimpleDateFormat`, `sql_times` has
`java.sql.Timestamp.valueOf` and `java.sql.Date.valueOf`. `fixed_layouts` does the usual patterns for whole columns.
"""
