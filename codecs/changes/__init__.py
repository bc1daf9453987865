"""Change data: the parts that Debezium, Canal, Maxwell and Ogg share. Values are read by the rules of format json."""
