"""What Java and its libraries do, for the formats that write and read as they do: numbers, patterns, charsets."""
