"""Schema registries: the frames of their messages, and their clients.

Each id and each pair of subject and schema is looked up once in a process. Bounded caches keep the answers; all formats
with the same settings share them. A registry that can't be reached, is too slow or gives an invalid answer raises
`SchemaRegistryError`. An unknown id or a refused schema is a valid answer: `Refused`.

    http://..., https://...   Confluent's REST interface, with the client of confluent-kafka
    mock://<scope>            confluent-kafka's registry in memory, one per scope and process
    file:<folder>             a folder with a file per schema, `<id>.avsc`, `<id>.json` or `<id>.proto`, or with a GUID
                              in place of the id; a new schema gets the next free id
    <scheme>://...            a registry of another package, by its entry point in `kvformat.registries`

Rules: Flink's "Confluent Avro Format" page, and the options that Flink passes to Confluent's Java client.
"""
