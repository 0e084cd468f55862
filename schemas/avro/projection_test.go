package avro

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/linkedin/goavro/v2"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// differ runs one random schema, mapping and record through goavro with the
// oracle and through the projection, and compares them; then, if edit is
// not empty, once more on bytes that it has damaged. It counts how each ended.
func differ(t *testing.T, seed uint64, edit []byte, outcomes map[string]int) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	typ, schema := g.schema()
	m := g.mapping(typ)
	l, err := m.Layout()
	if err != nil {
		return // no path of the schema suits
	}
	context := func() string { return fmt.Sprintf("seed %d\nschema %s\nmapping %+v", seed, schema, m) }
	// goavro makes a time.Duration of time-micros, which overflows.
	codec, err := goavro.NewCodec(strings.ReplaceAll(schema, `"logicalType":"time-micros"`, `"logicalType":"none"`))
	if err != nil {
		t.Fatalf("goavro: %v\n%s", err, context())
	}
	p := newProjection(l, 5, schema)
	root, err := parseSchema(schema)
	if err != nil {
		t.Fatalf("%v\n%s", err, context())
	}
	if p.err != nil {
		if p.err.Class == schemas.ClassUnknownSchema {
			t.Fatalf("%v\n%s", p.err, context())
		}
		outcomes["schema "+p.err.Class]++
		return // the mapping has a path that does not suit
	}
	key := []byte(g.pick("", "a/b", `c\d`, "press-7"))
	stamp := []int64{-1, 0, 1767225600123, 1767225600123}[g.IntN(4)]
	o := &oracle{m: m, typ: typ}

	check := func(body []byte, damaged bool) {
		var got schemas.Reading
		gotErr := p.Decode(key, body, stamp, &got)
		end, st := skip(body, 0, root, 0, true)
		if st != statusOK || end != len(body) {
			if !damaged {
				t.Fatalf("a record of this schema: status %d at %d of %d\n%s\nbody %x", st, end, len(body), context(), body)
			}
			if gotErr == nil {
				// Only the inside of blocks of known size is not looked at.
				if end, st := skip(body, 0, root, 0, false); st != statusOK || end != len(body) {
					t.Fatalf("accepted what does not fit the schema\n%s\nbody %x", context(), body)
				}
			}
			return
		}
		native, rest, err := codec.NativeFromBinary(body)
		if err != nil && damaged && strings.Contains(err.Error(), "duplicate key") {
			return
		}
		if err != nil || len(rest) != 0 {
			t.Fatalf("goavro refuses what is accepted: %v, %d bytes left\n%s\nbody %x", err, len(rest), context(), body)
		}
		want := o.read(native, key, stamp)
		show := func() string {
			return fmt.Sprintf("%s\nbody %x\nnative %v\ngot %v %q %d %v\nwant %+v", context(), body, native, gotErr, got.Key,
				got.Time, got.Values, want)
		}
		outcomes[want.class]++
		if len(p.rows) > 0 {
			outcomes["rows"]++
		}
		if want.class != "" {
			var e *schemas.DecodeError
			if !errors.As(gotErr, &e) || e.Class != want.class || e.Field != want.field || e.SchemaID != 5 || e.Retry {
				t.Fatal(show())
			}
			return
		}
		if gotErr != nil || string(got.Key) != want.key || got.Time != want.time || !equal(got.Values, want.values) || got.Schema != 5 {
			t.Fatal(show())
		}
	}
	body := g.encode(nil, typ, 0)
	check(body, false)
	if len(edit) > 0 {
		check(damage(body, edit), true)
	}
}

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			return false
		}
	}
	return true
}

// damage changes bytes as edit says: three bytes an edit.
func damage(body, edit []byte) []byte {
	b := append([]byte(nil), body...)
	for len(edit) >= 3 && len(b) > 0 {
		at := int(edit[1]) * len(b) / 256
		switch edit[0] % 5 {
		case 0:
			b[at] = edit[2]
		case 1:
			b[at] ^= 1 << (edit[2] & 7)
		case 2:
			b = b[:at]
		case 3:
			b = append(b[:at:at], append([]byte{edit[2]}, b[at:]...)...)
		case 4:
			b = append(b[:at], b[at+1:]...)
		}
		edit = edit[3:]
	}
	return b
}

// TestProjectionEqualsGoavro runs random schemas, mappings and records.
func TestProjectionEqualsGoavro(t *testing.T) {
	rounds := 20000
	if testing.Short() {
		rounds = 2000
	}
	r := seedtest.New(t)
	outcomes := map[string]int{}
	for range rounds {
		edit := make([]byte, 3*(1+r.IntN(3)))
		for i := range edit {
			edit[i] = byte(r.Uint32())
		}
		differ(t, r.Uint64(), edit, outcomes)
	}
	t.Log(outcomes)
	for _, o := range []string{"", "rows", schemas.ClassMissingKey, schemas.ClassBadTime, schemas.ClassBadType, schemas.ClassInfinite,
		schemas.ClassMissingField, schemas.ClassMalformed, "schema " + schemas.ClassBadType} {
		if outcomes[o] < rounds/1000 {
			t.Errorf("only %d of %d rounds ended in %q: the generator tests too little", outcomes[o], rounds, o)
		}
	}
}

func FuzzProjection(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, []byte{byte(seed), 100, byte(seed * 7)})
	}
	f.Fuzz(func(t *testing.T, seed uint64, edit []byte) { differ(t, seed, edit, map[string]int{}) })
}

func init() {
	// goavro allocates what a count in the bytes demands.
	goavro.MaxBlockCount = 1 << 16
}
