package config

import (
	"strings"
	"testing"
)

// TestOutputFormatFollowsTheInput: outputs are JSON by default where all records are and there is no registry, else Avro, and
// OutputText says so.
func TestOutputFormatFollowsTheInput(t *testing.T) {
	file := "../../../schemas/output/sensor_reading.avsc"
	schema, schemaA := "ODRADEK_SCHEMA_FILE="+file, "ODRADEK_MAPPING_A_SCHEMA_FILE="+file
	const url = "ODRADEK_SCHEMA_REGISTRY_URL=http://registry:8081"
	for _, c := range []struct{ settings, format, says string }{
		{schema, "avro", "single-object"},
		{"ODRADEK_FORMAT=json", "json", "the records need no schema registry"},
		{"ODRADEK_FORMAT=avro " + schema, "avro", "OUTPUT_FORMAT=json"},
		{"ODRADEK_FORMAT=json " + url, "avro", "registry"},
		{"ODRADEK_FORMAT=json ODRADEK_OUTPUT_FORMAT=avro", "avro", "single-object"},
		{url + " ODRADEK_OUTPUT_FORMAT=json", "json", "plain JSON"},
		{"ODRADEK_FORMAT=json ODRADEK_MAPPING_A_TOPICS=a", "json", "the records need no schema registry"},
		{"ODRADEK_FORMAT=influx ODRADEK_VALUE_FIELDS=fields.v", "json", "the records need no schema registry"},
		{"ODRADEK_FORMAT=json ODRADEK_MAPPING_A_TOPICS=a ODRADEK_MAPPING_A_FORMAT=avro " + schemaA, "avro", "single-object"},
		{"ODRADEK_FORMAT=avro ODRADEK_MAPPING_A_TOPICS=a,t ODRADEK_MAPPING_A_FORMAT=json", "json", "the records need no schema registry"},
	} {
		environ := append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t,a", "ODRADEK_KAFKA_BROKERS=b:9092"}, strings.Fields(c.settings)...)
		got, faults, _ := Parse(environ)
		if len(faults) > 0 {
			t.Errorf("%s: %v", c.settings, faults)
			continue
		}
		if got.Output.Format != c.format || !strings.Contains(got.OutputText(), c.says) {
			t.Errorf("%s: outputs are %s, %s; want %s, %s", c.settings, got.Output.Format, got.OutputText(), c.format, c.says)
		}
		for _, settings := range got.Mappings() {
			if settings.Output.Format != c.format {
				t.Errorf("%s: mapping %q has the format %s", c.settings, settings.MappingName(), settings.Output.Format)
			}
		}
	}
}

// TestFixedFormat: a mapping for a format whose paths are known is checked without a schema, and a schema file is a fault.
func TestFixedFormat(t *testing.T) {
	for settings, want := range map[string]string{
		"ODRADEK_VALUE_FIELDS=usage":                                               "ODRADEK_VALUE_FIELDS: field \"usage\": is not fields.NAME",
		"ODRADEK_SERIES_FIELDS=usage":                                              "ODRADEK_SERIES_FIELDS: field \"usage\": is not fields.NAME",
		"ODRADEK_VALUE_FIELDS=fields.v ODRADEK_KEY_FIELD=host":                     "ODRADEK_KEY_FIELD: key \"host\": is neither name",
		"ODRADEK_VALUE_FIELDS=fields.v ODRADEK_TIME_FIELD=at":                      "ODRADEK_TIME_FIELD: time \"at\": is not timestamp",
		"ODRADEK_VALUE_FIELDS=fields.v ODRADEK_SCHEMA_FILE=outputformat_test.go":   "ODRADEK_SCHEMA_FILE: set, but records in Influx",
		"ODRADEK_FORMAT=otlp":                                                      "ODRADEK_READINGS_FIELD: readings \"\": a record in OTLP",
		"ODRADEK_FORMAT=otlp ODRADEK_READINGS_FIELD=@value ODRADEK_KEY_FIELD=name": "",
		"ODRADEK_VALUE_FIELDS=fields.v ODRADEK_KEY_FIELD=tags.host+name":           "",
	} {
		_, faults, _ := Parse(append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KAFKA_BROKERS=b:9092", "ODRADEK_FORMAT=influx"},
			strings.Fields(settings)...))
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || !strings.HasPrefix(faults[0].String(), want)) {
			t.Errorf("%s: %v, want %s", settings, faults, want)
		}
	}
}
