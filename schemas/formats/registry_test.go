package formats

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/registry"
	"odradek/schemas/schematest"
)

func TestRegistryReferences(t *testing.T) {
	f := schematest.NewRegistry(t)
	f.Register(t, "unit", sr.Schema{Schema: `{"type":"enum","name":"Unit","namespace":"acme","symbols":["C","F"]}`})
	f.Register(t, "site", sr.Schema{
		Schema:     `{"type":"record","name":"Site","namespace":"acme","fields":[{"name":"plant","type":"string"},{"name":"unit","type":"Unit"}]}`,
		References: []sr.SchemaReference{{Name: "acme.Unit", Subject: "unit", Version: 1}},
	})
	id := f.Register(t, "in-value", sr.Schema{
		Schema: `{"type":"record","name":"Reading","namespace":"acme","fields":[{"name":"site","type":"acme.Site"},{"name":"unit","type":"Unit"},
			{"name":"t","type":{"type":"long","logicalType":"timestamp-micros"}},
			{"name":"v","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}}]}`,
		References: []sr.SchemaReference{{Name: "acme.Site", Subject: "site", Version: 1}, {Name: "acme.Unit", Subject: "unit", Version: 1}},
	})
	dir := t.TempDir()
	for i := range 2 { // from the registry, then from disk
		if i == 1 {
			f.Status.Store(503)
		}
		r := open(t, registry.Config{URLs: []string{f.URL()}, CacheDir: dir})
		d, err := NewDecoder(schemas.Mapping{Key: "site.plant+site.unit", Time: "t", Fields: []string{"v"}}, r, Options{})
		if err != nil {
			t.Fatal(err)
		}
		value := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
		value = append(value, 2, 'x', 2, 0, 18, 4, 1, 0)
		var out schemas.Reading
		if err := d.Decode(t.Context(), nil, value, 0, nil, &out); err != nil || string(out.Key) != "x/F" ||
			out.Values[0] != 2.56 || out.Time != 9 {
			t.Errorf("round %d: %q %v %v", i, out.Key, out, err)
		}
		if n := r.Stats(); n.Requests != int64(3-2*i) || n.DiskHits != int64(i) {
			t.Errorf("round %d: %+v", i, n)
		}
		s, _ := r.SchemaByID(t.Context(), id)
		if faults := Check("", schemas.Mapping{Fields: []string{"v"}}, s); faults != nil {
			t.Error(faults)
		}
	}
}

func TestRegistryGUIDAndFingerprint(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.SensorSchema})
	f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	ss, ok := f.GetSchema("in-value", 1)
	if !ok {
		t.Fatal("no schema")
	}
	guid, err := hex.DecodeString(strings.ReplaceAll(ss.GUID, "-", ""))
	if err != nil || len(guid) != 16 {
		t.Fatal(ss.GUID)
	}
	r := open(t, registry.Config{URLs: []string{f.URL()}, NegativeTTL: time.Minute})
	d, err := NewDecoder(schematest.SensorMapping, r, Options{Subjects: func() []string { return []string{"absent-value", "in-value"} }})
	if err != nil {
		t.Fatal(err)
	}
	body := schematest.SensorRecords(t)[0][5:]
	header := func(value []byte) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) { return value, name == "__value_schema_id" }
	}
	v1 := append([]byte{1}, guid...)
	v0 := binary.BigEndian.AppendUint32([]byte{0}, uint32(id))
	crc, _ := avro.Fingerprint(schematest.SensorSchema)
	single := append(binary.LittleEndian.AppendUint64([]byte{0xc3, 1}, crc), body...)
	none := func(string) ([]byte, bool) { return nil, false }
	for range 2 {
		var out schemas.Reading
		if err := d.Decode(t.Context(), nil, body, 0, header(v1), &out); err != nil || out.Schema != id {
			t.Error("GUID in header:", err, out.Schema)
		}
		if err := d.Decode(t.Context(), nil, append(v1[:17:17], body...), 0, none, &out); err != nil {
			t.Error("GUID in front:", err)
		}
		if err := d.Decode(t.Context(), nil, body, 0, header(v0), &out); err != nil || out.Schema != id {
			t.Error("id in header:", err)
		}
		if err := d.Decode(t.Context(), nil, append(v0[:5:5], body...), 0, none, &out); err != nil {
			t.Error("id in front, other headers:", err)
		}
		if err := d.Decode(t.Context(), nil, single, 0, nil, &out); err != nil || out.Schema != id {
			t.Error("fingerprint:", err, out.Schema)
		}
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header([]byte{9}), &out), schemas.ClassMagic, "")
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header(append(v1[:17:17], 0)), &out), schemas.ClassMagic, "")
		wantClass(t, d.Decode(t.Context(), nil, body, 0, header(append([]byte{1}, make([]byte, 16)...)), &out), schemas.ClassUnknownSchema, "")
		single := append([]byte{0xc3, 1, 1, 2, 3, 4, 5, 6, 7, 8}, body...)
		wantClass(t, d.Decode(t.Context(), nil, single, 0, nil, &out), schemas.ClassUnknownSchema, "")
		wantClass(t, d.Decode(t.Context(), nil, nil, 0, header(v1), &out), schemas.ClassTombstone, "")
	}
}

// An answer that there is no such schema is final when it was given for the grace
// period, and every address of the registry has been asked.
func TestRegistryGrace(t *testing.T) {
	f, lagging := schematest.NewRegistry(t), schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	both := open(t, registry.Config{URLs: []string{lagging.URL(), f.URL()}})
	for range 2 {
		if s, err := both.SchemaByID(t.Context(), id); err != nil || s.Text != schematest.PlantSchema {
			t.Errorf("one replica has it: %v", err)
		}
	}
	before := [2]int64{lagging.Requests.Load(), f.Requests.Load()}
	var a *registry.AbsentError
	if _, err := both.SchemaByID(t.Context(), id+1); !errors.As(err, &a) || !a.Final || !errors.Is(err, registry.ErrUnknownSchema) {
		t.Errorf("no replica has it, no grace period: %v", err)
	}
	if lagging.Requests.Load()-before[0] != 1 || f.Requests.Load()-before[1] != 1 {
		t.Error("not every replica was asked")
	}
	dead := open(t, registry.Config{URLs: []string{lagging.URL(), schematest.Closed}})
	if _, err := dead.SchemaByID(t.Context(), id+1); !errors.As(err, &a) {
		t.Errorf("one replica is down: %v", err)
	}

	const grace = 600 * time.Millisecond
	r := open(t, registry.Config{URLs: []string{f.URL()}, Grace: grace})
	d, err := NewDecoder(schematest.SensorMapping, r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	clone := d.Clone()
	value := schematest.SensorRecords(t)[0]
	decode := func(d schemas.Decoder, id int32) (e *schemas.DecodeError) {
		binary.BigEndian.PutUint32(value[1:], uint32(id))
		errors.As(d.Decode(t.Context(), nil, value, 0, nil, new(schemas.Reading)), &e)
		return e
	}
	first := time.Now()
	if e := decode(d, 77); e == nil || !e.Absent || !e.Retry || e.Class != schemas.ClassUnknownSchema {
		t.Fatalf("first answer: %v", e)
	}
	for e := decode(clone, 77); e.Retry; e = decode(clone, 77) {
		if time.Since(first) > 1000*grace {
			t.Fatal("never final")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if waited := time.Since(first); waited < grace {
		t.Errorf("final after %s of %s", waited, grace)
	}
	if n := r.Stats().Requests; n < 3 || n > 6 {
		t.Errorf("asked %d times", n)
	}
	if e := decode(d, 77); e == nil || !e.Absent || e.Retry {
		t.Errorf("another decoder does not know that it is final: %v", e)
	}
	if e := decode(d, 78); e == nil || !e.Retry {
		t.Errorf("another id: %v", e)
	}
	f.SeedSchema("late-value", 1, 78, sr.Schema{Schema: schematest.SensorSchema + " "})
	for e := decode(d, 78); e != nil; e = decode(d, 78) {
		if !e.Retry {
			t.Fatalf("condemned though it is there: %v", e)
		}
		time.Sleep(10 * time.Millisecond)
	}
	// An outage is no answer, and does not set the clock back.
	if e := decode(d, 79); e == nil || !e.Absent {
		t.Fatal(e)
	}
	f.Status.Store(503)
	time.Sleep(grace)
	if e := decode(d, 79); e == nil || !e.Retry || e.Absent {
		t.Errorf("outage: %v", e)
	}
	f.Status.Store(0)
	time.Sleep(500 * time.Millisecond)
	if e := decode(d, 79); e == nil || !e.Absent || e.Retry {
		t.Errorf("after the outage: %v", e)
	}
}

// TestRef: records of one schema have one ref, however it is framed, and no other
// schema has it.
func TestRef(t *testing.T) {
	d, err := NewDecoder(schematest.SensorMapping, open(t, registry.Config{URLs: []string{schematest.Closed}}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	header := func(v []byte) func(string) ([]byte, bool) {
		return func(name string) ([]byte, bool) { return v, name == schemas.SchemaIDHeader }
	}
	id := []byte{0, 0, 0, 0, 7}
	a, ok := d.Ref(nil, append(id, 1, 2), nil)
	b, ok2 := d.Ref(nil, []byte{9, 9}, header(id))
	if !ok || !ok2 || a != b || string(a.Append(nil)) != "i\x00\x00\x00\x07" {
		t.Errorf("%v %v, %v %v", a, ok, b, ok2)
	}
	seen := map[schemas.SchemaRef]bool{a: true}
	for _, v := range [][]byte{{0, 0, 0, 0, 8}, append([]byte{1}, make([]byte, 16)...), append([]byte{0xc3, 1}, make([]byte, 8)...),
		append([]byte{0xc3, 1, 1}, make([]byte, 7)...)} {
		r, ok := d.Ref(nil, v, nil)
		if !ok || seen[r] {
			t.Errorf("% x: %v %v", v, r, ok)
		}
		seen[r] = true
	}
	for _, v := range [][]byte{nil, {}, {0, 0, 0, 0}, {7, 0, 0, 0, 0}, {0xc3, 1, 0}} {
		if r, ok := d.Ref(nil, v, nil); ok {
			t.Errorf("% x has the ref %v", v, r)
		}
	}
	bare, err := NewDecoder(schematest.SensorMapping, nil, Options{Bare: schematest.SensorSchema})
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := bare.Ref(nil, id, nil); ok {
		t.Errorf("a bare value has the ref %v", r)
	}
}

func open(t *testing.T, c registry.Config) *registry.Client {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	r, err := registry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestRegistryOutage(t *testing.T) {
	f := schematest.NewRegistry(t)
	id := f.Register(t, "in-value", sr.Schema{Schema: schematest.SensorSchema})
	later := f.Register(t, "in-value", sr.Schema{Schema: schematest.PlantSchema})
	r := open(t, registry.Config{URLs: []string{f.URL()}, NegativeTTL: 50 * time.Millisecond})
	d, err := NewDecoder(schematest.SensorMapping, r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	value := schematest.SensorRecords(t)[0]
	decode := func(d schemas.Decoder, id int32) error {
		var out schemas.Reading
		binary.BigEndian.PutUint32(value[1:], uint32(id))
		return d.Decode(t.Context(), nil, value, 0, nil, &out)
	}
	if err := decode(d, id); err != nil {
		t.Fatal(err)
	}
	for _, status := range []int32{500, 503, 429, 401, 403, 404 /* of a proxy */} {
		f.Status.Store(status)
		if err := decode(d, id); err != nil {
			t.Errorf("status %d, known id: %v", status, err)
		}
		if err := decode(d.Clone(), id); err != nil {
			t.Errorf("status %d, known id, another decoder: %v", status, err)
		}
		err := decode(d, 1000+status)
		var e *schemas.DecodeError
		if !errors.As(err, &e) || !e.Retry || e.Class != schemas.ClassUnknownSchema || e.SchemaID != 1000+status {
			t.Errorf("status %d, unknown id: %v", status, err)
		}
		if status == 401 && !strings.Contains(err.Error(), "schema_registry_username") ||
			status == 404 && !strings.Contains(err.Error(), "schema_registry_url") {
			t.Error(err)
		}
		// It is not asked again at once.
		before := f.Requests.Load()
		if err := decode(d, 1000+status); err == nil || f.Requests.Load() != before {
			t.Errorf("%v, %d requests more", err, f.Requests.Load()-before)
		}
	}
	f.Status.Store(0)

	// The registry says that there is no such id: the record is condemned, and
	// the answer is believed for a while.
	before := f.Requests.Load()
	for range 3 {
		var e *schemas.DecodeError
		if err := decode(d, 77); !errors.As(err, &e) || e.Retry || e.Class != schemas.ClassUnknownSchema {
			t.Error(err)
		}
	}
	if n := f.Requests.Load() - before; n != 1 {
		t.Errorf("%d requests for an id that is not there", n)
	}
	time.Sleep(60 * time.Millisecond)
	f.SeedSchema("late-value", 1, 77, sr.Schema{Schema: schematest.SensorSchema + " "})
	if err := decode(d, 77); err != nil {
		t.Error(err)
	}

	// Down altogether, then back.
	down := open(t, registry.Config{URLs: []string{schematest.Closed}})
	d2, _ := NewDecoder(schematest.SensorMapping, down, Options{})
	var e *schemas.DecodeError
	if err := decode(d2, id); !errors.As(err, &e) || !e.Retry || !strings.Contains(err.Error(), "schema_registry_url") {
		t.Error(err)
	}
	if err := down.Ping(t.Context()); err == nil || down.Stats().Up || down.Stats().Failures == 0 {
		t.Error(err, down.Stats())
	}

	// Several addresses: the first one is down.
	both := open(t, registry.Config{URLs: []string{schematest.Closed, f.URL()}})
	if s, err := both.SchemaByID(t.Context(), later); err != nil || s.Text != schematest.PlantSchema {
		t.Error(err)
	}
	if err := both.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	// A schema without the mapped fields, and one without a message.
	err = decode(d, later)
	if !errors.As(err, &e) || e.Class != schemas.ClassMissingField || e.Field != "sensor" || e.SchemaID != later || e.Retry {
		t.Error(err)
	}
	proto := f.Register(t, "p-value", sr.Schema{Schema: `syntax = "proto3";`, Type: sr.TypeProtobuf})
	err = decode(d, proto)
	if !errors.As(err, &e) || e.Class != schemas.ClassUnknownSchema || !strings.Contains(err.Error(), "not a Protobuf schema") {
		t.Error(err)
	}
	wrong := f.Register(t, "w-value", sr.Schema{Schema: `{"type":"record","name":"R","fields":[{"name":"a","type":"Nowhere"}]}`})
	if err := decode(d, wrong); !errors.As(err, &e) || e.Class != schemas.ClassUnknownSchema || e.Retry {
		t.Error(err)
	}
}
