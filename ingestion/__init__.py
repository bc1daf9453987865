"""Ingestion: topics without a declared schema become tables, and tables become topics. No other package imports it.

Rules: Ververica's "Data ingestion" pages and Flink CDC 3.6.
"""
