package output

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"
)

// TestSchemasEvolve: from the schemas in testdata on, which have no texts, a schema only gains fields, each with a default, at its end:
// consumers with either read the records of both. Until release 0.1.0 the schemas in testdata follow a change.
func TestSchemasEvolve(t *testing.T) {
	for file, schema := range map[string]string{"anomaly": AnomalySchema, "score": ScoreSchema, "score_run": ScoreRunSchema,
		"feedback": FeedbackSchema} {
		text, err := os.ReadFile("testdata/" + file + ".avsc")
		if err != nil {
			t.Fatal(err)
		}
		before, had := fieldsOf(t, string(text))
		now, has := fieldsOf(t, schema)
		if before != now {
			t.Errorf("%s was %s", now, before)
		}
		for i, was := range had {
			if i >= len(has) || !reflect.DeepEqual(has[i], was) {
				t.Errorf("%s: field %d was %v, and is not", file, i, was)
			}
		}
		for _, f := range has[min(len(had), len(has)):] {
			if _, ok := f["default"]; !ok {
				t.Errorf("%s: field %v is new and has no default", file, f["name"])
			}
		}
	}
}

// fieldsOf returns the full name of a schema's records, and its fields without the texts.
func fieldsOf(t *testing.T, schema string) (name string, fields []map[string]any) {
	t.Helper()
	var r struct {
		Name, Namespace string
		Fields          []map[string]any
	}
	if err := json.Unmarshal([]byte(schema), &r); err != nil {
		t.Fatal(err)
	}
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "doc")
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	for _, f := range r.Fields {
		strip(f)
	}
	return r.Namespace + "." + r.Name, r.Fields
}
