"""The contract of a format: what an author implements, and the types, options and errors that it uses."""
