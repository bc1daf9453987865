"""Delta tables in folders, written by the package `deltalake`: no jar, any PySpark.

    storage     the folder of a table: its path for deltalake, for Arrow and for Spark
    files       Parquet files: written with statistics, read as the table's columns
    matching    which rows of a table have the keys of changed rows; merged rows
    transfer    rows of a DataFrame to the driver, or to files that Spark's tasks write
    log         the table's log: features, commits with a transaction
    table       the table: merge, append, truncate, new columns; read by Spark
    upkeep      compaction, vacuum, orphans

Only `log` and `upkeep` import deltalake. A table has no column mapping, no deletion vectors and no type widening, so
that every reader of Delta reads it, and Spark reads its files without Delta.
"""
