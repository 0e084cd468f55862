#!/bin/sh
# Writes records.json anew with AWS's serializers for Java (Maven: software.amazon.glue). Needs Java 17 and Maven.
set -e
cd "$(dirname "$0")"
jars=$(mktemp -d)
mvn -B -q dependency:copy-dependencies -DoutputDirectory="$jars"
java -cp "$jars/*" Glue.java records.json
rm -r "$jars"
