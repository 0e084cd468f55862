package otlp

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

	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

const kafkaTime = 5000 // milliseconds

var mapping = schemas.Mapping{Key: `resource.service\.name+scope+name+unit+type+attributes.state+attributes.n`, Time: "time",
	Fields: []string{"value"}, Readings: "@value"}

func compile(t testing.TB, m schemas.Mapping) schemas.Program {
	t.Helper()
	l, err := m.Layout()
	if err != nil {
		t.Fatal(err)
	}
	return Format.Compile(l, &schemas.Schema{ID: -1})
}

// read returns the readings of a record, or the class of its fault.
func read(p schemas.Program, body []byte, r *schemas.Reading) (list []string, class string) {
	var e *schemas.DecodeError
	if err := p.Decode([]byte("k"), body, kafkaTime, r); errors.As(err, &e) {
		return nil, e.Class
	}
	for i := range r.Len() {
		key, at, values := r.At(i)
		list = append(list, fmt.Sprintf("%s at %d: %v", key, at, values[0]))
	}
	return list, ""
}

// judge returns the readings of a message of the library.
func judge(m *metrics.MetricsData) (list []string, class string) {
	escape := strings.NewReplacer("/", `\/`, `\`, `\\`)
	attribute := func(list []*common.KeyValue, name string) (text string, ok bool) {
		for _, kv := range list {
			if kv.GetKey() != name {
				continue
			}
			switch v := kv.GetValue().GetValue().(type) {
			case *common.AnyValue_StringValue:
				return escape.Replace(v.StringValue), true
			case *common.AnyValue_BoolValue:
				return fmt.Sprint(v.BoolValue), true
			case *common.AnyValue_IntValue:
				return fmt.Sprint(v.IntValue), true
			case *common.AnyValue_DoubleValue:
				return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64), true
			case *common.AnyValue_BytesValue:
				return escape.Replace(string(v.BytesValue)), true
			case nil:
				return "", true
			}
			return "", false
		}
		return "", true
	}
	for _, rm := range m.GetResourceMetrics() {
		service, okService := attribute(rm.GetResource().GetAttributes(), "service.name")
		for _, sm := range rm.GetScopeMetrics() {
			for _, x := range sm.GetMetrics() {
				typ := "sum"
				add := func(suffix string, attributes []*common.KeyValue, at uint64, v float64, flags uint32) {
					state, okState := attribute(attributes, "state")
					n, okN := attribute(attributes, "n")
					name := escape.Replace(x.GetName() + suffix)
					t := time.Unix(0, int64(at)).UnixMicro()
					if at == 0 {
						t = kafkaTime * 1000
					}
					if flags&1 != 0 {
						v = math.NaN()
					}
					switch {
					case class != "":
					case !okService || !okState || !okN:
						class = schemas.ClassMissingKey
					case at > math.MaxInt64:
						class = schemas.ClassBadTime
					case math.IsInf(v, 0):
						class = schemas.ClassInfinite
					}
					list = append(list, fmt.Sprintf("%s at %d: %v", strings.Join([]string{service, escape.Replace(sm.GetScope().GetName()), name,
						escape.Replace(x.GetUnit()), typ, state, n}, "/"), t, v))
				}
				numbers := func(points []*metrics.NumberDataPoint) {
					for _, p := range points {
						v := math.NaN()
						switch x := p.GetValue().(type) {
						case *metrics.NumberDataPoint_AsDouble:
							v = x.AsDouble
						case *metrics.NumberDataPoint_AsInt:
							v = float64(x.AsInt)
						}
						add("", p.GetAttributes(), p.GetTimeUnixNano(), v, p.GetFlags())
					}
				}
				temporal := func(t metrics.AggregationTemporality, monotonic bool) {
					if t == metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA {
						typ = "delta"
					} else if t == metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE && monotonic {
						typ = "counter"
					}
				}
				switch d := x.GetData().(type) {
				case *metrics.Metric_Gauge:
					typ = "gauge"
					numbers(d.Gauge.GetDataPoints())
				case *metrics.Metric_Sum:
					temporal(d.Sum.GetAggregationTemporality(), d.Sum.GetIsMonotonic())
					numbers(d.Sum.GetDataPoints())
				case *metrics.Metric_Histogram:
					temporal(d.Histogram.GetAggregationTemporality(), true)
					for _, p := range d.Histogram.GetDataPoints() {
						add(".count", p.GetAttributes(), p.GetTimeUnixNano(), float64(p.GetCount()), p.GetFlags())
						if p.Sum != nil {
							add(".sum", p.GetAttributes(), p.GetTimeUnixNano(), p.GetSum(), p.GetFlags())
						}
					}
				case *metrics.Metric_ExponentialHistogram:
					temporal(d.ExponentialHistogram.GetAggregationTemporality(), true)
					for _, p := range d.ExponentialHistogram.GetDataPoints() {
						add(".count", p.GetAttributes(), p.GetTimeUnixNano(), float64(p.GetCount()), p.GetFlags())
						if p.Sum != nil {
							add(".sum", p.GetAttributes(), p.GetTimeUnixNano(), p.GetSum(), p.GetFlags())
						}
					}
				case *metrics.Metric_Summary:
					typ = "counter"
					for _, p := range d.Summary.GetDataPoints() {
						add(".count", p.GetAttributes(), p.GetTimeUnixNano(), float64(p.GetCount()), p.GetFlags())
						add(".sum", p.GetAttributes(), p.GetTimeUnixNano(), p.GetSum(), p.GetFlags())
					}
				}
			}
		}
	}
	if class != "" {
		return nil, class
	}
	return list, ""
}

// generator makes messages.
type generator struct{ *rand.Rand }

func (g generator) attributes() (list []*common.KeyValue) {
	names := []string{"service.name", "state", "n", "host", ""}
	for _, i := range g.Perm(len(names))[:g.IntN(len(names)+1)] {
		var v *common.AnyValue
		switch g.IntN(40) {
		case 0:
			v = &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &common.ArrayValue{}}}
		case 1, 2:
			v = &common.AnyValue{}
		case 3, 4:
			v = &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: []byte("raw/")}}
		case 5, 6:
			v = &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: g.IntN(2) == 0}}
		case 7, 8:
			v = &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: g.NormFloat64()}}
		case 9, 10, 11, 12:
			v = &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: g.Int64() - g.Int64()}}
		default:
			v = &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: []string{"user", "a/b", "é", ""}[g.IntN(4)]}}
		}
		list = append(list, &common.KeyValue{Key: names[i], Value: v})
	}
	if len(list) > 0 && g.IntN(20) == 0 {
		again := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "again"}}
		list = append(list, &common.KeyValue{Key: list[0].Key, Value: again})
	}
	return list
}

func (g generator) time() uint64 {
	switch g.IntN(200) {
	case 0:
		return 1 << 63
	case 1:
		return 0
	}
	return uint64(1_700_000_000_000_000_000 + g.Int64N(1e12))
}

func (g generator) value() float64 {
	switch g.IntN(300) {
	case 2, 3, 4:
		return 0
	case 0:
		return math.Inf(1)
	case 1:
		return math.NaN()
	}
	return g.NormFloat64()
}

func (g generator) flags() uint32 { return uint32(g.IntN(10) / 9) }

func (g generator) sum() *float64 {
	if v := g.value(); g.IntN(4) > 0 {
		return &v
	}
	return nil
}

func (g generator) numbers() (list []*metrics.NumberDataPoint) {
	for range g.IntN(4) {
		p := &metrics.NumberDataPoint{Attributes: g.attributes(), StartTimeUnixNano: 7, TimeUnixNano: g.time(), Flags: g.flags()}
		switch g.IntN(5) {
		case 0:
		case 1, 2:
			p.Value = &metrics.NumberDataPoint_AsInt{AsInt: g.Int64() - g.Int64()}
		default:
			p.Value = &metrics.NumberDataPoint_AsDouble{AsDouble: g.value()}
		}
		if g.IntN(4) == 0 {
			p.Exemplars = append(p.Exemplars, &metrics.Exemplar{FilteredAttributes: g.attributes(), SpanId: []byte("12345678"), TimeUnixNano: 5})
		}
		list = append(list, p)
	}
	return list
}

func (g generator) metric() *metrics.Metric {
	m := &metrics.Metric{Name: []string{"system.cpu.time", "a/b", "latency"}[g.IntN(3)], Description: "of a test",
		Unit: []string{"s", "1", ""}[g.IntN(3)]}
	temporality := metrics.AggregationTemporality(g.IntN(3))
	switch g.IntN(6) {
	case 0:
		m.Data = &metrics.Metric_Gauge{Gauge: &metrics.Gauge{DataPoints: g.numbers()}}
	case 1:
		m.Data = &metrics.Metric_Sum{Sum: &metrics.Sum{DataPoints: g.numbers(), AggregationTemporality: temporality, IsMonotonic: g.IntN(2) == 0}}
	case 2:
		d := &metrics.Histogram{AggregationTemporality: temporality}
		for range g.IntN(3) {
			d.DataPoints = append(d.DataPoints, &metrics.HistogramDataPoint{Attributes: g.attributes(), TimeUnixNano: g.time(),
				Count: g.Uint64N(1 << 60), Sum: g.sum(), BucketCounts: []uint64{1, 2}, ExplicitBounds: []float64{5}, Flags: g.flags(),
				Min: g.sum(), Max: g.sum()})
		}
		m.Data = &metrics.Metric_Histogram{Histogram: d}
	case 3:
		d := &metrics.ExponentialHistogram{AggregationTemporality: temporality}
		for range g.IntN(3) {
			d.DataPoints = append(d.DataPoints, &metrics.ExponentialHistogramDataPoint{Attributes: g.attributes(), TimeUnixNano: g.time(),
				Count: g.Uint64N(1 << 60), Sum: g.sum(), Scale: 3, ZeroCount: 2, Flags: g.flags(), Min: g.sum(), ZeroThreshold: 1,
				Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: 1, BucketCounts: []uint64{1, 2}}})
		}
		m.Data = &metrics.Metric_ExponentialHistogram{ExponentialHistogram: d}
	case 4:
		d := &metrics.Summary{}
		for range g.IntN(3) {
			d.DataPoints = append(d.DataPoints, &metrics.SummaryDataPoint{Attributes: g.attributes(), TimeUnixNano: g.time(),
				Count: g.Uint64N(1 << 60), Sum: g.value(), QuantileValues: []*metrics.SummaryDataPoint_ValueAtQuantile{{Quantile: 0.5, Value: 2}},
				Flags: g.flags()})
		}
		m.Data = &metrics.Metric_Summary{Summary: d}
	}
	return m
}

func (g generator) data() *metrics.MetricsData {
	m := &metrics.MetricsData{}
	for range 1 + g.IntN(2) {
		rm := &metrics.ResourceMetrics{SchemaUrl: "https://opentelemetry.io/schemas/1.26.0"}
		if g.IntN(4) > 0 {
			rm.Resource = &resource.Resource{Attributes: g.attributes(), DroppedAttributesCount: 1}
		}
		for range 1 + g.IntN(2) {
			sm := &metrics.ScopeMetrics{}
			if g.IntN(4) > 0 {
				sm.Scope = &common.InstrumentationScope{Name: "scope/1", Version: "0", Attributes: g.attributes()}
			}
			for range g.IntN(4) {
				sm.Metrics = append(sm.Metrics, g.metric())
			}
			rm.ScopeMetrics = append(rm.ScopeMetrics, sm)
		}
		m.ResourceMetrics = append(m.ResourceMetrics, rm)
	}
	return m
}

func marshal(t testing.TB, m *metrics.MetricsData) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compare reads Protobuf in both ways: what the library takes is read as the library reads it.
func compare(t *testing.T, p schemas.Program, body []byte, r *schemas.Reading) (list []string) {
	t.Helper()
	list, class := read(p, body, r)
	var m metrics.MetricsData
	if len(body) > 0 && body[0] == '{' || proto.Unmarshal(body, &m) != nil {
		return list
	}
	want, wantClass := judge(&m)
	if class != wantClass || !slices.Equal(list, want) {
		t.Fatalf("%x:\n%s %q, want\n%s %q", body, class, list, wantClass, want)
	}
	return list
}

// TestLibrary: a record in Protobuf and in JSON is read as OpenTelemetry's own messages are, with fields in any order, in
// several parts and broken.
func TestLibrary(t *testing.T) {
	g := generator{seedtest.New(t)}
	p := compile(t, mapping)
	var r schemas.Reading
	readings, merged := 0, 0
	for range 3000 {
		m := g.data()
		body := marshal(t, m)
		readings += len(compare(t, p, body, &r))
		want, wantClass := judge(m)
		for _, o := range []protojson.MarshalOptions{{}, {UseEnumNumbers: true, EmitUnpopulated: true, Multiline: true}} {
			text, err := o.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if list, class := read(p, text, &r); class != wantClass || !slices.Equal(list, want) {
				t.Fatalf("%s:\n%s %q, want\n%s %q", text, class, list, wantClass, want)
			}
		}
		for range 10 {
			b := bytes.Clone(body)
			for range 1 + g.IntN(3) {
				if len(b) > 0 {
					b[g.IntN(len(b))] = byte(g.IntN(256))
				}
			}
			compare(t, p, b, &r)
		}
		// Parts of two messages in a row are merged.
		twice := append(marshalParts(t, g), marshalParts(t, g)...)
		merged += len(compare(t, p, wrap(1, twice), &r))
	}
	if readings < 3000 || merged < 1000 {
		t.Errorf("%d readings, %d of merged messages", readings, merged)
	}
}

// wrap makes the field of a number of a message.
// TestGaugesAndCounters: with the fields gauge and counter each reading has the one that its type says, with the value that the field
// value has, and a reading of a type that no field is for is left out, as is a record of such readings alone.
func TestGaugesAndCounters(t *testing.T) {
	g := generator{seedtest.New(t)}
	fields := func(names ...string) schemas.Program {
		m := mapping
		m.Fields = names
		return compile(t, m)
	}
	all, split, counters := fields("value"), fields("counter", "gauge", "value"), fields("counter")
	var r, own schemas.Reading
	left := 0
	for range 3000 {
		m := g.data()
		bodies := [][]byte{marshal(t, m)}
		if text, err := protojson.Marshal(m); err == nil {
			bodies = append(bodies, text)
		}
		for _, body := range bodies {
			want, class := read(all, body, &r)
			if _, got := read(split, body, &own); got != class {
				t.Fatalf("%s, want %s", got, class)
			}
			if class != "" {
				continue
			}
			if own.Len() != r.Len() {
				t.Fatalf("%d readings, want %d", own.Len(), r.Len())
			}
			var grow []string
			splitter := schemas.NewSplitter([]string{"counter", "gauge", "value"})
			for i := range r.Len() {
				name := "gauge"
				key, _, values := r.At(i)
				if strings.Split(strings.ReplaceAll(string(key), `\/`, ""), "/")[4] == "counter" {
					name = "counter"
					grow = append(grow, want[i])
				}
				_, _, got := own.At(i)
				other := map[string]int{"counter": 1, "gauge": 0}[name]
				if fmt.Sprint(got[1-other], got[2]) != fmt.Sprint(values[0], values[0]) || got[other] == got[other] {
					t.Fatalf("reading %s has %v, want %s=%v", key, got, name, values[0])
				}
			}
			if samples := splitter.Samples(&own); samples != 2*own.Len() {
				t.Fatalf("%d samples of %d readings", samples, own.Len())
			}
			got, _ := read(counters, body, &own)
			if !slices.Equal(got, grow) {
				t.Fatalf("counters\n%s, want\n%s", got, grow)
			}
			if r.Len() > 0 && len(grow) == 0 {
				if left++; own.Skipped != schemas.SkippedUnmapped {
					t.Fatalf("a record without counters is skipped as %q", own.Skipped)
				}
			}
		}
	}
	if left < 20 {
		t.Errorf("%d records without counters", left)
	}
}

func wrap(number byte, b []byte) []byte {
	out := []byte{number<<3 | 2}
	for n := len(b); ; n >>= 7 {
		if n < 0x80 {
			return append(append(out, byte(n)), b...)
		}
		out = append(out, byte(n)|0x80)
	}
}

// marshalParts returns the fields of a ResourceMetrics with a metric in several parts, of several members of its oneof, before the
// resource.
func marshalParts(t *testing.T, g generator) []byte {
	one := func(m proto.Message) []byte {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b, c := g.metric(), g.metric(), g.metric()
	if g.IntN(2) == 0 {
		b.Data = a.Data
	}
	parts := [][]byte{one(a), one(b), one(c)}
	metric := bytes.Join(parts[:1+g.IntN(3)], nil)
	scope := append(wrap(2, metric), wrap(1, one(&common.InstrumentationScope{Name: "late"}))...)
	return append(wrap(2, scope), wrap(1, one(&resource.Resource{Attributes: g.attributes()}))...)
}

// FuzzDecode: no bytes make the program panic, and it reads what the library reads.
func FuzzDecode(f *testing.F) {
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for range 8 {
		m := g.data()
		f.Add(marshal(f, m))
		text, err := protojson.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	p := compile(f, mapping)
	f.Fuzz(func(t *testing.T, body []byte) {
		var r schemas.Reading
		compare(t, p, body, &r)
		_, _ = text(nil, body)
		like(body)
	})
}

// TestFaults: a fault says in which reading it is, and a mapping that leads nowhere is one before a record is read.
func TestFaults(t *testing.T) {
	p := compile(t, mapping)
	point := func(v float64) *metrics.NumberDataPoint {
		return &metrics.NumberDataPoint{TimeUnixNano: 1, Value: &metrics.NumberDataPoint_AsDouble{AsDouble: v}}
	}
	gauge := &metrics.Gauge{DataPoints: []*metrics.NumberDataPoint{point(1), point(math.Inf(1))}}
	m := &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{{Metrics: []*metrics.Metric{
		{Name: "a", Data: &metrics.Metric_Gauge{Gauge: gauge}}}}}}}}
	body := marshal(t, m)
	for record, want := range map[string]string{
		string(body):               "infinite_value: reading 1: the value is infinite",
		string(body[:len(body)-1]): "truncated: the record ends too early, after reading 0",
		"\x0a\x02\x08\x80":         "truncated: the record ends too early, after reading 0",
		"\x0a\x01\x07":             "malformed: not OTLP after reading 0: ",
		`{"resourceMetrics":[}`:    "malformed: not OTLP after reading 0: no JSON at byte 21",
		`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":[{"asInt":"1"},{"asInt":"x"}]}}]}]}]}`: "malformed: not OTLP after reading 1: a number",
		`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":5}]}]}]}`:                                             "malformed: not OTLP after reading 0: resourceMetrics.scopeMetrics",
	} {
		var r schemas.Reading
		var e *schemas.DecodeError
		if err := p.Decode(nil, []byte(record), kafkaTime, &r); !errors.As(err, &e) || !strings.HasPrefix(e.Class+": "+e.Err.Error(), want) {
			t.Errorf("%q: %v, want %s", record, err, want)
		}
	}
	for want, m := range map[string]schemas.Mapping{
		`readings "": a record in OTLP metrics is an array`:     {Fields: []string{"value"}},
		`key "host": is none of name`:                           {Readings: "@value", Key: "host", Fields: []string{"value"}},
		`key "attributes.a.b": is none of name`:                 {Readings: "@value", Key: "attributes.a.b", Fields: []string{"value"}},
		`field "asDouble": is none of value, gauge and counter`: {Readings: "@value", Fields: []string{"asDouble"}},
		`field "value[2]": is no array`:                         {Readings: "@value", Fields: []string{"value[2]"}},
		`time "at": is not time`:                                {Readings: "@value", Time: "at", Fields: []string{"value"}},
		`readings "points": is not @value`:                      {Readings: "points", Fields: []string{"points.value"}},
	} {
		if faults := errors.Join(Format.Check(m, &schemas.Schema{})...); faults == nil || !strings.Contains(faults.Error(), want) {
			t.Errorf("%+v: %v, want %s", m, faults, want)
		}
		var r schemas.Reading
		if err := compile(t, m).Decode(nil, body, kafkaTime, &r); err == nil {
			t.Errorf("%+v is read", m)
		}
	}
	if faults := Format.Check(mapping, &schemas.Schema{}); len(faults) > 0 {
		t.Error(faults)
	}
	if !like(body) || like([]byte("cpu v=1\n")) || like([]byte("\n\x00")) || like(nil) {
		t.Error("what looks like OTLP")
	}
}

// TestOnlyIf: a condition is about each data point, with the resource, scope and metric that it is of; an attribute has its type.
func TestOnlyIf(t *testing.T) {
	m := benchMessage()
	list := m.ResourceMetrics[0].ScopeMetrics[0].Metrics
	points := list[3].GetSum().DataPoints
	points[4].Attributes = append(points[4].Attributes,
		&common.KeyValue{Key: "idle", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}}},
		&common.KeyValue{Key: "load", Value: &common.AnyValue{Value: &common.AnyValue_DoubleValue{DoubleValue: 0.5}}},
		&common.KeyValue{Key: "core", Value: &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: 7}}})
	points[5].Value = &metrics.NumberDataPoint_AsDouble{AsDouble: 5}
	list[9].Data = &metrics.Metric_Histogram{Histogram: &metrics.Histogram{AggregationTemporality: 2,
		DataPoints: []*metrics.HistogramDataPoint{{TimeUnixNano: 1, Count: 3, Sum: new(4.5)}}}}
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for condition, want := range map[string]int{
		`name == "system.cpu.3"`: 10,
		`has(attributes.cpu) && attributes["cpu"] in ["cpu2", "cpu3"] && scope == "hostmetrics"`: 18,
		`resource["host.name"] == "web-1" && unit == "s" && type == "counter"`:                   92,
		`resource["host.name"] == "web-2"`:                                                       0,
		`has(attributes.idle) && attributes.idle && attributes["load"] < 0.6`:                    1,
		`has(attributes.core) && attributes.core == 7`:                                           1,
		`value < 50.0`: 3,
		`name == "system.cpu.9.sum" && value == 4.5`: 1,
		`time >= timestamp("2023-01-01T00:00:00Z")`:  90,
		`!has(attributes.state)`:                     2,
	} {
		for _, body := range [][]byte{marshal(t, m), text} {
			with := benchMapping
			with.OnlyIf = condition
			if faults := Format.Check(with, &schemas.Schema{}); len(faults) > 0 {
				t.Errorf("%s: %v", condition, faults)
			}
			p, r := compile(t, with), schemas.Reading{}
			for range 2 {
				if err := p.Decode(nil, body, kafkaTime, &r); err != nil || r.Len() != want {
					t.Errorf("%s: %d readings (%v), want %d", condition, r.Len(), err, want)
				}
			}
		}
	}
	with := benchMapping
	with.OnlyIf = `host == "web-1"`
	if faults := errors.Join(Format.Check(with, &schemas.Schema{})...); faults == nil || !strings.Contains(faults.Error(), "is none of name") {
		t.Errorf("an unknown field: %v", faults)
	}
}

// benchMessage is one of 100 data points of 10 metrics.
func benchMessage() *metrics.MetricsData {
	text := func(k, v string) *common.KeyValue {
		return &common.KeyValue{Key: k, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: v}}}
	}
	sm := &metrics.ScopeMetrics{Scope: &common.InstrumentationScope{Name: "hostmetrics"}}
	for i := range 10 {
		d := &metrics.Sum{AggregationTemporality: 2, IsMonotonic: true}
		for j := range 10 {
			d.DataPoints = append(d.DataPoints, &metrics.NumberDataPoint{Attributes: []*common.KeyValue{text("cpu", fmt.Sprint("cpu", j)),
				text("state", "user")}, StartTimeUnixNano: 1_700_000_000_000_000_000, TimeUnixNano: 1_700_000_010_000_000_000,
				Value: &metrics.NumberDataPoint_AsDouble{AsDouble: 97.46835443037975}})
		}
		sm.Metrics = append(sm.Metrics, &metrics.Metric{Name: fmt.Sprint("system.cpu.", i), Unit: "s", Data: &metrics.Metric_Sum{Sum: d}})
	}
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{ScopeMetrics: []*metrics.ScopeMetrics{sm},
		Resource: &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "shop"), text("host.name", "web-1")}}}}}
}

var benchMapping = schemas.Mapping{Key: `resource.host\.name+name+attributes.cpu+attributes.state`, Time: "time", Fields: []string{"value"},
	Readings: "@value"}

// TestAllocations: a record in Protobuf is read without an allocation for a data point.
func TestAllocations(t *testing.T) {
	p, body := compile(t, benchMapping), marshal(t, benchMessage())
	var r schemas.Reading
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Decode(nil, body, 0, &r); err != nil || r.Len() != 100 {
			t.Fatal(err, r.Len())
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkDecode compares a record of 100 data points with the library, which only unmarshals it.
func BenchmarkDecode(b *testing.B) {
	m := benchMessage()
	body := marshal(b, m)
	text, err := protojson.Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	p := compile(b, benchMapping)
	run := func(name string, body []byte, read func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100), "ns/value")
		})
	}
	var r schemas.Reading
	run("protobuf", body, func() error { return p.Decode(nil, body, 0, &r) })
	run("protobuf/library", body, func() error { return proto.Unmarshal(body, new(metrics.MetricsData)) })
	run("json", text, func() error { return p.Decode(nil, text, 0, &r) })
	run("json/library", text, func() error { return protojson.Unmarshal(text, new(metrics.MetricsData)) })
}
