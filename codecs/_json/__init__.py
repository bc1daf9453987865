"""JSON values: read by the kernel, written from Arrow, or written by Spark. Envelopes and framing are elsewhere."""
