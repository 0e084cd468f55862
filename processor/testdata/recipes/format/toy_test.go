package formats

import (
	"math"
	"strings"
	"testing"

	"odradek/schemas"
)

// TestToy holds that the toy's records are read by name, and that what is common to all formats is there: a key of
// several parts, missing values, the Kafka timestamp, and an error that names the field.
func TestToy(t *testing.T) {
	d, err := NewDecoder(schemas.Mapping{Key: "site+machine", Fields: []string{"temperature", "load"}}, nil, Options{Format: "toy"})
	if err != nil {
		t.Fatal(err)
	}
	var r schemas.Reading
	if err := d.Decode(t.Context(), nil, []byte("machine=press-1 temperature=71.4 site=oslo"), 5, nil, &r); err != nil {
		t.Fatal(err)
	}
	if string(r.Key) != "oslo/press-1" || r.Time != 5000 || r.Values[0] != 71.4 || !math.IsNaN(r.Values[1]) {
		t.Errorf("key %s, time %d, values %v", r.Key, r.Time, r.Values)
	}
	err = d.Decode(t.Context(), nil, []byte("machine=press-1 site=oslo load=high"), 5, nil, &r)
	if err == nil || !strings.Contains(err.Error(), "load") {
		t.Errorf("a load that is no number: %v", err)
	}
}
