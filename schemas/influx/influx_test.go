package influx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// sample is a reading as text.
type sample struct {
	key    string
	time   int64
	values []float64
}

func (s sample) String() string { return fmt.Sprintf("%q at %d: %v", s.key, s.time, s.values) }

const (
	kafkaTime = 5000 // milliseconds
	tagA      = "a b"
	fieldX    = "x.y"
)

// mapping has names with a space and a dot.
var mapping = schemas.Mapping{Key: "name+tags.host+tags." + tagA, Time: "timestamp", Fields: []string{"fields.v", `fields.x\.y`},
	Readings: "@value"}

// compile returns the program of a mapping.
func compile(t testing.TB, m schemas.Mapping) schemas.Program {
	t.Helper()
	l, err := m.Layout()
	if err != nil {
		t.Fatal(err)
	}
	return Format.Compile(l, &schemas.Schema{ID: -1})
}

// read returns the readings of a record, or the class of its fault.
func read(p schemas.Program, body []byte, r *schemas.Reading) (list []sample, class string) {
	var e *schemas.DecodeError
	if err := p.Decode([]byte("k"), body, kafkaTime, r); errors.As(err, &e) {
		return nil, e.Class
	}
	for i := range r.Len() {
		key, at, values := r.At(i)
		list = append(list, sample{string(key), at, slices.Clone(values)})
	}
	return list, ""
}

var errComment = errors.New("a comment with control characters, which is none for the library")

// judge reads a record with the library of InfluxData.
func judge(body []byte) (list []sample, class string, err error) {
	d := lineprotocol.NewDecoderWithBytes(body)
	for d.Next() {
		s, class, mapped := judgeLine(d)
		if class == errComment.Error() {
			return nil, "", errComment
		}
		if class == schemas.ClassMalformed || class != "" && mapped {
			return nil, class, nil
		}
		if mapped {
			list = append(list, s)
		}
	}
	return list, "", nil
}

func judgeLine(d *lineprotocol.Decoder) (s sample, class string, mapped bool) {
	name, err := d.Measurement()
	if err != nil {
		// After blanks the library stands at the first blank, and names that one.
		if strings.Contains(err.Error(), "comment line") || strings.Contains(err.Error(), "' ' found at start of measurement") {
			return s, errComment.Error(), false
		}
		return s, schemas.ClassMalformed, false
	}
	parts := []string{string(name), "", ""}
	for {
		k, v, err := d.NextTag()
		if err != nil {
			return s, schemas.ClassMalformed, false
		}
		if k == nil {
			break
		}
		if i := slices.Index([]string{"host", tagA}, string(k)); i >= 0 {
			if parts[i+1] != "" {
				return s, schemas.ClassMalformed, false
			}
			parts[i+1] = string(v)
		}
	}
	s.values = []float64{math.NaN(), math.NaN()}
	for {
		k, kind, b, err := d.NextFieldBytes()
		if err != nil {
			return s, schemas.ClassMalformed, false
		}
		if k == nil {
			break
		}
		i := slices.Index([]string{"v", fieldX}, string(k))
		if i < 0 || kind == lineprotocol.String {
			continue
		}
		v, err := lineprotocol.NewValueFromBytes(kind, b)
		inf := errors.Is(err, lineprotocol.ErrValueOutOfRange) && kind == lineprotocol.Float
		if err != nil && !inf || s.values[i] == s.values[i] {
			return s, schemas.ClassMalformed, false
		}
		mapped = true
		switch {
		case inf:
			class, s.values[i] = schemas.ClassInfinite, math.Inf(1)
		case kind == lineprotocol.Int:
			s.values[i] = float64(v.IntV())
		case kind == lineprotocol.Uint:
			s.values[i] = float64(v.UintV())
		case kind == lineprotocol.Float:
			s.values[i] = v.FloatV()
		case v.BoolV():
			s.values[i] = 1
		default:
			s.values[i] = 0
		}
	}
	at, err := d.TimeBytes()
	if err != nil {
		return s, schemas.ClassMalformed, false
	}
	s.time = kafkaTime * 1000
	if len(at) > 0 {
		ns, err := strconv.ParseInt(string(at), 10, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			return s, schemas.ClassMalformed, false
		}
		if s.time = time.Unix(0, ns).UnixMicro(); err != nil {
			class = schemas.ClassBadTime
		}
	}
	escape := strings.NewReplacer("/", `\/`, `\`, `\\`)
	for i := range parts {
		parts[i] = escape.Replace(parts[i])
	}
	s.key = strings.Join(parts, "/")
	return s, class, mapped
}

// compare reads a record in both ways.
func compare(t *testing.T, p schemas.Program, body []byte, r *schemas.Reading) (readings int, class string) {
	t.Helper()
	want, wantClass, err := judge(slices.Clone(body))
	got, class := read(p, body, r)
	if err != nil || !utf8.Valid(body) {
		return len(got), class // which the library refuses, and InfluxDB does not
	}
	if class != wantClass || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%q:\n%s %v, want\n%s %v", body, class, got, wantClass, want)
	}
	return len(got), class
}

// theNames are names of tags and fields, and words are texts.
var (
	theNames = []string{"host", tagA, "v", fieldX, "cpu", "a,b", "c=d", "é", `e\f`, "#", `"`}
	words    = []string{"web-1", "x/y", "a b", "c,d", "e=f", `g\h`, "é", "1", `"q"`, "#"}
)

// encode writes a line with the library's encoder.
func encode(rng *rand.Rand, e *lineprotocol.Encoder) {
	e.StartLine(words[rng.IntN(len(words)-1)]) // # would begin a comment
	tags := slices.Clone(theNames[:1+rng.IntN(len(theNames))])
	slices.Sort(tags)
	for _, tag := range tags {
		if rng.IntN(2) == 0 {
			e.AddTag(tag, words[rng.IntN(len(words))])
		}
	}
	fields := rng.Perm(len(theNames))[:1+rng.IntN(len(theNames))]
	for _, i := range fields {
		var v any
		switch rng.IntN(6) {
		case 0:
			v = rng.Int64() - rng.Int64()
		case 1:
			v = rng.Uint64()
		case 2:
			v = rng.IntN(2) == 0
		case 3:
			v = "a text, of\nlines = \"quoted\" \\ " + words[rng.IntN(len(words))]
		default:
			v = math.Float64frombits(rng.Uint64())
		}
		if f, ok := v.(float64); ok && f-f != 0 {
			v = 0.5
		}
		e.AddField(theNames[i], lineprotocol.MustNewValue(v))
	}
	at := time.Time{}
	if rng.IntN(5) > 0 {
		at = time.Unix(0, rng.Int64()-rng.Int64())
	}
	e.EndLine(at)
}

// TestLibrary: the readings of a record are those that the library of InfluxData reads, of what its encoder writes and of broken lines.
func TestLibrary(t *testing.T) {
	rng := seedtest.New(t)
	p := compile(t, mapping)
	var r schemas.Reading
	readings, broken := 0, 0
	for range 3000 {
		var e lineprotocol.Encoder
		lines := 1 + rng.IntN(4)
		for range lines {
			encode(rng, &e)
		}
		if e.Err() != nil {
			t.Fatal(e.Err())
		}
		body := bytes.Clone(e.Bytes())
		switch rng.IntN(4) {
		case 0:
			body = bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))
		case 1:
			body = append([]byte("# a comment\n\n  \n"), body...)
		}
		n, class := compare(t, p, body, &r)
		if class != "" {
			t.Fatalf("%q: %s", body, class)
		}
		readings += n
		for range 20 {
			b := bytes.Clone(body)
			for range 1 + rng.IntN(2) {
				const chars = "\\\"\n\r ,=#-1iutTF.e\x00"
				if i := rng.IntN(len(b)); rng.IntN(2) == 0 {
					b[i] = chars[rng.IntN(len(chars))]
				} else {
					b = append(b[:i], b[i+rng.IntN(len(b)-i):]...)
				}
				if len(b) == 0 {
					break
				}
			}
			if _, class := compare(t, p, b, &r); class == schemas.ClassMalformed {
				broken++
			}
		}
	}
	if readings < 3000 || broken < 10_000 {
		t.Errorf("%d readings, %d broken records", readings, broken)
	}
}

// TestRecords: what a record means where the library has no opinion.
func TestRecords(t *testing.T) {
	series := schemas.Mapping{Key: "name+tags.host", Time: "timestamp", TimeUnit: "s", Fields: []string{"fields.v", "fields.w"}}
	for _, c := range []struct {
		several bool
		record  string
		want    string // the samples, or the fault
	}{
		{false, "cpu,host=a v=1,w=t 1700000000\n", "[cpu/a/v 1.7e+15 1 cpu/a/w 1.7e+15 1]"},
		{false, "# here\n\ncpu,host=a w=5u,v=\"on\"", "[cpu/a/w 5e+06 5]"},
		{false, "mem,host=a free=5", "[] unmapped"},
		{false, "", "[] unmapped"},
		{true, "mem free=5\n", "[] unmapped"},
		{true, "mem free=5\ncpu v=1\ncpu,host=a v=2,w=3 7", "[cpu//v 5e+06 1 cpu/a/v 7e+06 2 cpu/a/w 7e+06 3]"},
		{false, "cpu v=1\ncpu v=2", "malformed: line 2, byte 1: a record of several lines needs readings_field=@value"},
		{true, "cpu v=1\n\ncpu,host v=2", "malformed: line 3, byte 9: a tag is expected, as host=web-1"},
		{true, "cpu s=\"a\nb\"\ncpu v=-inf", "malformed: line 3, byte 11: the value before is no number and no Boolean"},
		{true, "cpu v=1,v=2", "malformed: line 1, byte 12: a mapped field comes twice"},
		{true, "cpu v=1\ncpu v=1e999", `infinite_value: line 2: the value is infinite`},
		{true, "cpu v=1\ncpu v=1 99999999999999999", `bad_time: line 2: the event time is outside the years 1 to 9998`},
		{true, "cpu v=1 2 3", "malformed: line 1, byte 11: a timestamp and the end of the line are expected"},
		{true, "cpu v=\"a", "malformed: line 1, byte 7: the text has no closing quote"},
		{true, "cpu v=3i4", "malformed: line 1, byte 10: the value before is no number and no Boolean"},
	} {
		m := series
		if c.several {
			m.Readings = "@value"
		}
		var r schemas.Reading
		split := schemas.NewSplitter([]string{"v", "w"})
		var got string
		var e *schemas.DecodeError
		if err := compile(t, m).Decode(nil, []byte(c.record), kafkaTime, &r); errors.As(err, &e) {
			got = e.Class + ": " + e.Err.Error()
		} else {
			list := []string{}
			for i := range split.Samples(&r) {
				key, at, values := split.Sample(&r, i)
				list = append(list, fmt.Sprint(string(key), " ", float64(at), " ", values[0]))
			}
			if got = fmt.Sprint(list); r.Skipped != schemas.NotSkipped {
				got += " " + r.Skipped.String()
			}
		}
		if got != c.want {
			t.Errorf("%q, several %t: %s, want %s", c.record, c.several, got, c.want)
		}
	}
}

// TestPaths: a mapping that leads nowhere in a line is a fault before a record is read.
func TestPaths(t *testing.T) {
	for want, m := range map[string]schemas.Mapping{
		`key "host": is neither name`:      {Key: "host", Fields: []string{"fields.v"}},
		`field "v": is not fields.NAME`:    {Fields: []string{"v"}},
		`field "fields.a.b": is not`:       {Fields: []string{"fields.a.b"}},
		`field "fields.v[3]": is no array`: {Fields: []string{"fields.v[3]"}},
		`time "time": is not timestamp`:    {Time: "time", Fields: []string{"fields.v"}},
		`field "fields.*.x": is not`:       {Fields: []string{"fields.*.x"}},
		`readings "fields": is not @value`: {Readings: "fields", Fields: []string{"fields.v"}},
	} {
		if faults := errors.Join(Format.Check(m, &schemas.Schema{})...); faults == nil || !strings.Contains(faults.Error(), want) {
			t.Errorf("%+v: %v, want %s", m, faults, want)
		}
		var r schemas.Reading
		if err := compile(t, m).Decode(nil, []byte("cpu v=1"), kafkaTime, &r); err == nil {
			t.Errorf("%+v is read", m)
		}
	}
	if faults := Format.Check(mapping, &schemas.Schema{}); len(faults) > 0 {
		t.Error(faults)
	}
}

// benchRecord is what Telegraf's input cpu writes.
const benchRecord = "cpu,cpu=cpu-total,host=web-1 usage_guest=0,usage_guest_nice=0,usage_idle=97.46835443037975," +
	"usage_iowait=0.253164556962,usage_irq=0,usage_nice=0,usage_softirq=0.126582278481,usage_steal=0,usage_system=0.759493670886," +
	"usage_user=1.39240506329 1700000000000000000\n"

var benchMapping = schemas.Mapping{Key: "name+tags.host+tags.cpu", Time: "timestamp",
	Fields: []string{"fields.usage_idle", "fields.usage_iowait", "fields.usage_system", "fields.usage_user"}}

// TestAllocations: a record without escapes is read without an allocation.
func TestAllocations(t *testing.T) {
	for _, readings := range []string{"", "@value"} {
		m := benchMapping
		m.Readings = readings
		p, body := compile(t, m), []byte(benchRecord)
		var r schemas.Reading
		if n := testing.AllocsPerRun(100, func() {
			if err := p.Decode(nil, body, 0, &r); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("readings %q: %v allocations", readings, n)
		}
	}
}

// BenchmarkDecode compares a record of one line, of four mapped values of ten, and one of 100 lines with the library, which splits
// the lines and parses the mapped values.
func BenchmarkDecode(b *testing.B) {
	for _, lines := range []int{1, 100} {
		m := benchMapping
		if lines > 1 {
			m.Readings = "@value"
		}
		body := []byte(strings.Repeat(benchRecord, lines))
		perValue := func(b *testing.B) {
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines*len(m.Fields)), "ns/value")
		}
		b.Run(fmt.Sprint("lines=", lines), func(b *testing.B) {
			p := compile(b, m)
			var r schemas.Reading
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := p.Decode(nil, body, 0, &r); err != nil {
					b.Fatal(err)
				}
			}
			perValue(b)
		})
		b.Run(fmt.Sprint("lines=", lines, "/library"), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				d := lineprotocol.NewDecoderWithBytes(body)
				for d.Next() {
					for k, _, _ := d.NextTag(); k != nil; k, _, _ = d.NextTag() {
					}
					for k, kind, v, _ := d.NextFieldBytes(); k != nil; k, kind, v, _ = d.NextFieldBytes() {
						if slices.Contains(m.Fields, "fields."+string(k)) {
							if _, err := lineprotocol.NewValueFromBytes(kind, v); err != nil {
								b.Fatal(err)
							}
						}
					}
					if _, err := d.TimeBytes(); err != nil {
						b.Fatal(err)
					}
				}
			}
			perValue(b)
		})
	}
}

// FuzzDecode: no bytes make the program panic, and it reads what the library reads.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("cpu,host=web-1,a\\ b=c v=1.5,x.y=3i,s=\"a\\\"b\" 1700000000000000000\n# no line\nmem v=t"))
	p := compile(f, mapping)
	f.Fuzz(func(t *testing.T, body []byte) {
		var r schemas.Reading
		compare(t, p, body, &r)
		out := schemas.Leaves{Most: 100}
		_ = leaves(body, &out)
		for i := range body {
			if body[i] == '\n' {
				single := mapping
				single.Readings = ""
				_, _ = read(compile(t, single), body[:i], &r)
			}
		}
	})
}
