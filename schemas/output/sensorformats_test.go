package output

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/detectors/seedtest"
)

// TestReadingFormats: encoding/json and dynamicpb, which know nothing of the appenders, read
// what they were given.
func TestReadingFormats(t *testing.T) {
	type reading struct {
		Sensor string
		Time   int64
		Value  *float64
		Site   struct{ Plant, Unit string }
		Seq    int64
	}
	c := protocompile.Compiler{Resolver: &protocompile.SourceResolver{
		Accessor: protocompile.SourceAccessorFromMap(map[string]string{"s.proto": readingProto})}}
	files, err := c.Compile(context.Background(), "s.proto")
	if err != nil {
		t.Fatal(err)
	}
	message := files[0].Messages().Get(0)
	field := message.Fields().ByName
	read := map[string]func(b []byte) (reading, error){
		"json": func(b []byte) (r reading, err error) { return r, json.Unmarshal(b, &r) },
		"protobuf": func(b []byte) (r reading, err error) {
			m := dynamicpb.NewMessage(message)
			err = proto.UnmarshalOptions{}.Unmarshal(b, m)
			site := m.Get(field("site")).Message()
			siteField := site.Descriptor().Fields().ByName
			r.Sensor, r.Time, r.Seq = m.Get(field("sensor")).String(), m.Get(field("time")).Int(), m.Get(field("seq")).Int()
			r.Site.Plant, r.Site.Unit = site.Get(siteField("plant")).String(), site.Get(siteField("unit")).String()
			if m.Has(field("value")) {
				v := m.Get(field("value")).Float()
				r.Value = &v
			}
			if len(m.GetUnknown()) > 0 {
				t.Errorf("unknown fields % x", m.GetUnknown())
			}
			return r, err
		},
	}
	rng := seedtest.New(t)
	for _, f := range ReadingFormats[1:] {
		framed, bare := f.New(7, `pl"ant ü`, "m/s²"), f.New(-1, `pl"ant ü`, "m/s²")
		for range 500 {
			sensor := "press-\t\"7ü"[:rng.IntN(10)]
			us, seq := rng.Int64()>>rng.IntN(64)-rng.Int64()>>rng.IntN(64), rng.Int64()>>rng.IntN(64)
			value := math.Float64frombits(rng.Uint64())
			if rng.IntN(4) == 0 || math.IsInf(value, 0) {
				value = []float64{math.NaN(), 0, math.Copysign(0, -1), 1e21}[rng.IntN(4)]
			}
			b := bare.Append([]byte("x"), []byte(sensor), us, value, seq)[1:]
			head := map[string]string{"json": "\x00\x00\x00\x00\x07", "protobuf": "\x00\x00\x00\x00\x07\x00"}[f.Name]
			if got := framed.Append(nil, []byte(sensor), us, value, seq); string(got) != head+string(b) {
				t.Fatalf("%s: % x, want % x before % x", f.Name, got, head, b)
			}
			r, err := read[f.Name](b)
			ms := int64(math.Floor(float64(us%1000)/1000)) + us/1000
			if err != nil || r.Sensor != sensor || r.Time != ms || r.Seq != seq || r.Site.Plant != `pl"ant ü` || r.Site.Unit != "m/s²" {
				t.Fatalf("%s: %+v, %v; want %q at %d, %d", f.Name, r, err, sensor, ms, seq)
			}
			if (r.Value == nil) != (value != value) || r.Value != nil && math.Float64bits(*r.Value) != math.Float64bits(value) {
				t.Fatalf("%s: value %v, want %v", f.Name, r.Value, value)
			}
		}
	}
}
