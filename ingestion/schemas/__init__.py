"""Schemas of tables that change: the lattice of types, schemas, changes of schemas, values of changed columns.

| module | contains |
| --- | --- |
| `table_id` | names of tables, in parts |
| `types` | the least common type of two types |
| `table_schema` | columns and primary key of a table; merged schemas |
| `events` | changes of a schema; the changes between two schemas |
| `state` | the known schemas of all tables |
| `from_texts` | values of columns that are decoded as text |
| `flattened` | decoding of columns that are named by paths |
| `coerce` | values of one type as values of another; rows as rows of another schema |

Rules: Flink CDC's `SchemaMergingUtils` and `SchemaUtils`. All classes are immutable and have a JSON form.
"""
