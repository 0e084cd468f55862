"""Writes senml.jsonl.gz, in the form of main.go: packs of a device's quantities at one time, whose name and time are in the first record
of a pack. The Kafka key is the device."""
import base64, gzip, json, math, random
from kpn_senml import SenmlPack, SenmlRecord

START = 1772323200  # 2026-03-01T00:00:00Z
rng = random.Random(39)
with gzip.GzipFile("senml.jsonl.gz", "wb", mtime=0) as out:
    for i in range(360):
        device = i % 3
        name = "urn:dev:mac:0024befffe80%04d" % device
        pack = SenmlPack(name + ":")
        pack.base_time = START + i
        time, want = 1000 * (START + i) + 40, []
        for k, (quantity, unit) in enumerate([("temperature", "Cel"), ("humidity", "%RH"), ("voltage", "V")]):
            v = round(20 * (3 * k + device + 1) + 3 * math.sin(i // 3 / 9) + 0.4 * rng.gauss(0, 1), 3)
            pack.add(SenmlRecord(quantity, unit=unit, value=v))
            want.append({"key": name + "/" + quantity, "time": 1000 * time, "values": [v]})
        value = base64.b64encode(pack.to_json().encode()).decode()
        out.write((json.dumps({"key": name, "time": time, "value": value, "want": want}) + "\n").encode())
