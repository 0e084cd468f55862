package protobuf

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

const plantSchema = `syntax = "proto3";
package acme;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "site.proto";
message Reading {
  string device = 1;
  Site site = 2;
  double value = 3;
  optional float level = 4;
  repeated double accel = 5;
  map<string, sint64> tags = 6;
  repeated Channel channels = 7;
  google.protobuf.Timestamp at = 8;
  oneof body { int64 small = 9; Channel big = 10; string note = 11; }
  google.protobuf.DoubleValue wrapped = 12;
  fixed64 serial = 13;
  bool on = 14;
  int64 millis = 15;
  Reading parent = 16;
  map<int32, Channel> slots = 17;
  repeated sint32 counts = 18 [packed = false];
  uint32 u = 19;
  sfixed32 sf = 20;
  bytes raw = 21;
  message Channel { int32 level = 1; float gain = 2; message Deep { double x = 1; } Deep deep = 3; repeated int32 list = 4; }
  message Inner { message Most { double x = 1; } double y = 1; }
}
message Other { double w = 1; }
`

const siteSchema = `syntax = "proto3"; package acme; enum Unit { C = 0; F = 1; } message Site { string plant = 1; Unit unit = 2; double temperature = 3; }`

func plant() *schemas.Schema {
	return &schemas.Schema{ID: 7, Type: "PROTOBUF", Text: plantSchema, References: []schemas.Reference{{Name: "site.proto", Text: siteSchema}}}
}

func reading(tb testing.TB) protoreflect.MessageDescriptor {
	tb.Helper()
	f, err := parse(plant())
	if err != nil {
		tb.Fatal(err)
	}
	return f.Messages().Get(0)
}

func compile(tb testing.TB, m schemas.Mapping) (schemas.Program, *schemas.Layout) {
	tb.Helper()
	l, err := m.Layout()
	if err != nil {
		tb.Fatal(err)
	}
	return Format.Compile(l, plant()), l
}

func wantClass(t *testing.T, what string, err error, class, field string) {
	t.Helper()
	var e *schemas.DecodeError
	if !errors.As(err, &e) || e.Class != class || e.Field != field || e.SchemaID != 7 {
		t.Errorf("%s: error %v, want class %s, field %q", what, err, class, field)
	}
}

func equal(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || x != x && y != y })
}

var everything = schemas.Mapping{Key: "device+site.unit+serial+@key", Time: "millis", Fields: []string{"value", "level", "accel[2]",
	"tags.x", "channels[2].level", "channels[2].deep.x", "small", "big.level", "big.list[1]", "wrapped", "on", "parent.value", "parent.level",
	"parent.parent.accel[2]", "slots.7.gain", "slots.-1.deep.x", "counts[3]", "u", "sf", "site.temperature", "parent.small"}}

// follow is the definition: what a path's ends are in a message, by reflection. An end that
// is not set is nil.
func follow(m protoreflect.Message, segs []schemas.Segment, length *bool) []any {
	n := 1
	for _, s := range segs {
		n = max(n, s.Count)
	}
	none := make([]any, n)
	if !m.IsValid() {
		return none
	}
	d := m.Descriptor().Fields().ByName(protoreflect.Name(segs[0].Name))
	rest := segs[1:]
	end := func(d protoreflect.FieldDescriptor, v protoreflect.Value) []any {
		if len(rest) > 0 {
			return follow(v.Message(), rest, length)
		}
		if inner := wrapped(d.Message()); inner != nil {
			return []any{v.Message().Get(inner).Interface()}
		}
		if d.Kind() == protoreflect.EnumKind {
			if e := d.Enum().Values().ByNumber(v.Enum()); e != nil {
				return []any{string(e.Name())}
			}
			return []any{int64(v.Enum())}
		}
		return []any{v.Interface()}
	}
	switch {
	case d.IsMap():
		name := rest[0].Name
		rest = rest[1:]
		key := protoreflect.ValueOfString(name).MapKey()
		if d.MapKey().Kind() == protoreflect.Int32Kind {
			i, _ := strconv.Atoi(name)
			key = protoreflect.ValueOfInt32(int32(i)).MapKey()
		}
		if v := m.Get(d).Map().Get(key); v.IsValid() {
			return end(d.MapValue(), v)
		}
		return none
	case d.IsList():
		list := m.Get(d).List()
		if list.Len() != segs[0].Count {
			*length = true
			return none
		}
		for i := range none {
			none[i] = end(d, list.Get(i))[0]
		}
		return none
	case d.HasPresence() && !m.Has(d):
		return none
	}
	return end(d, m.Get(d))
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case int32:
		return float64(v)
	case int64:
		return float64(v)
	case uint32:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	}
	return math.NaN()
}

func keyText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	}
	return ""
}

// unmarshal is proto.Unmarshal, which panics on some entries of maps whose key is of
// another wire type.
func unmarshal(b []byte, m proto.Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("panic")
		}
	}()
	return proto.Unmarshal(b, m)
}

// compare reads the same bytes by the walk and by dynamicpb. It returns how it ended.
func compare(t *testing.T, p schemas.Program, l *schemas.Layout, d protoreflect.MessageDescriptor, body []byte) string {
	t.Helper()
	var r schemas.Reading
	err := p.Decode([]byte("kafka"), append([]byte{0}, body...), 1, &r)
	var e *schemas.DecodeError
	if err != nil && (!errors.As(err, &e) || e.Class == "" || e.Err == nil) {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(d)
	if merr := unmarshal(body, m); merr != nil {
		return "malformed" // dynamicpb looks into every message, and at the UTF-8 of texts
	}
	if e != nil && (e.Class == schemas.ClassTruncated || e.Class == schemas.ClassMalformed && e.Field == "") {
		t.Fatalf("dynamicpb takes % x: %v", body, err)
	}
	length, infinite, noTime := false, false, false
	var want []float64
	var keys []string
	var at int64
	for i := range l.Sinks {
		s := &l.Sinks[i]
		for _, v := range follow(m, s.Segs, &length) {
			switch s.Role {
			case schemas.RoleValue:
				f := toFloat(v)
				infinite = infinite || math.IsInf(f, 0)
				want = append(want, f)
			case schemas.RoleKey:
				keys = append(keys, strings.NewReplacer("/", `\/`, `\`, `\\`).Replace(keyText(v)))
			case schemas.RoleTime:
				if v == nil {
					noTime = true
				} else {
					at = v.(int64) * 1000
					noTime = at/1000 != v.(int64) || at < schemas.MinTime || at > schemas.MaxTime
				}
			}
		}
	}
	empty := slices.Contains(keys, "")
	switch {
	case empty:
		if e == nil || e.Class != schemas.ClassMissingKey && e.Class != schemas.ClassTooLarge {
			t.Fatalf("% x: %v, want a missing key", body, err)
		}
	case e != nil && e.Class == schemas.ClassTooLarge:
	case noTime:
		if e == nil || e.Class != schemas.ClassBadTime {
			t.Fatalf("% x: %v, want a bad time", body, err)
		}
	case length || infinite:
		if e == nil || e.Class != schemas.ClassMalformed && e.Class != schemas.ClassInfinite {
			t.Fatalf("% x: %v, want a wrong length or an infinite value", body, err)
		}
	case err != nil || !equal(r.Values, want) || r.Time != at || string(r.Key) != strings.Join(append(keys, "kafka"), "/"):
		t.Fatalf("% x\n%v\n%q %d %v, %v\nwant %q %d %v", body, m, r.Key, r.Time, r.Values, err, keys, at, want)
	default:
		return ""
	}
	return "fault"
}

// fill sets fields at random. Often an array has the length that the paths ask for.
func fill(g *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		if g.IntN(5) == 0 && !d.IsList() && d.Name() != "device" && d.Name() != "millis" {
			continue
		}
		value := func(d protoreflect.FieldDescriptor, holder func() protoreflect.Value) (v protoreflect.Value, ok bool) {
			switch d.Kind() {
			case protoreflect.MessageKind:
				if depth > 3 {
					return v, false
				}
				v = holder()
				fill(g, v.Message(), depth+1)
				return v, true
			case protoreflect.StringKind:
				return protoreflect.ValueOfString([]string{"press-7", "a/b", "ü"}[g.IntN(3)]), true
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte{1, 2}), true
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(g.IntN(2) == 0), true
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(protoreflect.EnumNumber(g.IntN(3))), true
			case protoreflect.DoubleKind:
				if g.IntN(300) == 0 {
					return protoreflect.ValueOfFloat64(math.Inf(1 - 2*g.IntN(2))), true
				}
				return protoreflect.ValueOfFloat64([]float64{1.5, math.NaN(), -2e300, 0}[g.IntN(4)]), true
			case protoreflect.FloatKind:
				return protoreflect.ValueOfFloat32(float32(g.NormFloat64())), true
			case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
				return protoreflect.ValueOfInt32(int32(g.Uint32() >> g.IntN(32))), true
			case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
				return protoreflect.ValueOfUint32(g.Uint32()), true
			case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
				return protoreflect.ValueOfUint64(g.Uint64() >> g.IntN(64)), true
			}
			return protoreflect.ValueOfInt64(int64(g.Uint64() >> (17 + g.IntN(40)))), true
		}
		switch {
		case d.IsMap():
			for range g.IntN(4) {
				key := protoreflect.ValueOfString([]string{"x", "y", ""}[g.IntN(3)]).MapKey()
				if d.MapKey().Kind() == protoreflect.Int32Kind {
					key = protoreflect.ValueOfInt32([]int32{7, -1, 0}[g.IntN(3)]).MapKey()
				}
				entries := m.Mutable(d).Map()
				if v, ok := value(d.MapValue(), entries.NewValue); ok {
					entries.Set(key, v)
				}
			}
		case d.IsList():
			n := map[string]int{"accel": 2, "channels": 2, "counts": 3, "list": 1}[string(d.Name())]
			if g.IntN(200) == 0 {
				n = g.IntN(4)
			}
			for range n {
				list := m.Mutable(d).List()
				if v, ok := value(d, list.NewElement); ok {
					list.Append(v)
				}
			}
		default:
			if v, ok := value(d, func() protoreflect.Value { return m.NewField(d) }); ok {
				m.Set(d, v)
			}
		}
	}
}

// TestWalkEqualsDynamicpb: random messages, two of them one after the other (which merges
// them), and cut or damaged ones.
func TestWalkEqualsDynamicpb(t *testing.T) {
	g := seedtest.New(t)
	d := reading(t)
	p, l := compile(t, everything)
	outcomes := map[string]int{}
	for range 3000 {
		m := dynamicpb.NewMessage(d)
		fill(g, m, 0)
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		outcomes[compare(t, p, l, d, b)]++
		other := dynamicpb.NewMessage(d)
		fill(g, other, 2)
		c, _ := proto.Marshal(other)
		outcomes[compare(t, p, l, d, append(slices.Clip(b), c...))]++
		b = b[:g.IntN(len(b)+1)]
		for range g.IntN(3) {
			if len(b) > 0 {
				b[g.IntN(len(b))] ^= 1 << g.IntN(8)
			}
		}
		outcomes[compare(t, p, l, d, b)]++
	}
	t.Log(outcomes)
	for _, o := range []string{"", "fault", "malformed"} {
		if outcomes[o] < 100 {
			t.Errorf("%d ended in %q: the generator tests too little", outcomes[o], o)
		}
	}
}

func FuzzDecode(f *testing.F) {
	d := reading(f)
	p, l := compile(f, everything)
	g := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		m := dynamicpb.NewMessage(d)
		fill(g, m, 1)
		b, _ := proto.Marshal(m)
		f.Add(b)
	}
	f.Add([]byte{0x4a, 0, 0x4b, 0x4c})
	f.Fuzz(func(t *testing.T, b []byte) {
		compare(t, p, l, d, b)
		var r schemas.Reading
		if err := p.Decode(nil, b, 1, &r); err == nil && (len(r.Key) == 0 || len(r.Values) != l.Width) { // with its indexes
			t.Fatal(r)
		}
	})
}

func FuzzSchema(f *testing.F) {
	f.Add(plantSchema, siteSchema, "site.plant", []byte{0, 1, 2})
	f.Add(`message A { optional A a = 1; optional int32 b = 2; }`, `import "schema.proto";`, "a.a.b", []byte{2, 0})
	f.Fuzz(func(t *testing.T, text, reference, path string, record []byte) {
		s := &schemas.Schema{ID: 7, Text: text, References: []schemas.Reference{{Name: "site.proto", Text: reference}}}
		m := schemas.Mapping{Key: "@key+" + path, Fields: []string{path, "value"}}
		faults := Format.Check(m, s)
		l, err := m.Layout()
		if err != nil {
			return
		}
		var r schemas.Reading
		if err := Format.Compile(l, s).Decode([]byte("k"), record, 1, &r); err == nil && len(faults) > 0 {
			t.Fatal(faults)
		}
	})
}

// A schema may be a serialized descriptor instead of a text.
func TestDescriptor(t *testing.T) {
	f, err := parse(&schemas.Schema{Text: siteSchema})
	if err != nil {
		t.Fatal(err)
	}
	d := protodesc.ToFileDescriptorProto(f)
	for _, f := range d.MessageType[0].Field {
		f.JsonName = nil // as Python has it
	}
	b, err := proto.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	s := &schemas.Schema{ID: 7, Text: base64.StdEncoding.EncodeToString(b)}
	if faults := Format.Check(schemas.Mapping{Key: "plant", Fields: []string{"temperature"}}, s); faults != nil {
		t.Error(faults)
	}
	root := plant()
	root.References[0].Text = s.Text
	if faults := Format.Check(everything, root); faults != nil {
		t.Error(faults)
	}
}

func tagged(number protowire.Number, typ protowire.Type, more ...byte) []byte {
	return append(protowire.AppendTag(nil, number, typ), more...)
}

func TestRecords(t *testing.T) {
	double := func(v float64) []byte {
		return binary.LittleEndian.AppendUint64(tagged(3, protowire.Fixed64Type), math.Float64bits(v))
	}
	type outcome struct {
		values       []float64
		key          string
		time         int64
		class, field string // of the fault; "": it is read
	}
	read := func(key string, time int64, values ...float64) outcome {
		return outcome{values: values, key: key, time: time}
	}
	refused := func(class, field string) outcome { return outcome{class: class, field: field} }
	value := schemas.Mapping{Fields: []string{"value"}}
	at := schemas.Mapping{Time: "at", Fields: []string{"value"}}
	missing := math.NaN()
	for _, c := range []struct {
		name string
		m    schemas.Mapping
		body []byte
		want outcome
	}{
		{"a value", value, double(2.5), read("k", 1000, 2.5)},
		{"nothing is 0", value, nil, read("k", 1000, 0)},
		{"nothing, with presence, is missing", schemas.Mapping{Fields: []string{"level", "small", "wrapped"}}, nil,
			read("k", 1000, missing, missing, missing)},
		{"an infinite value", value, double(math.Inf(1)), refused(schemas.ClassInfinite, "value")},
		{"an infinite value, then another", value, append(double(math.Inf(1)), double(1)...), read("k", 1000, 1)},
		{"another wire type is another field", value, tagged(3, protowire.VarintType, 5), read("k", 1000, 0)},
		{"a truncated value", value, double(1)[:5], refused(schemas.ClassTruncated, "")},
		{"a truncated text", value, tagged(1, protowire.BytesType, 9, 'a'), refused(schemas.ClassTruncated, "")},
		{"field 0", value, []byte{0, 0}, refused(schemas.ClassMalformed, "")},
		{"the end of no group", value, tagged(99, protowire.EndGroupType), refused(schemas.ClassMalformed, "")},
		{"a packed array of another length", schemas.Mapping{Fields: []string{"accel[2]"}},
			tagged(5, protowire.BytesType, append([]byte{8}, make([]byte, 8)...)...), refused(schemas.ClassMalformed, "accel[2]")},
		{"no key", schemas.Mapping{Key: "device", Fields: []string{"value"}}, nil, refused(schemas.ClassMissingKey, "device")},
		{"no time", at, nil, refused(schemas.ClassBadTime, "at")},
		{"a Timestamp", at, tagged(8, protowire.BytesType, 5, 8, 5, 16, 0xd0, 0x0f), read("k", 5000002, 0)},
		{"a Timestamp with negative nanoseconds", at, tagged(8, protowire.BytesType, 11, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff, 1), refused(schemas.ClassBadTime, "at")},
		{"a value of an enum without a name", schemas.Mapping{Key: "site.unit", Fields: []string{"value"}},
			tagged(2, protowire.BytesType, 2, 16, 9), read("9", 1000, 0)},
		{"a key of bytes", schemas.Mapping{Key: "raw", Fields: []string{"value"}}, tagged(21, protowire.BytesType, 2, 0, 255),
			read("\x00\xff", 1000, 0)},
		{"a field that does not exist", schemas.Mapping{Fields: []string{"val"}}, nil, refused(schemas.ClassMissingField, "val")},
		{"a text for a value", schemas.Mapping{Fields: []string{"device"}}, nil, refused(schemas.ClassBadType, "device")},
	} {
		p, _ := compile(t, c.m)
		var r schemas.Reading
		err := p.Decode([]byte("k"), append([]byte{0}, c.body...), 1, &r)
		if w := c.want; w.class != "" {
			wantClass(t, c.name, err, w.class, w.field)
		} else if err != nil || !equal(r.Values, w.values) || string(r.Key) != w.key || r.Time != w.time || r.Schema != 7 {
			t.Errorf("%s: read %v of key %q at %d, %v; want %v of key %q at %d", c.name, r.Values, r.Key, r.Time, err, w.values, w.key, w.time)
		}
	}
}

func indexes(list ...int64) []byte {
	b := binary.AppendVarint(nil, int64(len(list)))
	for _, i := range list {
		b = binary.AppendVarint(b, i)
	}
	return b
}

func TestMessageIndexes(t *testing.T) {
	double := func(v float64) []byte { return binary.LittleEndian.AppendUint64([]byte{9}, math.Float64bits(v)) }
	other, _ := compile(t, schemas.Mapping{Fields: []string{"w"}})
	most, _ := compile(t, schemas.Mapping{Fields: []string{"x"}})
	var r schemas.Reading
	if err := other.Decode([]byte("k"), append(indexes(1), double(2)...), 1, &r); err != nil || r.Values[0] != 2 {
		t.Error(r.Values, err)
	}
	for _, path := range [][]int64{{0, 1, 0}, {0, 0, 0}} { // Inner.Most and Channel.Deep: no entry of a map counts
		if err := most.Decode([]byte("k"), append(indexes(path...), double(3)...), 1, &r); err != nil || r.Values[0] != 3 {
			t.Error(path, r.Values, err)
		}
	}
	for name, c := range map[string]struct {
		b     []byte
		class string
		field string
	}{
		"first, which lacks it": {[]byte{0}, schemas.ClassMissingField, "w"},
		"the same in full":      {indexes(0), schemas.ClassMissingField, "w"},
		"nothing":               {nil, schemas.ClassTruncated, ""},
		"no index":              {[]byte{2}, schemas.ClassTruncated, ""},
		"cut index":             {[]byte{2, 0x80}, schemas.ClassTruncated, ""},
		"third message":         {indexes(2), schemas.ClassMalformed, ""},
		"negative":              {indexes(-1), schemas.ClassMalformed, ""},
		"nested too deep":       {indexes(1, 0), schemas.ClassMalformed, ""},
		"negative count":        {[]byte{1}, schemas.ClassMalformed, ""},
		"many":                  {binary.AppendVarint(nil, math.MaxInt64), schemas.ClassMalformed, ""},
		"65 bits":               {slices.Repeat([]byte{0xff}, 11), schemas.ClassMalformed, ""},
		"entry of a map":        {indexes(0, 2), schemas.ClassMalformed, ""},
	} {
		wantClass(t, name, other.Decode([]byte("k"), c.b, 1, &r), c.class, c.field)
	}
}

// mapsSchema has maps between its nested messages, javaSchema is the text that Confluent's
// serializer for Java registers for the class that protoc makes of mapsSchema: the entries of
// maps are messages, each where its map was declared.
const (
	mapsSchema = `syntax = "proto3"; package acme; message Reading {
	message First { double x = 1; }
	map<string, double> tags = 1;
	message Second { double x = 1; }
	map<int32, Second> slots = 2;
	message Third { double x = 1; map<string, string> notes = 2; message Deep { double x = 1; } } }`
	javaSchema = `syntax = "proto3";
package acme;

message Reading {
  repeated .acme.Reading.TagsEntry tags = 1;
  repeated .acme.Reading.SlotsEntry slots = 2;

  message First {
    double x = 1;
  }
  message TagsEntry {
    option map_entry = true;

    string key = 1;
    double value = 2;
  }
  message Second {
    double x = 1;
  }
  message SlotsEntry {
    option map_entry = true;

    int32 key = 1;
    .acme.Reading.Second value = 2;
  }
  message Third {
    double x = 1;
    repeated .acme.Reading.Third.NotesEntry notes = 2;

    message NotesEntry {
      option map_entry = true;

      string key = 1;
      string value = 2;
    }
    message Deep {
      double x = 1;
    }
  }
}
`
)

// TestMessageIndexesAfterMaps: indexes count the messages that the schema declares. Entries of
// maps are among them in a descriptor, which Python registers, and in the text that Java makes
// of one, and are not where the text has map<>.
func TestMessageIndexesAfterMaps(t *testing.T) {
	f, err := parse(&schemas.Schema{Text: mapsSchema})
	if err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(protodesc.ToFileDescriptorProto(f))
	if err != nil {
		t.Fatal(err)
	}
	x := binary.LittleEndian.AppendUint64([]byte{9}, math.Float64bits(3))
	tags := append([]byte{10, 12, 10, 1, 'x', 17}, x[1:]...)
	for name, c := range map[string]struct {
		text             string
		messages, others [][]int64 // messages with a field x; entries of maps, and indexes of no message
	}{
		"map<>": {mapsSchema, [][]int64{{0, 0}, {0, 1}, {0, 2}, {0, 2, 0}}, [][]int64{{0, 3}, {0, 2, 1}}},
		"Java":  {javaSchema, [][]int64{{0, 0}, {0, 2}, {0, 4}, {0, 4, 1}}, [][]int64{{0, 1}, {0, 3}, {0, 4, 0}, {0, 5}}},
		"Python": {base64.StdEncoding.EncodeToString(b), [][]int64{{0, 0}, {0, 2}, {0, 4}, {0, 4, 1}},
			[][]int64{{0, 1}, {0, 3}, {0, 4, 0}, {0, 5}}},
	} {
		compile := func(field string) schemas.Program {
			l, err := schemas.Mapping{Fields: []string{field}}.Layout()
			if err != nil {
				t.Fatal(err)
			}
			s := &schemas.Schema{ID: 7, Text: c.text}
			if faults := Format.Check(schemas.Mapping{Fields: []string{field}}, s); faults != nil {
				t.Error(name, faults)
			}
			return Format.Compile(l, s)
		}
		inner, outer := compile("x"), compile("tags.x")
		var r schemas.Reading
		for _, m := range c.messages {
			if err := inner.Decode([]byte("k"), append(indexes(m...), x...), 1, &r); err != nil || r.Values[0] != 3 {
				t.Errorf("%s, message %v: %v, %v", name, m, r.Values, err)
			}
		}
		for _, m := range c.others {
			wantClass(t, name, inner.Decode([]byte("k"), append(indexes(m...), x...), 1, &r), schemas.ClassMalformed, "")
		}
		if err := outer.Decode([]byte("k"), append([]byte{0}, tags...), 1, &r); err != nil || r.Values[0] != 3 {
			t.Errorf("%s, value of a map: %v, %v", name, r.Values, err)
		}
	}
}

func TestCheck(t *testing.T) {
	if faults := Format.Check(everything, plant()); faults != nil {
		t.Error(faults)
	}
	for _, c := range []struct {
		m    schemas.Mapping
		want string
	}{
		{schemas.Mapping{Fields: []string{"valu"}}, `field "valu": message acme.Reading has no field "valu"; nearest: value`},
		{schemas.Mapping{Fields: []string{"site.temp"}}, `message acme.Site has no field "temp"; nearest: site.temperature`},
		{schemas.Mapping{Fields: []string{"accel"}}, `goes through an array: give its length, as accel[3]`},
		{schemas.Mapping{Fields: []string{"value[2]"}}, `is double, not an array`},
		{schemas.Mapping{Fields: []string{"tags"}}, `is a map: go on with a key of it, as tags.x`},
		{schemas.Mapping{Fields: []string{"device.x"}}, `string has no field "x"`},
		{schemas.Mapping{Key: "value", Fields: []string{"value"}}, `is double, which cannot be a series key`},
		{schemas.Mapping{Time: "site", Fields: []string{"value"}}, `is message acme.Site, not a time`},
		{schemas.Mapping{Fields: []string{"at"}}, `is message google.protobuf.Timestamp, not a number`},
		{schemas.Mapping{Fields: []string{"@value"}}, `is message acme.Reading`},
	} {
		if faults := Format.Check(c.m, plant()); len(faults) != 1 || !strings.Contains(faults[0].Error(), c.want) {
			t.Errorf("%v\nwant %s", faults, c.want)
		}
	}
	for _, text := range []string{"", "message", `syntax = "proto3";`, `import "missing.proto"; message A {}`,
		strings.Repeat(" ", maxSchemaBytes)} {
		s := &schemas.Schema{ID: 7, Text: text}
		if faults := Format.Check(everything, s); len(faults) != 1 {
			t.Error(faults)
		}
		l, _ := everything.Layout()
		err := Format.Compile(l, s).Decode(nil, []byte{0}, 1, new(schemas.Reading))
		wantClass(t, text[:min(len(text), 20)], err, schemas.ClassUnknownSchema, "")
	}
}

var benchMapping = schemas.Mapping{Key: "device", Time: "millis", Fields: []string{"value"}}

func benchRecord(tb testing.TB) []byte {
	m := dynamicpb.NewMessage(reading(tb))
	set := func(name string, v any) {
		m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(name)), protoreflect.ValueOf(v))
	}
	set("device", "press-7/bearing-a")
	set("value", 20.642857142857142)
	set("millis", int64(1767225600000))
	set("note", "oslo-north")
	b, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte{0}, b...)
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	b := benchRecord(t)
	p, _ := compile(t, benchMapping)
	var r schemas.Reading
	if n := testing.AllocsPerRun(1000, func() {
		if err := p.Decode(nil, b, 5, &r); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkDecode compares the walk with dynamicpb, which unpacks whole messages.
func BenchmarkDecode(b *testing.B) {
	record := benchRecord(b)
	b.Run("walk", func(b *testing.B) {
		p, _ := compile(b, benchMapping)
		var r schemas.Reading
		b.ReportAllocs()
		b.SetBytes(int64(len(record)))
		for b.Loop() {
			if err := p.Decode(nil, record, 0, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("dynamicpb", func(b *testing.B) {
		m := dynamicpb.NewMessage(reading(b))
		b.ReportAllocs()
		b.SetBytes(int64(len(record)))
		for b.Loop() {
			if err := proto.Unmarshal(record[1:], m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
