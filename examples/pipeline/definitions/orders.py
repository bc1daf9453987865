"""Orders of a Kafka topic as tables of Spark, and large orders as a topic again. No jar is needed."""

import os

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kvformat import KafkaTable

spark = SparkSession.active()
BOOTSTRAP = os.environ.get("BOOTSTRAP", "localhost:9092")

ORDERS = f"""
CREATE TABLE orders (
    id BIGINT,
    customer STRING,
    price DECIMAL(10, 2),
    ts TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL
) WITH (
    'connector' = 'kafka',
    'topic' = 'orders',
    'properties.bootstrap.servers' = '{BOOTSTRAP}',
    'scan.startup.mode' = 'earliest-offset',
    'format' = 'json'
)"""
CUSTOMERS = f"""
CREATE TABLE customers (id BIGINT, name STRING) WITH (
    'connector' = 'kafka',
    'topic' = 'customers',
    'properties.bootstrap.servers' = '{BOOTSTRAP}',
    'scan.startup.mode' = 'earliest-offset',
    'format' = 'debezium-json'
)"""
LARGE = f"""
CREATE TABLE large_orders (id BIGINT, price DECIMAL(10, 2)) WITH (
    'connector' = 'kafka',
    'topic' = 'large-orders',
    'properties.bootstrap.servers' = '{BOOTSTRAP}',
    'format' = 'json'
)"""


@dp.table
def orders():
    """The data source, as in any other program of Spark."""
    return spark.readStream.format("kvformat").option("ddl", ORDERS).load()


@dp.table
def customer_changes():
    """The changes of a table in another database; `read_stream` gives their kinds as `row_kind`."""
    return KafkaTable.from_ddl(CUSTOMERS).read_stream(spark, metadata=["partition", "offset"], row_index=True)


@dp.materialized_view
def spent():
    """The total that each customer spent."""
    return spark.read.table("orders").groupBy("customer").agg(F.sum("price").alias("price"))


dp.create_sink("large_orders", "kvformat", {"ddl": LARGE})


@dp.append_flow(target="large_orders")
def write_large_orders():
    """Large orders, written to a topic."""
    return spark.readStream.table("orders").where("price >= 100").select("id", "price")
