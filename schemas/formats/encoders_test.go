package formats

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"odradek/schemas"
)

// TestEncoders: records of Telegraf's and the OpenTelemetry collector's own encoders say what these were given, each number with its
// name, tags or attributes, and time (testdata/encoders/main.go).
func TestEncoders(t *testing.T) {
	b, err := os.ReadFile("testdata/encoders/records.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Format, What string
		Bytes        []byte
		Want         []struct {
			Key   []string
			Field string
			Time  int64
			Value float64
		}
	}
	if err := json.Unmarshal(b, &list); err != nil || len(list) != 54 {
		t.Fatalf("%d records: %v", len(list), err)
	}
	fields := map[string][]string{"influx": {"f", "i", "u", "b", "x.y", "sp ce", "co,m=a"}, "otlp": {"value"}}
	path := strings.NewReplacer(".", `\.`, "+", `\+`, `\`, `\\`)
	decoders := map[string]*Decoder{}
	for format, m := range map[string]schemas.Mapping{
		"influx": {Key: "name+tags.host+tags.a b+tags.eq=,", Time: "timestamp", Readings: "@value"},
		"otlp": {Key: `resource.service\.name+scope+name+unit+type+attributes.state+attributes.n`, Time: "time", Readings: "@value",
			Fields: []string{"value"}},
	} {
		if format == "influx" {
			for _, f := range fields[format] {
				m.Fields = append(m.Fields, "fields."+path.Replace(f))
			}
		}
		if decoders[format], err = NewDecoder(m, nil, Options{Format: format}); err != nil {
			t.Fatal(err)
		}
	}
	escape := strings.NewReplacer("/", `\/`, `\`, `\\`)
	numbers := 0
	var out schemas.Reading
	for i, r := range list {
		var got, want []string
		for _, w := range r.Want {
			parts := make([]string, len(w.Key))
			for j, p := range w.Key {
				parts[j] = escape.Replace(p)
			}
			want = append(want, fmt.Sprintf("%s %s at %d: %v", strings.Join(parts, "/"), w.Field, w.Time/1000, w.Value))
		}
		if err := decoders[r.Format].Decode(t.Context(), nil, r.Bytes, 0, nil, &out); err != nil {
			t.Errorf("%d, %s: %v", i, r.What, err)
			continue
		}
		for j := range out.Len() {
			key, at, values := out.At(j)
			for k, v := range values {
				if !math.IsNaN(v) {
					got = append(got, fmt.Sprintf("%s %s at %d: %v", key, fields[r.Format][k], at, v))
				}
			}
		}
		numbers += len(got)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d, %s:\n got %s\nwant %s", i, r.What, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	if numbers < 300 {
		t.Errorf("%d numbers", numbers)
	}
}
