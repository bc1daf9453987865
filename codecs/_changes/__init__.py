"""Change data: what the envelopes of Debezium, Canal, Maxwell and Ogg have in common. The values in them are json's."""
