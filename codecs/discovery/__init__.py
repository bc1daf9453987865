"""Code that formats share to find columns in messages: types of values, kinds of messages, tables and keys."""
