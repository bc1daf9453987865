"""AWS Glue's schema registry: the frame of its messages, and its client."""
