"""Rules of Java and its libraries, for formats that read and write like Java: numbers, patterns, charsets."""
