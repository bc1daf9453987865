"""Protocol Buffers by a descriptor set: types, what a table binds to, reading and writing."""
