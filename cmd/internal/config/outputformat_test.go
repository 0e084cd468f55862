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
		{"ODRADEK_FORMAT=json", "json", "as the records are"},
		{"ODRADEK_FORMAT=avro " + schema, "avro", "OUTPUT_FORMAT=json"},
		{"ODRADEK_FORMAT=json " + url, "avro", "registry"},
		{"ODRADEK_FORMAT=json ODRADEK_OUTPUT_FORMAT=avro", "avro", "single-object"},
		{url + " ODRADEK_OUTPUT_FORMAT=json", "json", "plain JSON"},
		{"ODRADEK_FORMAT=json ODRADEK_MAPPING_A_TOPICS=a", "json", "as the records are"},
		{"ODRADEK_FORMAT=json ODRADEK_MAPPING_A_TOPICS=a ODRADEK_MAPPING_A_FORMAT=avro " + schemaA, "avro", "single-object"},
		{"ODRADEK_FORMAT=avro ODRADEK_MAPPING_A_TOPICS=a,t ODRADEK_MAPPING_A_FORMAT=json", "json", "as the records are"},
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
				t.Errorf("%s: those of mapping %q are %s", c.settings, settings.MappingName(), settings.Output.Format)
			}
		}
	}
}
