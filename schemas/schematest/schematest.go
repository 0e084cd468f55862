// Package schematest has what the tests below schemas share: a schema registry that can be
// made to fail, and two Avro schemas with records of one.
package schematest

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"odradek/schemas"
)

// Registry is a schema registry in this process.
type Registry struct {
	*srfake.Registry
	Status   atomic.Int32 // of every answer, if not 0
	Requests atomic.Int64 // received
	Delay    atomic.Int64 // before each answer, in nanoseconds
}

// NewRegistry starts a registry that ends with the test.
func NewRegistry(t testing.TB, opts ...srfake.Option) *Registry {
	r := &Registry{Registry: srfake.New(opts...)}
	t.Cleanup(r.Close)
	r.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		r.Requests.Add(1)
		time.Sleep(time.Duration(r.Delay.Load()))
		if s := r.Status.Load(); s != 0 {
			http.Error(w, "out of order", int(s))
			return true
		}
		return false
	})
	return r
}

// Register registers a schema and returns its id.
func (r *Registry) Register(t testing.TB, subject string, s sr.Schema) int32 {
	t.Helper()
	id, _, err := r.RegisterSchema(subject, s)
	if err != nil {
		t.Fatal(err)
	}
	return int32(id)
}

// Closed is an address at which nothing listens.
const Closed = "http://127.0.0.1:1"

// PlantSchema is a record with every kind of path: through records, unions, arrays, maps and
// a recursive type.
const PlantSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
	{"name":"deviceId","type":"string"},
	{"name":"site","type":["null",{"type":"record","name":"Site","fields":[
		{"name":"plant","type":"string"},{"name":"temperature","type":"float"}]}]},
	{"name":"temperature","type":["null","double"],"aliases":["temp"]},
	{"name":"accel","type":{"type":"array","items":"double"}},
	{"name":"tags","type":{"type":"map","values":["string","long"]}},
	{"name":"channels","type":{"type":"array","items":{"type":"record","name":"Channel","fields":[{"name":"level","type":"int"}]}}},
	{"name":"time","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"parent","type":["null","Reading"]},
	{"name":"a.b","type":"int"}]}`

// SensorSchema is a record of five fields, one nested and one a union.
const SensorSchema = `{"type":"record","name":"Reading","namespace":"acme","fields":[
 {"name":"sensor","type":"string"},
 {"name":"ts","type":"long"},
 {"name":"value","type":["null","double"]},
 {"name":"site","type":{"type":"record","name":"Site","fields":[{"name":"plant","type":"string"}]}},
 {"name":"seq","type":"long"}]}`

// SensorMapping reads three of the fields of SensorSchema.
var SensorMapping = schemas.Mapping{Key: "sensor", Time: "ts", Fields: []string{"value"}}

// SensorID is the schema id of SensorRecords.
const SensorID = 7

// SensorRecords returns 256 records of SensorSchema in Confluent's framing, of about 50 bytes.
func SensorRecords(t testing.TB) [][]byte {
	t.Helper()
	codec, err := goavro.NewCodec(SensorSchema)
	if err != nil {
		t.Fatal(err)
	}
	records := make([][]byte, 256)
	for i := range records {
		records[i], err = codec.BinaryFromNative([]byte{schemas.MagicID, 0, 0, 0, SensorID}, map[string]any{
			"sensor": "press-7/bearing-" + string(rune('a'+i%26)),
			"ts":     int64(1767225600000 + i),
			"value":  goavro.Union("double", 20.5+float64(i)/7),
			"site":   map[string]any{"plant": "oslo-north"},
			"seq":    int64(1_000_000 + i),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return records
}
