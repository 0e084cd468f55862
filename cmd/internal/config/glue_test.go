package config

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"odradek/schemas"
)

// TestGlueOfTheDocs reads records of AWS's own serializers by the settings that docs/records.md shows, and signs for the region.
func TestGlueOfTheDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## AWS Glue\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var shown [][]string
	for _, m := range regexp.MustCompile("(?s)```sh\nexport (.*?)\n```").FindAllStringSubmatch(section, -1) {
		shown = append(shown, strings.Fields(m[1]))
	}
	if len(shown) != 2 {
		t.Fatalf("docs/records.md shows %d examples", len(shown))
	}
	base := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=temp",
		"ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=off"}
	parse := func(settings ...string) *Config {
		t.Helper()
		c, faults, _ := Parse(append(settings, base...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return c
	}

	c := parse(shown[0]...)
	cfg, ok, err := c.RegistryConfig()
	if err != nil || !ok || cfg.Sign == nil || c.Registry.HasIDs() || !strings.Contains(c.OutputText(), "Glue") {
		t.Fatalf("%v %v %v, outputs %s", cfg, ok, err, c.OutputText())
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AK")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, cfg.URLs[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Sign(t.Context(), req, nil); err != nil || !strings.Contains(req.Header.Get("Authorization"), "/eu-west-1/glue/") {
		t.Errorf("%v, %v", req.Header, err)
	}

	b, err := os.ReadFile("../../../schemas/formats/testdata/glue/records.json")
	if err != nil {
		t.Fatal(err)
	}
	var records []struct {
		Schema, Key string
		Record      []byte
		Value       float64
	}
	if err := json.Unmarshal(b, &records); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(filepath.Base("reading.avsc"), []byte(records[0].Schema), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := parse(shown[1]...).NewDecoder(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[:2] { // bare and compressed
		var out schemas.Reading
		if err := d.Decode(t.Context(), nil, r.Record, 0, nil, &out); err != nil || string(out.Key) != r.Key || out.Values[0] != r.Value {
			t.Errorf("%q %v, %v", out.Key, out, err)
		}
	}

	for _, more := range []string{"ODRADEK_SCHEMA_REGISTRY_TOKEN=t",
		"ODRADEK_SCHEMA_REGISTRY_URL=https://glue.eu-west-1.amazonaws.com,http://r:1"} {
		if _, faults, _ := Parse(append(append([]string{}, append(shown[0], more)...), base...)); len(faults) == 0 {
			t.Errorf("%s with AWS Glue is no fault", more)
		}
	}
}
