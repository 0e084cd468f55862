package output

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestAnomalySchemaEvolves: a reader with the schema of before reads what is written
// now, and a reader with the present one what was written before: what was there is as
// it was, and what is new has a default.
func TestAnomalySchemaEvolves(t *testing.T) {
	type record struct {
		Name, Namespace string
		Fields          []map[string]any
	}
	read := func(text []byte) (r record, fields map[string]map[string]any) {
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		fields = map[string]map[string]any{}
		for _, f := range r.Fields {
			fields[f["name"].(string)] = f
		}
		return r, fields
	}
	text, err := os.ReadFile("testdata/anomaly_1.avsc")
	if err != nil {
		t.Fatal(err)
	}
	before, had := read(text)
	now, has := read([]byte(AnomalySchema))
	if before.Name != now.Name || before.Namespace != now.Namespace {
		t.Errorf("%s.%s was %s.%s", now.Namespace, now.Name, before.Namespace, before.Name)
	}
	for name, was := range had {
		is, ok := has[name]
		if !ok {
			t.Errorf("field %s is gone", name)
			continue
		}
		was["doc"], is["doc"] = nil, nil
		if !reflect.DeepEqual(was, is) {
			t.Errorf("field %s is %v and was %v", name, is, was)
		}
	}
	for name, is := range has {
		if _, ok := had[name]; ok {
			continue
		}
		if _, ok := is["default"]; !ok {
			t.Errorf("field %s is new and has no default", name)
		}
	}
	for _, name := range []string{"expected", "actual", "contribution"} {
		if want := []any{"null", map[string]any{"type": "array", "items": "double"}}; !reflect.DeepEqual(has[name]["type"], want) {
			t.Errorf("field %s is of %v, want %v", name, has[name]["type"], want)
		}
	}
}
