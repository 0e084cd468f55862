package schematest

import (
	"net/http"
	"testing"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/franz-go/pkg/sr"
)

// TestRegistry: the registry answers with what was registered, or with the status that a test sets.
func TestRegistry(t *testing.T) {
	r := NewRegistry(t)
	id := r.Register(t, "in-value", sr.Schema{Schema: PlantSchema})
	client, err := sr.NewClient(sr.URLs(r.URL()))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.SchemaByID(t.Context(), int(id))
	if err != nil || got.Schema != PlantSchema {
		t.Errorf("%q, %v", got.Schema, err)
	}
	asked := r.Requests.Load()
	r.Status.Store(http.StatusServiceUnavailable)
	res, err := http.Get(r.URL() + "/subjects")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || r.Requests.Load() == asked {
		t.Errorf("status %d, %d requests of %d before", res.StatusCode, r.Requests.Load(), asked)
	}
}

// TestSensorRecords: another reader reads the records whole.
func TestSensorRecords(t *testing.T) {
	codec, err := goavro.NewCodec(SensorSchema)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range SensorRecords(t) {
		v, rest, err := codec.NativeFromBinary(b[5:])
		if err != nil || len(rest) > 0 || b[4] != SensorID || v.(map[string]any)["seq"] != int64(1_000_000+i) {
			t.Fatalf("record %d: %v, %d bytes left, %v", i, v, len(rest), err)
		}
	}
}
