"""Apicurio Registry: the frames and headers of its messages, and its client."""
