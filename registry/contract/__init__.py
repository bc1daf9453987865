"""The contract of a format: the methods that an author writes, and their types, options and errors."""
