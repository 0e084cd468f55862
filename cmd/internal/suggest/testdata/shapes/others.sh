#!/bin/sh
# Writes the files of Shapes.java and senml.py anew: with Debezium's, Kafka Connect's and Eclipse Tahu's own code (pom.xml) and with KPN's
# encoder of SenML (PyPI: kpn-senml). Needs Java 17, Maven and Python 3.
set -e
cd "$(dirname "$0")"
lib=$(mktemp -d)
mvn -B -q dependency:copy-dependencies -DoutputDirectory="$lib/jars"
java -cp "$lib/jars/*" Shapes.java
pip install -q --target "$lib/python" kpn-senml==1.0.1
PYTHONPATH="$lib/python" python3 senml.py
rm -r "$lib"
