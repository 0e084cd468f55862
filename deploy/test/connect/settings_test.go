package connect

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestKafkaConnectSettings holds the connectors' settings to the schema of the anomalies: every time is converted, the database gets no
// list, and each transform that is named has settings and the other way round.
func TestKafkaConnectSettings(t *testing.T) {
	var schema struct {
		Fields []struct {
			Name string
			Type any
		}
	}
	read(t, repository+"/schemas/output/anomaly.avsc", &schema)
	var times, lists []string
	for _, f := range schema.Fields {
		text, _ := json.Marshal(f.Type)
		switch {
		case strings.Contains(string(text), "timestamp-micros"):
			times = append(times, f.Name)
		case strings.Contains(string(text), `"array"`):
			lists = append(lists, f.Name)
		}
	}
	if len(times) != 5 || len(lists) != 4 {
		t.Fatalf("times %q, lists %q", times, lists)
	}
	for _, name := range []string{"elasticsearch", "elasticsearch-camel", "jdbc", "jdbc-debezium"} {
		var c struct {
			Name   string
			Config map[string]string
		}
		read(t, repository+"/deploy/connect/kafka-connect/"+name+".json", &c)
		named := strings.Split(c.Config["transforms"], ",")
		for _, f := range times {
			if !slices.Contains(named, f) || !strings.HasSuffix(c.Config["transforms."+f+".type"], ".TimestampConverter$Value") ||
				c.Config["transforms."+f+".field"] != f || c.Config["transforms."+f+".unix.precision"] != "microseconds" {
				t.Errorf("%s does not convert %s", name, f)
			}
		}
		for setting := range maps.Keys(c.Config) {
			if part := strings.Split(setting, "."); part[0] == "transforms" && len(part) > 1 && !slices.Contains(named, part[1]) {
				t.Errorf("%s: %s is of no transform", name, setting)
			}
		}
		for _, n := range named {
			if c.Config["transforms."+n+".type"] == "" {
				t.Errorf("%s: transform %s has no type", name, n)
			}
		}
		if c.Config["consumer.override.isolation.level"] != "read_committed" {
			t.Errorf("%s reads aborted records", name)
		}
		if strings.HasPrefix(name, "jdbc") && c.Config["transforms.lists.exclude"] != strings.Join(lists, ",") {
			t.Errorf("%s leaves out %s, of the lists %q", name, c.Config["transforms.lists.exclude"], lists)
		}
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
