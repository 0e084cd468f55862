#!/usr/bin/env python3
"""A plant's producer and consumer for scripts/walk.sh, with Python's Kafka client: it shares no code with Odradek.

    walk_plant.py history            creates the topic and writes 36 hours of readings of four presses, with one fault
    walk_plant.py more [PRESS]       writes the next hour of all presses; PRESS runs hot for ten minutes of it
    walk_plant.py bare               writes the next ten minutes without the schema's id, as a broken producer would
    walk_plant.py anomaly KEY [N]    waits for an anomaly of a series, of severity N at least, and prints its id
    walk_plant.py count KEY          prints how many anomalies of a series there are
    walk_plant.py caught-up          fails if the group has not committed the topic to its end

Brokers, registry, topic and group are in the environment (BROKERS, REGISTRY, TOPIC, GROUP). The time of the last reading is
kept in the file walk.state.
"""

import json
import math
import os
import random
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

SCHEMA = json.dumps({"type": "record", "name": "Reading", "namespace": "plant.press", "fields": [
    {"name": "press", "type": "string"},
    {"name": "hall", "type": "string"},
    {"name": "taken_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "sent_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "seq", "type": "long"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["RUNNING", "SETUP"]}},
    {"name": "temperature", "type": ["null", "double"], "default": None},
    {"name": "setpoint", "type": "double"}]})
STEP = 10  # seconds from one reading of a press to the next
PRESSES = [f"press-{i}" for i in range(1, 5)]
TOPIC = os.environ["TOPIC"]


def registry():
    return SchemaRegistryClient({"url": os.environ["REGISTRY"]})


def readings(begin, steps, hot):
    """Yields records and their times: a cycle of twenty minutes and noise; hot(press, step) is added."""
    rng = random.Random(begin)
    seq = begin // 1_000_000
    for step in range(steps):
        for i, press in enumerate(PRESSES):
            seq += 1
            at = begin + step * STEP * 1000 + i * 1700
            value = 60 + 5 * i + 4 * math.sin(2 * math.pi * at / 1_200_000 + i) + rng.gauss(0, 0.3) + hot(press, step)
            yield at, press, {"press": press, "hall": f"hall-{i % 2 + 1}", "taken_at": at, "sent_at": at + 150 + rng.randrange(80),
                              "seq": seq, "state": "SETUP" if at // 1_200_000 % 9 == 0 else "RUNNING",
                              "temperature": None if rng.random() < 0.002 else value, "setpoint": 60.0 + 5 * i}


def write(records, bare=False):
    serialize = AvroSerializer(registry(), SCHEMA)
    context = SerializationContext(TOPIC, MessageField.VALUE)
    producer = Producer({"bootstrap.servers": os.environ["BROKERS"], "linger.ms": 50, "log_level": 3, "enable.idempotence": True})
    n = last = 0
    for at, press, record in records:
        value = serialize(record, context)
        while True:
            try:
                producer.produce(TOPIC, value=value[5:] if bare else value, key=press, timestamp=at + 300)
                break
            except BufferError:
                producer.poll(0.1)
        n, last = n + 1, max(last, at)
    if producer.flush(60) > 0:
        sys.exit("records were not acknowledged")
    with open("walk.state", "w") as f:
        f.write(str(last))
    print(f"{n} records written")


def begin():
    with open("walk.state") as f:
        return int(f.read()) // (STEP * 1000) * STEP * 1000 + STEP * 1000


def consumer(group):
    return Consumer({"bootstrap.servers": os.environ["BROKERS"], "group.id": group, "enable.auto.commit": False,
                     "enable.partition.eof": True, "isolation.level": "read_committed"})


def anomalies(key, wait, severity=0):
    """Yields the anomalies of a series, each once, from the group's topic; it waits for more for some seconds."""
    topic = os.environ["GROUP"] + "-anomalies"
    decode = AvroDeserializer(registry())
    c = consumer("walk")
    end = time.time() + wait
    while not (partitions := c.list_topics(topic, timeout=10).topics[topic].partitions):
        if time.time() > end:
            sys.exit(f"there is no topic {topic}")
        time.sleep(0.2)
    c.assign([TopicPartition(topic, p, 0) for p in partitions])
    seen, at_end = set(), set()
    while time.time() < end or len(at_end) < len(partitions):
        message = c.poll(1)
        if message is None:
            continue
        if message.error():
            at_end.add(message.partition())
            continue
        event = decode(message.value(), SerializationContext(topic, MessageField.VALUE))
        if message.key().decode() == key and event["id"] not in seen and event["severity"] >= severity:
            seen.add(event["id"])
            yield event


def caught_up():
    c = consumer(os.environ["GROUP"])
    tps = [TopicPartition(TOPIC, p) for p in c.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions]
    for tp in c.committed(tps, timeout=10):
        end = c.get_watermark_offsets(tp, timeout=10)[1]
        if end > 0 and tp.offset < end:
            sys.exit(f"{tp.partition}: {tp.offset} of {end}")


def main():
    command, args = sys.argv[1], sys.argv[2:]
    if command == "history":
        admin = AdminClient({"bootstrap.servers": os.environ["BROKERS"]})
        for future in admin.create_topics([NewTopic(TOPIC, 3, 1)]).values():
            future.result()
        steps = 36 * 3600 // STEP
        start = (int(time.time()) - 40 * 3600) // STEP * STEP * 1000
        fault = range(steps * 5 // 6, steps * 5 // 6 + 60)
        write(readings(start, steps, lambda press, step: 12 if press == "press-3" and step in fault else 0))
    elif command == "more":
        hot = args[0] if args else ""
        write(readings(begin(), 360, lambda press, step: 12 if press == hot and 150 <= step < 210 else 0))
    elif command == "bare":
        write(readings(begin(), 60, lambda press, step: 0), bare=True)
    elif command == "anomaly":
        event = next(anomalies(args[0], 120, int(args[1]) if args[1:] else 0), None) or sys.exit(f"no anomaly of {args[0]} within two minutes")
        print(event["id"], *(f"{name}={event[name]}" for name in ("series_key", "detector", "severity", "opened_at")))
    elif command == "count":
        print(sum(1 for _ in anomalies(args[0], 0)))
    elif command == "caught-up":
        caught_up()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
