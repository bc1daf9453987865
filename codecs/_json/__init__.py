"""JSON values: read fast, read exactly, written from Arrow, written by Spark. No envelope, no framing."""
