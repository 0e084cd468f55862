// Command encoders writes records.json: records of Telegraf's and the OpenTelemetry collector's own encoders, and what these were
// given. It has a module of its own, so that neither is a dependency of the worker. To write the file anew: go run . > records.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// number is a number that a record says.
type number struct {
	Key   []string `json:"key"` // in the order of the test's mapping; "" where there is no such tag or attribute
	Field string   `json:"field"`
	Time  int64    `json:"time"` // ns
	Value float64  `json:"value"`
}

type record struct {
	Format string   `json:"format"`
	What   string   `json:"what"`
	Bytes  []byte   `json:"bytes"`
	Want   []number `json:"want"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	g := generator{rand.New(rand.NewPCG(39, 1))}
	var all []record
	for i := range 24 {
		all = append(all, g.telegraf(i))
	}
	for range 15 {
		all = append(all, g.collector()...)
	}
	var out bytes.Buffer
	for i, r := range all {
		b, err := json.Marshal(r)
		check(err)
		fmt.Fprintf(&out, "%s%s", map[bool]string{true: "[\n", false: ",\n"}[i == 0], b)
	}
	out.WriteString("\n]\n")
	_, err := os.Stdout.Write(out.Bytes())
	check(err)
}

type generator struct{ *rand.Rand }

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) float() float64 {
	return []float64{0, -0.5, 71.25, 1e-9, -2.5e300, 5e-324, 1.7976931348623157e308, g.NormFloat64(), 1e6 * g.Float64()}[g.IntN(9)]
}

func (g generator) int() int64 {
	return []int64{0, -1, 42, 1<<53 + 1, -1 << 63, 1<<63 - 1, g.Int64()}[g.IntN(7)]
}

func (g generator) time() int64 { return 1_700_000_000_000_000_000 + g.Int64N(1e18) }

// telegraf makes one metric, or with use_batch_format several.
func (g generator) telegraf(i int) record {
	s := &influx.Serializer{SortFields: i%2 == 0, UintSupport: true}
	what := "telegraf"
	if i%4 == 3 {
		s.MaxLineBytes, what = 450, "telegraf, influx_max_line_bytes=450"
	}
	check(s.Init())
	r := record{Format: "influx", What: what}
	var batch []telegraf.Metric
	for range 1 + i%3*2 {
		name := g.pick("cpu", "disk io", "a,b=c", "température", `back\slash`)
		tags, fields := map[string]string{}, map[string]any{}
		key := []string{name}
		for _, tag := range []string{"host", "a b", "eq=,"} {
			v := ""
			if g.IntN(3) > 0 {
				v = g.pick("web-1", "rack 7", "x,y=z", "é/ü", `c:\d e`, "1")
				tags[tag] = v
			}
			key = append(key, v)
		}
		at := g.time()
		want := func(field string, v float64) { r.Want = append(r.Want, number{key, field, at, v}) }
		for _, field := range []string{"f", "i", "u", "b", "s", "x.y", "sp ce", "co,m=a"} {
			if g.IntN(4) == 0 && field != "f" {
				continue
			}
			switch field {
			case "i":
				v := g.int()
				fields[field] = v
				want(field, float64(v))
			case "u":
				v := g.Uint64()
				fields[field] = v
				want(field, float64(v))
			case "b":
				v := g.IntN(2)
				fields[field] = v == 1
				want(field, float64(v))
			case "s":
				fields[field] = g.pick("text", `quo"te`, "f=1,i=2 3", `back\slash\`, "")
			default:
				v := g.float()
				fields[field] = v
				want(field, v)
			}
		}
		batch = append(batch, metric.New(name, tags, fields, time.Unix(0, at)))
	}
	var err error
	if len(batch) == 1 {
		r.Bytes, err = s.Serialize(batch[0])
	} else {
		r.What += ", use_batch_format"
		r.Bytes, err = s.SerializeBatch(batch)
	}
	check(err)
	return r
}

// attributes gives out texts, numbers, Booleans and bytes, and returns the text of the ones with two names.
func (g generator) attributes(m pcommon.Map, names ...string) (texts []string) {
	for _, name := range names {
		text := ""
		switch g.IntN(7) {
		case 0:
		case 1:
			v := g.int()
			m.PutInt(name, v)
			text = strconv.FormatInt(v, 10)
		case 2:
			v := g.IntN(2) == 0
			m.PutBool(name, v)
			text = strconv.FormatBool(v)
		case 3:
			v := g.float()
			m.PutDouble(name, v)
			text = strconv.FormatFloat(v, 'g', -1, 64)
		default:
			text = g.pick("used", "free", "é/ü", `quo"te\`, "rack 7", "x,y=z")
			m.PutStr(name, text)
		}
		texts = append(texts, text)
	}
	if g.IntN(2) == 0 { // none that a mapping leads to
		m.PutEmptySlice("list").AppendEmpty().SetStr("x")
		m.PutEmptyMap("map").PutInt("n", 7)
		m.PutEmptyBytes("raw").FromRaw([]byte{0, 255, '"'})
	}
	return texts
}

func (g generator) temporality(set func(pmetric.AggregationTemporality), monotonic bool) string {
	if g.IntN(2) == 0 {
		set(pmetric.AggregationTemporalityDelta)
		return "delta"
	}
	set(pmetric.AggregationTemporalityCumulative)
	if monotonic {
		return "counter"
	}
	return "sum"
}

// collector makes a message as its Kafka exporter writes it, in Protobuf and in JSON.
func (g generator) collector() []record {
	all := pmetric.NewMetrics()
	var want []number
	for range 1 + g.IntN(2) {
		rm := all.ResourceMetrics().AppendEmpty()
		service := g.attributes(rm.Resource().Attributes(), "service.name")[0]
		sm := rm.ScopeMetrics().AppendEmpty()
		scope := g.pick("", "otelcol/hostmetrics", "é")
		sm.Scope().SetName(scope)
		sm.Scope().SetVersion("1")
		for range 1 + g.IntN(4) {
			m := sm.Metrics().AppendEmpty()
			name, unit := g.pick("system.cpu.time", "température", "a/b"), g.pick("", "s", "{packets}", "By/s")
			m.SetName(name)
			m.SetUnit(unit)
			m.SetDescription(g.pick("", `said "so"`))
			typ := ""
			at := int64(0)
			// point fills in what all points have and returns how a number of it is noted.
			point := func(attributes pcommon.Map, setTime, setStart func(pcommon.Timestamp)) func(suffix string, v float64) {
				texts := g.attributes(attributes, "state", "n")
				at = g.time()
				setTime(pcommon.Timestamp(at))
				setStart(pcommon.Timestamp(at - 1e9))
				key := append([]string{service, scope}, name, unit, typ)
				key = append(key, texts...)
				return func(suffix string, v float64) {
					k := append([]string{}, key...)
					k[2] += suffix
					want = append(want, number{k, "value", at, v})
				}
			}
			numbers := func(points pmetric.NumberDataPointSlice) {
				for range 1 + g.IntN(3) {
					p := points.AppendEmpty()
					note := point(p.Attributes(), p.SetTimestamp, p.SetStartTimestamp)
					switch g.IntN(5) {
					case 0:
						p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
					case 1, 2:
						v := g.int()
						p.SetIntValue(v)
						note("", float64(v))
					default:
						v := g.float()
						p.SetDoubleValue(v)
						note("", v)
					}
					if g.IntN(3) == 0 {
						x := p.Exemplars().AppendEmpty()
						x.SetDoubleValue(7)
						x.SetTimestamp(1)
						x.FilteredAttributes().PutStr("state", "not this")
					}
				}
			}
			switch g.IntN(5) {
			case 0:
				typ = "gauge"
				numbers(m.SetEmptyGauge().DataPoints())
			case 1:
				s := m.SetEmptySum()
				s.SetIsMonotonic(g.IntN(2) == 0)
				typ = g.temporality(s.SetAggregationTemporality, s.IsMonotonic())
				numbers(s.DataPoints())
			case 2:
				h := m.SetEmptyHistogram()
				typ = g.temporality(h.SetAggregationTemporality, true)
				p := h.DataPoints().AppendEmpty()
				note := point(p.Attributes(), p.SetTimestamp, p.SetStartTimestamp)
				n := g.Uint64N(1 << 40)
				p.SetCount(n)
				p.BucketCounts().FromRaw([]uint64{n, 0})
				p.ExplicitBounds().FromRaw([]float64{0.5})
				note(".count", float64(n))
				if g.IntN(2) == 0 {
					v := g.float()
					p.SetSum(v)
					note(".sum", v)
				}
			case 3:
				h := m.SetEmptyExponentialHistogram()
				typ = g.temporality(h.SetAggregationTemporality, true)
				p := h.DataPoints().AppendEmpty()
				note := point(p.Attributes(), p.SetTimestamp, p.SetStartTimestamp)
				n, v := g.Uint64N(1<<40), g.float()
				p.SetCount(n)
				p.SetSum(v)
				p.SetScale(3)
				p.Positive().SetOffset(-2)
				p.Positive().BucketCounts().FromRaw([]uint64{n})
				note(".count", float64(n))
				note(".sum", v)
			default:
				typ = "counter"
				p := m.SetEmptySummary().DataPoints().AppendEmpty()
				note := point(p.Attributes(), p.SetTimestamp, p.SetStartTimestamp)
				n, v := g.Uint64N(1<<40), g.float()
				p.SetCount(n)
				p.SetSum(v)
				q := p.QuantileValues().AppendEmpty()
				q.SetQuantile(0.99)
				q.SetValue(3)
				note(".count", float64(n))
				note(".sum", v)
			}
		}
	}
	proto, err := (&pmetric.ProtoMarshaler{}).MarshalMetrics(all)
	check(err)
	text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(all)
	check(err)
	return []record{{"otlp", "collector, otlp_proto", proto, want}, {"otlp", "collector, otlp_json", text, want}}
}
