"""What formats share when columns are found from messages: types of values, kinds of messages, tables and keys."""
