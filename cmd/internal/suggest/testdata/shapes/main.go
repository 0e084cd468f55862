// Command shapes writes topics of shapes that plants have, and what was given to their encoders: NAME.jsonl.gz has a record a line,
// with the samples that a right mapping reads of it. It has a module of its own, so that no encoder is a dependency of the worker. To
// write the files anew: go run . && sh others.sh
//
// The encoders here are from CloudEvents, Telegraf and the OpenTelemetry collector. Where no package has one, records follow the text
// of the specification, as a comment says.
package main

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/serializers/influx"
	telegrafjson "github.com/influxdata/telegraf/plugins/serializers/json"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// sample is what a right mapping reads.
type sample struct {
	Key    string     `json:"key"`
	Time   int64      `json:"time"`   // µs
	Values []*float64 `json:"values"` // null: missing
}

// record is a record of a topic. One without samples is left out by a condition.
type record struct {
	Key   string   `json:"key,omitempty"`
	Time  int64    `json:"time"` // of Kafka, ms
	Value []byte   `json:"value"`
	Want  []sample `json:"want"`
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// start is the time of the first record.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// topic collects the records of a shape.
type topic struct {
	*rand.Rand
	name    string
	records []record
	totals  map[string]float64
}

func newTopic(name string) *topic {
	return &topic{Rand: rand.New(rand.NewPCG(39, uint64(len(name)))), name: name, totals: map[string]float64{}}
}

// add adds a record that is written 40 to 90 ms after its time.
func (t *topic) add(key string, at time.Time, value []byte, want ...sample) {
	t.records = append(t.records, record{key, at.UnixMilli() + 40 + t.Int64N(50), value, want})
}

// of returns a sample.
func of(key string, at time.Time, values ...float64) sample {
	s := sample{Key: key, Time: at.UnixMicro()}
	for _, v := range values {
		if s.Values = append(s.Values, &v); math.IsNaN(v) {
			s.Values[len(s.Values)-1] = nil
		}
	}
	return s
}

// level is a value that moves about a level of its series.
func (t *topic) level(series, i int) float64 {
	return math.Round(1000*(20*float64(series+1)+3*math.Sin(float64(i)/9)+0.4*t.NormFloat64())) / 1000
}

// total is a counter that grows at a rate that differs.
func (t *topic) total(name string, i int) float64 {
	t.totals[name] += math.Round(1000 + 400*math.Sin(float64(i)/15) + 50*t.NormFloat64())
	return t.totals[name]
}

// write writes the topic's file.
func (t *topic) write() {
	f := must(os.Create(t.name + ".jsonl.gz"))
	z := must(gzip.NewWriterLevel(f, gzip.BestCompression))
	for i := range t.records {
		_, err := z.Write(append(must(json.Marshal(&t.records[i])), '\n'))
		check(err)
	}
	check(z.Close())
	check(f.Close())
}

func main() {
	for name, make := range map[string]func(*topic){"cloudevents": cloudEvents, "telegraf-json": telegrafJSON,
		"telegraf-lines": telegrafLines, "telegraf-batch": telegrafBatch, "otlp-json": otlpJSON, "otlp-proto": otlpProto,
		"prometheus": prometheus, "sitewise": siteWise, "opcua": opcUA} {
		t := newTopic(name)
		make(t)
		t.write()
		fmt.Println(name, len(t.records))
	}
}

// cloudEvents are events in structured mode, of sources that report two values.
func cloudEvents(t *topic) {
	for i := range 480 {
		press, at := i%4, start.Add(time.Duration(i)*500*time.Millisecond)
		source := fmt.Sprintf("//plant.example/oslo/press-%d", press+1)
		e := event.New()
		e.SetID(fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", t.Uint32(), t.Uint32()>>16, t.Uint32()>>16, t.Uint32()>>16, t.Uint64()>>16))
		e.SetSource(source)
		e.SetType("com.example.press.reading")
		e.SetTime(at)
		temperature, vibration := t.level(press, i/4), t.level(press, i/4+40)/100
		check(e.SetData(event.ApplicationJSON, map[string]any{"temperature": temperature, "vibration": vibration, "unit": "Cel"}))
		t.add("", at, must(json.Marshal(e)), of(source, at, temperature, vibration))
	}
}

// escaped writes a part of a key.
func escaped(part string) string {
	out := ""
	for _, r := range part {
		if r == '/' || r == '\\' {
			out += `\`
		}
		out += string(r)
	}
	return out
}

// hostMetrics are the metrics of a host as Telegraf's plugins cpu, mem and net have them.
func (t *topic) hostMetrics(host, i int, at time.Time, each func(m telegraf.Metric, key string, fields []string)) {
	name := fmt.Sprint("web-", host+1)
	for cpu := range 2 {
		user, system := t.level(2*host+cpu, i)/5, t.level(2*host+cpu, i+30)/9
		each(metric.New("cpu", map[string]string{"host": name, "cpu": fmt.Sprint("cpu", cpu)},
			map[string]any{"usage_user": user, "usage_system": system, "usage_idle": 100 - user - system}, at),
			fmt.Sprintf("cpu/cpu%d/%s/", cpu, name), []string{"usage_user", "usage_system", "usage_idle"})
	}
	each(metric.New("mem", map[string]string{"host": name}, map[string]any{"used_percent": t.level(host, i), "total": int64(16 << 30)}, at),
		"mem//"+name+"/", []string{"used_percent"})
	each(metric.New("net", map[string]string{"host": name, "interface": "eth0"},
		map[string]any{"bytes_recv": int64(t.total(name+"in", i)), "bytes_sent": int64(t.total(name+"out", i+9))}, at),
		"net//"+name+"/", []string{"bytes_recv", "bytes_sent"})
}

func number(v any) float64 {
	if n, ok := v.(int64); ok {
		return float64(n)
	}
	return v.(float64)
}

// telegrafJSON is a topic of one measurement.
func telegrafJSON(t *topic) {
	s := &telegrafjson.Serializer{TimestampUnits: config.Duration(time.Second)}
	check(s.Init())
	for i := range 480 {
		at := start.Add(time.Duration(i/4) * 10 * time.Second)
		host, cpu := i%4/2, i%2
		name := fmt.Sprint("web-", host+1)
		user, system := t.level(2*host+cpu, i/4)/5, t.level(2*host+cpu, i/4+30)/9
		m := metric.New("cpu", map[string]string{"host": name, "cpu": fmt.Sprint("cpu", cpu)},
			map[string]any{"usage_user": user, "usage_system": system}, at)
		t.add("", at, must(s.Serialize(m)), of(fmt.Sprintf("cpu%d/%s", cpu, name), at, system, user))
	}
}

// lines are metrics of two hosts, of n metrics a record.
func (t *topic) lines(n int) {
	s := &influx.Serializer{SortFields: true}
	check(s.Init())
	var batch []telegraf.Metric
	var want []sample
	for i := range 90 {
		at := start.Add(time.Duration(i) * 10 * time.Second)
		for host := range 2 {
			t.hostMetrics(host, i, at, func(m telegraf.Metric, key string, fields []string) {
				batch = append(batch, m)
				for _, f := range fields {
					v, _ := m.GetField(f)
					want = append(want, of(key+"fields."+f, at, number(v)))
				}
				if len(batch) == n {
					value := must(s.SerializeBatch(batch))
					if n == 1 {
						value = must(s.Serialize(m))
					}
					t.add("", at, value, want...)
					batch, want = nil, nil
				}
			})
		}
	}
}

func telegrafLines(t *topic) { t.lines(1) }

func telegrafBatch(t *topic) { t.lines(4) }

// collector are messages of the collector: memory by state, time of processors that only grows, and requests as a histogram.
func (t *topic) collector(encode func(pmetric.Metrics) ([]byte, error)) {
	for i := range 160 {
		host, at := i%2, start.Add(time.Duration(i/2)*10*time.Second)
		name := fmt.Sprint("web-", host+1)
		all := pmetric.NewMetrics()
		rm := all.ResourceMetrics().AppendEmpty()
		rm.Resource().Attributes().PutStr("host.name", name)
		rm.Resource().Attributes().PutStr("os.type", "linux")
		sm := rm.ScopeMetrics().AppendEmpty()
		sm.Scope().SetName("github.com/open-telemetry/opentelemetry-collector-contrib/receiver/hostmetricsreceiver")
		sm.Scope().SetVersion("0.131.0")
		var want []sample
		memory := sm.Metrics().AppendEmpty()
		memory.SetName("system.memory.usage")
		memory.SetUnit("By")
		gauge := memory.SetEmptyGauge().DataPoints()
		for k, state := range []string{"used", "free"} {
			p := gauge.AppendEmpty()
			p.SetTimestamp(pcommon.NewTimestampFromTime(at))
			p.Attributes().PutStr("state", state)
			v := math.Round(t.level(2*host+k, i/2) * (1 << 20))
			p.SetIntValue(int64(v))
			want = append(want, of(name+"/system.memory.usage/"+state+"/gauge", at, v))
		}
		cpu := sm.Metrics().AppendEmpty()
		cpu.SetName("system.cpu.time")
		cpu.SetUnit("s")
		sum := cpu.SetEmptySum()
		sum.SetIsMonotonic(true)
		sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
		for _, state := range []string{"user", "system"} {
			p := sum.DataPoints().AppendEmpty()
			p.SetStartTimestamp(pcommon.NewTimestampFromTime(start.Add(-time.Hour)))
			p.SetTimestamp(pcommon.NewTimestampFromTime(at))
			p.Attributes().PutStr("state", state)
			v := t.total(name+state, i/2) / 100
			p.SetDoubleValue(v)
			want = append(want, of(name+"/system.cpu.time/"+state+"/counter", at, v))
		}
		t.add("", at, must(encode(all)), want...)
	}
}

func otlpJSON(t *topic) { t.collector((&pmetric.JSONMarshaler{}).MarshalMetrics) }

func otlpProto(t *topic) { t.collector((&pmetric.ProtoMarshaler{}).MarshalMetrics) }

// prometheus follows the README of Telefonica/prometheus-kafka-adapter, whose encoder is in a main package: time in seconds, numbers as
// texts, fields in the order of encoding/json.
func prometheus(t *topic) {
	for i := range 720 {
		at := start.Add(time.Duration(i/6) * 15 * time.Second)
		host, name := i%6/3, []string{"node_load1", "node_memory_MemFree_bytes", "node_network_receive_bytes_total"}[i%3]
		instance, field := fmt.Sprintf("web-%d:9100", host+1), "/gauge"
		v := t.level(i%6, i/6)
		switch i % 3 {
		case 1:
			v = math.Round(v * 1e6)
		case 2:
			v, field = t.total(instance, i/6), "/counter"
		}
		text := fmt.Sprint(v)
		if i%90 == 44 { // the target was not there
			text, v = "NaN", math.NaN()
		}
		t.add("", at, must(json.Marshal(map[string]any{"timestamp": at.Format(time.RFC3339), "value": text, "name": name,
			"labels": map[string]string{"__name__": name, "instance": instance, "job": "node"}})), of(name+"/"+instance+field, at, v))
	}
}

// siteWise follows AWS's user guide of IoT SiteWise, "Query asset property notifications": up to three values of a property.
func siteWise(t *topic) {
	for i := range 240 {
		asset, property := i%4/2, i%2
		a, p := fmt.Sprintf("a1b2c3d4-5678-90ab-cdef-%012d", asset+1), fmt.Sprintf("f0e1d2c3-5678-90ab-cdef-%012d", property+1)
		var values []any
		rec := record{}
		for k := range 1 + i%3 {
			at := start.Add(time.Duration(12*(i/4)+4*k)*time.Second + time.Duration(t.IntN(1000))*time.Millisecond)
			v, quality := t.level(i%4, 3*(i/4)+k), "GOOD"
			switch t.IntN(30) {
			case 0:
				quality = "BAD"
			case 1:
				quality = "UNCERTAIN"
			default:
				rec.Want = append(rec.Want, of(a+"/"+p, at.Truncate(time.Second), v))
			}
			values = append(values, map[string]any{"timestamp": map[string]any{"timeInSeconds": at.Unix(), "offsetInNanos": at.Nanosecond()},
				"quality": quality, "value": map[string]any{"doubleValue": v}})
			rec.Time = at.UnixMilli() + 90
		}
		rec.Value = must(json.Marshal(map[string]any{"type": "PropertyValueUpdate",
			"payload": map[string]any{"assetId": a, "propertyId": p, "values": values}}))
		t.records = append(t.records, rec)
	}
}

// opcUA follows OPC 10000-14, 7.2.5: a network message has a data set message of each writer, whose fields are DataValues.
func opcUA(t *topic) {
	type dataValue struct {
		Value           any
		SourceTimestamp string
	}
	type dataSet struct {
		DataSetWriterId int
		SequenceNumber  int
		MetaDataVersion map[string]int
		Timestamp       string
		Status          int
		Payload         map[string]dataValue
	}
	for i := range 240 {
		plc, at := i%2, start.Add(time.Duration(i)*500*time.Millisecond)
		publisher := fmt.Sprintf("opc.tcp://plc-%d:4840", plc+1)
		var sets []dataSet
		var want []sample
		for writer := range 2 {
			stamp := at.Add(time.Duration(writer) * 30 * time.Millisecond)
			source := stamp.Add(-7 * time.Millisecond).Format("2006-01-02T15:04:05.000Z")
			temperature, pressure := t.level(2*plc+writer, i/2), t.level(2*plc+writer, i/2+50)/7
			sets = append(sets, dataSet{100 + writer, i/2 + 1, map[string]int{"MajorVersion": 672338910, "MinorVersion": 672341762},
				stamp.Format("2006-01-02T15:04:05.000Z"), 0, map[string]dataValue{"Temperature": {temperature, source},
					"Pressure": {pressure, source}, "Running": {true, source}}})
			want = append(want, of(fmt.Sprintf("%d/%s", 100+writer, escaped(publisher)), stamp, pressure, temperature))
		}
		t.add("", at, must(json.Marshal(map[string]any{"MessageId": fmt.Sprintf("%08x-0000-4000-8000-%012x", t.Uint32(), i),
			"MessageType": "ua-data", "PublisherId": publisher, "Messages": sets})), want...)
	}
}
