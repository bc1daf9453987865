"""The functions of Flink SQL. A module for each kind has `FUNCTIONS`: its functions by name."""
