"""The rules of Columns, in Spark classic and Connect."""
