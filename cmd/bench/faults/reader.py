"""Reads a topic to its end with librdkafka, committed records alone; prints their number and the sum of their checksums."""
import json
import sys
import zlib

from confluent_kafka import Consumer, TopicPartition

brokers, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": brokers, "group.id": "reader-" + topic, "enable.auto.commit": False,
                     "isolation.level": "read_committed", "enable.partition.eof": True, "auto.offset.reset": "earliest"})
partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
consumer.assign([TopicPartition(topic, p, 0) for p in partitions])
records = total = 0
left = set(partitions)
while left:
    for m in consumer.consume(10000, 1.0):
        if m.error():
            if m.error().name() != "_PARTITION_EOF":
                sys.exit(str(m.error()))
            left.discard(m.partition())
            continue
        records += 1
        total += zlib.crc32(m.value() or b"", zlib.crc32(m.key() or b""))
consumer.close()
print(json.dumps({"records": records, "sum": total % (1 << 64)}))
