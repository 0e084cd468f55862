package main

import (
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"
	"google.golang.org/protobuf/encoding/protowire"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// plantField is a field of a record of a shape: its value is a string, an int64, a float64, a *float64 (nil is null), a bool, a
// plantRecord or a []plantRecord.
type plantField struct {
	name  string
	value any
}

type plantRecord []plantField

// json writes the record with its fields in order.
func (r plantRecord) json() []byte {
	out := []byte("{")
	for i, f := range r {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, fmt.Sprintf("%q:", f.name)...)
		switch v := f.value.(type) {
		case plantRecord:
			out = append(out, v.json()...)
		case []plantRecord:
			out = append(out, '[')
			for j, item := range v {
				if j > 0 {
					out = append(out, ',')
				}
				out = append(out, item.json()...)
			}
			out = append(out, ']')
		default:
			b, _ := json.Marshal(v)
			out = append(out, b...)
		}
	}
	return append(out, '}')
}

// avro returns the schema of the record's fields.
func (r plantRecord) avro(name string) string {
	var fields []string
	for _, f := range r {
		typ := `"string"`
		switch v := f.value.(type) {
		case int64:
			typ = `"long"`
		case float64:
			typ = `"double"`
		case *float64:
			typ = `["null","double"]`
		case bool:
			typ = `"boolean"`
		case plantRecord:
			typ = v.avro(name + "_" + f.name)
		case []plantRecord:
			typ = `{"type":"array","items":` + v[0].avro(name+"_"+f.name) + `}`
		}
		fields = append(fields, fmt.Sprintf(`{"name":%q,"type":%s}`, f.name, typ))
	}
	return fmt.Sprintf(`{"type":"record","name":%q,"fields":[%s]}`, name, strings.Join(fields, ","))
}

// native returns the record as goavro takes it.
func (r plantRecord) native() map[string]any {
	m := map[string]any{}
	for _, f := range r {
		switch v := f.value.(type) {
		case *float64:
			if m[f.name] = nil; v != nil {
				m[f.name] = goavro.Union("double", *v)
			}
		case plantRecord:
			m[f.name] = v.native()
		case []plantRecord:
			list := []any{}
			for _, item := range v {
				list = append(list, item.native())
			}
			m[f.name] = list
		default:
			m[f.name] = v
		}
	}
	return m
}

// proto returns the declaration of the record's message.
func (r plantRecord) proto(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "message %s {\n", name)
	for i, f := range r {
		typ := "string"
		switch v := f.value.(type) {
		case int64:
			typ = "int64"
		case float64:
			typ = "double"
		case *float64:
			typ = "optional double"
		case bool:
			typ = "bool"
		case plantRecord:
			typ = strings.ToUpper(f.name[:1]) + f.name[1:] + "T"
			b.WriteString(v.proto(typ))
		case []plantRecord:
			typ = strings.ToUpper(f.name[:1]) + f.name[1:] + "T"
			b.WriteString(v[0].proto(typ))
			typ = "repeated " + typ
		}
		fmt.Fprintf(&b, "%s %s = %d;\n", typ, f.name, i+1)
	}
	return b.String() + "}\n"
}

// wire returns the bytes of the record's message.
func (r plantRecord) wire() (b []byte) {
	for i, f := range r {
		n := protowire.Number(i + 1)
		double := func(v float64) {
			b = protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), math.Float64bits(v))
		}
		bytes := func(v []byte) { b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v) }
		switch v := f.value.(type) {
		case string:
			bytes([]byte(v))
		case int64:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), uint64(v))
		case bool:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), protowire.EncodeBool(v))
		case float64:
			double(v)
		case *float64:
			if v != nil {
				double(*v)
			}
		case plantRecord:
			bytes(v.wire())
		case []plantRecord:
			for _, item := range v {
				bytes(item.wire())
			}
		}
	}
	return b
}

// plantShape is a random shape of a topic, with what is true of it.
type plantShape struct {
	format         string // json, avro, protobuf
	key            string // key_field: parts in any order
	time, unit     string
	values, series string // value_fields or series_fields
	readings       string
	disorder       bool
	rekey          bool // records have no key
	rows           []plantRecord
	records        []kafkatest.Record
	text           string // what it is, for the log
}

// newPlantShape draws a shape of a plant's records, and records of it.
func newPlantShape(rng *rand.Rand, topic string, n int) *plantShape {
	pick := func(list string) string { f := strings.Fields(list); return f[rng.IntN(len(f))] }
	s := &plantShape{format: pick("json avro protobuf"), disorder: rng.IntN(3) == 0}
	kind := pick("one one vector wide long batch batchnamed")
	machines := 2 + rng.IntN(20)
	keyName, valueName := pick("machine device_id sensorId host asset serial"), pick("value reading v level")
	timeName := pick("ts time at eventTime measured_at")
	s.unit = pick("s ms us ns double text")
	body := pick("flat data payload after")
	interval := time.Duration(1+rng.IntN(60)) * time.Second
	start := time.Date(2026, 1, 1+rng.IntN(200), rng.IntN(24), 0, 0, 0, time.UTC)
	fields := 1
	switch kind {
	case "vector":
		fields = 2 + rng.IntN(2)
	case "wide":
		fields = 4 + rng.IntN(6)
	}
	names := []string{"temperature", "vibration", "load", "pressure", "speed", "current", "flow", "torque", "voltage", "humidity"}
	rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	sensors := 1
	if kind == "long" || kind == "batchnamed" {
		sensors = 2 + rng.IntN(4)
	}
	if fields == 1 {
		names = []string{valueName}
	}
	names = names[:fields]
	under := func(path string) string {
		if body == "flat" {
			return path
		}
		return body + "." + path
	}
	stamp := func(t time.Time) any {
		switch s.unit {
		case "s":
			return t.Unix()
		case "ms":
			return t.UnixMilli()
		case "us":
			return t.UnixMicro()
		case "ns":
			return t.UnixNano()
		case "double":
			return float64(t.UnixMilli()) / 1000
		}
		return t.Format(time.RFC3339Nano)
	}
	state := map[string]float64{}
	signal := func(name string, at time.Time) float64 {
		if _, ok := state[name]; !ok {
			state[name] = 100 * rng.Float64()
			state[name+"/phase"] = 7 * rng.Float64()
		}
		return state[name] + 3*math.Sin(at.Sub(start).Seconds()/interval.Seconds()/9+state[name+"/phase"]) + 0.3*rng.NormFloat64()
	}
	nulls, keyed := rng.IntN(2) == 0, rng.IntN(3) > 0 || kind == "batchnamed" // whose records go through no internal topic
	s.rekey = !keyed
	if rng.IntN(8) == 0 && !strings.HasPrefix(kind, "batch") {
		s.unit = "none"
	}
	batch := 3 + rng.IntN(8)
	mode := make([]string, machines)
	for i := range n {
		machine := i % machines
		step := i / machines
		name := fmt.Sprintf("%s-%d", keyName[:3], machine+1)
		sensor := ""
		if kind == "long" {
			sensor = fmt.Sprintf("s%d", step%sensors+1)
			step /= sensors
		}
		if kind == "batch" || kind == "batchnamed" {
			step *= batch
		}
		at := start.Add(time.Duration(step)*interval + time.Duration(machine)*interval/time.Duration(machines)).Truncate(time.Millisecond)
		written := at.Add(200 * time.Millisecond)
		if s.disorder && rng.IntN(15) == 0 && step > 5 {
			at = at.Add(-2*interval - interval/2).Truncate(time.Millisecond)
		}
		if mode[machine] == "" || rng.IntN(40) == 0 {
			mode[machine] = pick("running idle setup")
		}
		var inner plantRecord
		add := func(r *plantRecord, name string, v any) { *r = append(*r, plantField{name, v}) }
		switch kind {
		case "batch", "batchnamed":
			var list []plantRecord
			last := at
			for k := range batch {
				last = at.Add(time.Duration(k) * interval)
				for j := range sensors {
					var item plantRecord
					if kind == "batchnamed" {
						add(&item, "sensor", fmt.Sprintf("s%d", j+1))
					}
					add(&item, timeName, stamp(last))
					add(&item, names[0], signal(fmt.Sprint(machine, j), last))
					list = append(list, item)
				}
			}
			written = last.Add(200 * time.Millisecond)
			add(&inner, "points", list)
		default:
			if s.unit != "none" {
				add(&inner, timeName, stamp(at))
			}
			if sensor != "" {
				add(&inner, "sensor", sensor)
			}
			for _, f := range names {
				v := signal(fmt.Sprint(machine, sensor, f), at)
				if nulls {
					var p *float64
					if rng.IntN(60) > 0 {
						p = &v
					}
					add(&inner, f, p)
				} else {
					add(&inner, f, v)
				}
			}
		}
		add(&inner, "mode", mode[machine])
		add(&inner, "quality", int64([]int{192, 192, 192, 64}[rng.IntN(4)]))
		var r plantRecord
		add(&r, "id", int64(1000+i))
		add(&r, "uuid", fmt.Sprintf("%016x", rng.Uint64()))
		add(&r, keyName, name)
		add(&r, "site", fmt.Sprintf("site-%d", machine%2+1))
		add(&r, "received_ms", written.Add(time.Duration(rng.IntN(90))*time.Millisecond).UnixMilli())
		if body == "flat" {
			r = append(r, inner...)
		} else {
			add(&r, body, inner)
		}
		add(&r, "version", "1.4")
		rec := kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Time: written.Add(100 * time.Millisecond).UnixMilli()}
		if keyed {
			rec.Key = []byte(name)
		}
		s.rows = append(s.rows, r)
		s.records = append(s.records, rec)
	}
	s.key = keyName
	s.time = under(timeName)
	if s.unit == "none" { // the time that it was received is the best there is
		s.time, s.unit, s.disorder = "received_ms", "ms", false
	}
	switch kind {
	case "long":
		s.key += "+" + under("sensor")
	case "batch", "batchnamed":
		s.readings, s.time = under("points"), under("points."+timeName)
		if kind == "batchnamed" {
			s.key += "+" + under("points.sensor")
		}
	}
	for _, f := range names {
		path := under(f)
		if s.readings != "" {
			path = s.readings + "." + f
		}
		if kind == "wide" {
			s.series += "," + path
		} else {
			s.values += "," + path
		}
	}
	s.values, s.series = strings.TrimPrefix(s.values, ","), strings.TrimPrefix(s.series, ",")
	s.text = fmt.Sprintf("%s %s, %d machines, %d sensors, key %s (the record's %t), time %s in %s, values %s%s, a sample each %v, disorder %t",
		s.format, kind, machines, sensors, s.key, keyed, s.time, s.unit, s.values, s.series, interval, s.disorder)
	return s
}

// produce registers the schema of the records, frames them and writes them.
func (s *plantShape) produce(t *testing.T, c *kafkatest.Cluster, topic string) {
	t.Helper()
	encode := plantRecord.json
	switch s.format {
	case "avro":
		schema := s.rows[0].avro("Plant")
		framing := binary.BigEndian.AppendUint32([]byte{0}, register(t, c.RegistryURL(t), topic+"-value", schema))
		codec, err := goavro.NewCodec(schema)
		must(t, err)
		encode = func(r plantRecord) []byte {
			b, err := codec.BinaryFromNative(slices.Clone(framing), r.native())
			must(t, err)
			return b
		}
	case "influx":
		encode = plantRecord.line
	case "protobuf":
		id := registerAs(t, c.RegistryURL(t), topic+"-value", "PROTOBUF", "syntax = \"proto3\";\n"+s.rows[0].proto("Plant"))
		framing := append(binary.BigEndian.AppendUint32([]byte{0}, id), 0)
		encode = func(r plantRecord) []byte { return append(slices.Clone(framing), r.wire()...) }
	}
	for i := range s.records {
		s.records[i].Value = encode(s.rows[i])
	}
	_, err := c.ProduceAcked(context.Background(), s.records)
	must(t, err)
}

// suggested runs worker suggest, and returns the file it has written and the settings in it.
func suggested(t *testing.T, c *kafkatest.Cluster, topic string, args ...string) (file, text string, cfg *config.Config) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "plant.yaml")
	term, out, errs := console("ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL="+c.RegistryURL(t))
	if code := term.suggest(t.Context(), append([]string{"-topic", topic, "-out", file}, args...)); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	b, err := os.ReadFile(file)
	must(t, err)
	cfg, faults, warnings := config.Parse([]string{"ODRADEK_CONFIG=" + file})
	if len(faults)+len(warnings) > 0 {
		t.Fatalf("%v %v in\n%s", faults, warnings, b)
	}
	return file, string(b), cfg
}

// verify compares a suggestion with what is true of the shape.
func (s *plantShape) verify(t *testing.T, cfg *config.Config, text string) {
	t.Helper()
	m := &cfg.Mapping
	sorted := func(text, sep string) string {
		list := strings.Split(text, sep)
		slices.Sort(list)
		return strings.Join(list, sep)
	}
	unit := s.unit
	switch unit {
	case "double":
		unit = "s"
	case "text":
		unit = "auto"
	}
	values := strings.Join(m.ValueFields, ",")
	if s.series != "" {
		values = ""
	}
	for _, x := range [][3]string{
		{"key", sorted(m.KeyField, "+"), sorted(s.key, "+")}, {"time", m.TimeField, s.time}, {"unit", m.TimeUnit, unit},
		{"values", values, s.values}, {"series", strings.Join(m.SeriesFields, ","), s.series}, {"readings", m.ReadingsField, s.readings}} {
		if x[1] != x[2] {
			t.Errorf("%s is %q, want %q", x[0], x[1], x[2])
		}
	}
	if late := cfg.Keys.Lateness > 0; late != (s.disorder || s.rekey) || cfg.Cycle.Rekey != s.rekey {
		t.Errorf("lateness %v, rekey %t; disorder %t, rekey %t", cfg.Keys.Lateness, cfg.Cycle.Rekey, s.disorder, s.rekey)
	}
	if t.Failed() {
		t.Logf("%s\n%.3000s\n%s", s.text, s.rows[len(s.rows)-1].json(), text)
	}
}

// TestSuggestTogether: shapes whose machines do not tell series apart without their sensors, nor the sensors without the machines.
func TestSuggestTogether(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	for i, seed := range []uint64{2578900198602370950, 4687189931459503738, 8017508297912044243, 6980983374890249385} {
		topic := c.Topic(t, fmt.Sprint("together-", i), 2)
		s := newPlantShape(rand.New(rand.NewPCG(seed, 1)), topic, 3000)
		s.produce(t, c, topic)
		_, text, cfg := suggested(t, c, topic)
		s.verify(t, cfg, text)
	}
}

// TestSuggest: of topics of random shapes suggest finds key, time, unit, values, whether a record is wide or a batch, and
// disorder; check accepts its file, and a worker with it scores the topic without a dead letter.
func TestSuggest(t *testing.T) {
	rng := seedtest.New(t)
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		for i := range 8 {
			topic := c.Topic(t, fmt.Sprint("plant-", i), 2)
			s := newPlantShape(rand.New(rand.NewPCG(rng.Uint64(), 1)), topic, 3000)
			s.produce(t, c, topic)
			var args []string
			if i%2 == 1 {
				args = []string{"-max-records", "1500"} // a part of them, from three places of each partition
			}
			file, text, cfg := suggested(t, c, topic, args...)
			s.verify(t, cfg, text)
			if t.Failed() {
				return
			}
			if i > 1 {
				continue
			}
			term, out, errs := console("ODRADEK_CONFIG=" + file)
			if code := term.check(t.Context(), []string{"-online"}); code != exitOK {
				t.Errorf("check: exit %d: %s%s\n%s", code, out, errs, text)
			}
			runUntil(t, c, []string{"ODRADEK_CONFIG=" + file, "ODRADEK_HTTP_ADDR=off", "ODRADEK_PAGE_ADDR=off"}, topic, func() {
				if s.rekey {
					must(t, c.Admin().WaitCommitted(t.Context(), cfg.Group.Group, cfg.Group.Group+"-rekey"))
				}
			})
			scores, err := c.Admin().ReadAll(t.Context(), cfg.Group.Group+"-scores", true)
			must(t, err)
			letters, err := c.Admin().ReadAll(t.Context(), cfg.Group.Group+"-dlq", true)
			must(t, err)
			late, err := c.Admin().ReadAll(t.Context(), cfg.Group.Group+"-late", true)
			must(t, err)
			if !s.rekey { // else a start reads history of partitions that are further apart than they are live
				late = nil
			}
			if len(scores) == 0 || len(scores)+len(late) < len(s.records)/2 || len(letters) > 0 {
				t.Errorf("%d scores and %d dead letters of %d records: %s\n%s", len(scores), len(letters), len(s.records), s.text, text)
			}
		}
	})
}

// suggestFails runs worker suggest, which has to fail, and returns what it says.
func suggestFails(t *testing.T, c *kafkatest.Cluster, topic string, environ ...string) string {
	t.Helper()
	term, out, errs := console(append([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")}, environ...)...)
	if code := term.suggest(t.Context(), []string{"-t", topic}); code != exitFailed || out.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	return errs.String()
}

// lines makes records of JSON texts; the key of each is its text's, "" for none.
func lines(topic string, n int, record func(i int) (key, value string)) (recs []kafkatest.Record) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i := range n {
		key, value := record(i)
		r := kafkatest.Record{Topic: topic, Time: start.Add(time.Duration(i) * time.Second).UnixMilli(), Value: []byte(value)}
		if key != "" {
			r.Key = []byte(key)
		}
		recs = append(recs, r)
	}
	return recs
}

// TestSuggestFaults: what cannot be suggested is said with the reason and a remedy.
func TestSuggestFaults(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	for name, x := range map[string]struct {
		record func(i int) (key, value string)
		want   []string
	}{
		"empty":      {nil, []string{"has no records"}},
		"tombstones": {func(int) (string, string) { return "a", "" }, []string{"have no value (tombstones)"}},
		"text": {func(i int) (string, string) { return "a", fmt.Sprintf("hello world %d", i) },
			[]string{"none of 200 records", "at offset 0"}},
		"xml": {func(int) (string, string) { return "a", "<a>1</a>" },
			[]string{"none of 200 records", "invalid character", "ODRADEK_FORMAT"}},
		"framed": {func(int) (string, string) { return "a", "\x00\x00\x00\x00\x07\x02\x04ab" },
			[]string{"200 records of 200", "set ODRADEK_SCHEMA_REGISTRY_URL"}},
		"no number": {func(i int) (string, string) { return "a", fmt.Sprintf(`{"machine":"m-%d","state":"on"}`, i%4) },
			[]string{"no number that moves", "no field of numbers", "ODRADEK_VALUE_FIELDS"}},
		"counters": {func(i int) (string, string) {
			return fmt.Sprint("m-", i%4), fmt.Sprintf(`{"machine":"m-%d","seq":%d,"on":%t,"code":%d,"limit":4.5,"level":"%d.5"}`, i%4, i,
				i%3 == 0, i%3, i)
		}, []string{"seq (only grows)", "on (is true or false)", "code (has 3 whole values)", "limit (does not change)",
			"level (only grows)"}},
		"no key": {func(i int) (string, string) { return "", fmt.Sprintf(`{"v":%v}`, math.Sin(float64(i))) },
			[]string{"no field names the series", "ODRADEK_KEY_FIELD"}},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "faults", 1)
			if x.record != nil {
				recs := lines(topic, 200, x.record)
				if name == "tombstones" {
					for i := range recs {
						recs[i].Value = nil
					}
				}
				_, err := c.ProduceAcked(t.Context(), recs)
				must(t, err)
			}
			said := suggestFails(t, c, topic)
			for _, want := range append(x.want, topic) {
				if !strings.Contains(said, want) {
					t.Errorf("%q lacks %q", said, want)
				}
			}
		})
	}
	topic := c.Topic(t, "sensors", 1)
	said := suggestFails(t, c, topic[:len(topic)-1]+"_")
	if !strings.Contains(said, "does not exist") || !strings.Contains(said, "did you mean "+topic) {
		t.Error(said)
	}
	for _, args := range []string{"", "-topic t -max-bytes much", "-topic t -max-samples 3", "-topic t -alarms 0", "surplus"} {
		term, _, errs := console()
		if code := term.suggest(t.Context(), strings.Fields(args)); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
	}
	file := filepath.Join(t.TempDir(), "there.yaml")
	must(t, os.WriteFile(file, []byte("kept"), 0o600))
	_, err := c.ProduceAcked(t.Context(), lines(topic, 200, func(i int) (string, string) {
		return "a", fmt.Sprintf(`{"v":%v}`, math.Sin(float64(i)))
	}))
	must(t, err)
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	code := term.suggest(t.Context(), []string{"-t", topic, "-out", file})
	if code != exitFailed || !strings.Contains(errs.String(), "exists") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if b, _ := os.ReadFile(file); string(b) != "kept" {
		t.Errorf("the file is %q", b)
	}
}

// TestSuggestDoubts: what the records do not decide is said with the runner-up, and settings that are given are kept.
func TestSuggestDoubts(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "doubts", 1)
	// Two names that divide the readings as well, a time without an offset, and some that cannot be read.
	_, err := c.ProduceAcked(t.Context(), lines(topic, 2400, func(i int) (string, string) {
		if i%100 == 50 {
			return "x", "{not JSON"
		}
		pump, line := i%6, i%5
		return "", fmt.Sprintf(`{"pump":"p%d","line":"l%d","when":"2026-03-01 00:%02d:%02d","flow":%v}`, pump, line, i/60%60, i%60,
			math.Sin(float64(i)/20)+0.1*math.Sin(float64(i*i)))
	}))
	must(t, err)
	term, out, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	for range 2 {
		before := out.String()
		out.Reset()
		if code := term.suggest(t.Context(), []string{"-topic", topic}); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		if before != "" && out.String() != before {
			t.Errorf("the same records give another text:\n%s\n%s", before, out)
		}
	}
	for _, want := range []string{"Not certain: nearly as plausible is line (5 values)", "time_field: when", "time_zone: UTC",
		"As UTC they fit Kafka's timestamps",
		"24 records of 2,400 cannot be read"} {
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(out.String(), "#", "")), " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	term, out, errs = console("ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_KEY_FIELD=line", "ODRADEK_GROUP=mine",
		"ODRADEK_TTL=48h", "ODRADEK_DETECTORS=level", "ODRADEK_DETECTOR_LEVEL_OP=zscore")
	if code := term.suggest(t.Context(), []string{"-topic", topic}); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "plant.yaml")
	must(t, os.WriteFile(file, out.Bytes(), 0o600))
	cfg, faults, _ := config.Parse([]string{"ODRADEK_CONFIG=" + file})
	if len(faults) > 0 || cfg.Mapping.KeyField != "line" || cfg.Group.Group != "mine" || cfg.Keys.TTL != 48*time.Hour ||
		len(cfg.Detectors) != 1 || cfg.Detectors[0].Op != "zscore" {
		t.Errorf("%v of\n%s", faults, out)
	}
}

// TestSuggestPipeline: records as Debezium, Telegraf and Kafka Connect write them (docs/pipeline.md).
func TestSuggestPipeline(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	rng := seedtest.New(t)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	value := func(i, unit int) float64 { return 20*float64(unit) + 3*math.Sin(float64(i)/90) + 0.2*rng.NormFloat64() }
	const n = 4000
	for name, x := range map[string]struct {
		record func(i int, at time.Time) (key string, record plantRecord)
		want   plantShape
	}{
		"Debezium": {func(i int, at time.Time) (string, plantRecord) {
			op, ms := "c", at.UnixMilli()
			if rng.IntN(9) == 0 {
				op = "u"
			}
			return fmt.Sprintf(`{"id":%d}`, 4711+i), plantRecord{{"before", nil}, {"after", plantRecord{{"id", int64(4711 + i)},
				{"machine", fmt.Sprint("press-", i%5)}, {"taken_at", at.UnixMicro()}, {"temperature", value(i, i%5)}}},
				{"source", plantRecord{{"version", "3.0.0.Final"}, {"connector", "postgresql"}, {"name", "plant"}, {"ts_ms", ms + 70},
					{"db", "mes"}, {"lsn", int64(24000000 + 312*i)}, {"table", "readings"}}}, {"op", op}, {"ts_ms", ms + 130}}
		}, plantShape{format: "json", key: "after.machine", time: "after.taken_at", unit: "us", values: "after.temperature"}},
		"Telegraf": {func(i int, at time.Time) (string, plantRecord) {
			user, system := value(i, i%4)+9, value(i, 1)+5
			return "", plantRecord{{"fields", plantRecord{{"usage_idle", 200 - user - system}, {"usage_iowait", value(i, 0) + 4},
				{"usage_system", system}, {"usage_user", user}}}, {"name", "cpu"}, {"tags", plantRecord{{"cpu", "cpu-total"},
				{"host", fmt.Sprint("web-", i%4)}}}, {"timestamp", at.Unix()}}
		}, plantShape{format: "json", key: "tags.host", time: "timestamp", unit: "s",
			series: "fields.usage_idle,fields.usage_iowait,fields.usage_system,fields.usage_user"}},
		"Telegraf, lines": {func(i int, at time.Time) (string, plantRecord) {
			user, system := value(i, i%4)+9, value(i, 1)+5
			return "", plantRecord{{"fields", plantRecord{{"usage_idle", 200 - user - system}, {"usage_system", system}, {"usage_user", user},
				{"usage_iowait", value(i, 0) + 4}}}, {"name", "cpu"}, {"tags", plantRecord{{"cpu", "cpu-total"},
				{"host", fmt.Sprint("web-", i%4)}}}, {"timestamp", at.UnixNano()}}
		}, plantShape{format: "influx", key: "tags.host", time: "timestamp", unit: "ns",
			series: "fields.usage_idle,fields.usage_system,fields.usage_user,fields.usage_iowait"}},
		"Connect": {func(i int, at time.Time) (string, plantRecord) {
			temperature, vibration := value(i, i%5), value(i, 1)/90
			return "", plantRecord{{"id", int64(4711 + i)}, {"machine", fmt.Sprint("press-", i%5)}, {"taken_at", at.UnixMilli()},
				{"temperature", &temperature}, {"vibration", &vibration}}
		}, plantShape{format: "avro", key: "machine", time: "taken_at", unit: "ms", values: "temperature,vibration"}},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "pipeline", 1)
			s := x.want
			s.text = name
			for i := range n {
				at := start.Add(time.Duration(i) * 2 * time.Second)
				key, row := x.record(i, at)
				r := kafkatest.Record{Topic: topic, Time: at.UnixMilli() + 300 + rng.Int64N(50)}
				if key != "" {
					r.Key = []byte(key)
				}
				s.records, s.rows = append(s.records, r), append(s.rows, row)
			}
			s.produce(t, c, topic)
			_, text, cfg := suggested(t, c, topic)
			s.verify(t, cfg, text)
			if testing.Verbose() {
				t.Log(text)
			}
		})
	}
}

// TestSuggestRecorded: recorded streams of real machines, one topic of several of them as a plant would write them.
func TestSuggestRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "shared", "data", "nab", "dev", "real*", "*.csv.gz"))
	must(t, err)
	if len(files) < 6 {
		t.Skip("no recorded streams: ../shared/data/nab is absent")
	}
	rng := seedtest.New(t)
	rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "recorded", 1)
	var recs []kafkatest.Record
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, file := range files[:6] {
		name := strings.TrimSuffix(filepath.Base(file), ".csv.gz")
		t.Log(name)
		shift := time.Duration(0) // the streams are of other years
		for i, row := range csvRows(t, file) {
			at, err := time.Parse("2006-01-02 15:04:05", row[0])
			must(t, err)
			if i == 0 {
				shift = start.Sub(at)
			}
			at = at.Add(shift)
			recs = append(recs, kafkatest.Record{Topic: topic, Key: []byte(name), Time: at.UnixMilli() + 900,
				Value: fmt.Appendf(nil, `{"stream":%q,"timestamp":%d,"value":%s}`, name, at.Unix(), row[1])})
		}
	}
	slices.SortStableFunc(recs, func(a, b kafkatest.Record) int { return int(a.Time - b.Time) })
	_, err = c.ProduceAcked(t.Context(), recs)
	must(t, err)
	_, text, cfg := suggested(t, c, topic)
	m := cfg.Mapping
	if m.KeyField != "stream" || m.TimeField != "timestamp" || m.TimeUnit != "s" || strings.Join(m.ValueFields, ",") != "value" {
		t.Errorf("key %s, time %s in %s, values %v of\n%s", m.KeyField, m.TimeField, m.TimeUnit, m.ValueFields, text)
	}
	if !strings.Contains(text, "Expected anomalies a day: ") {
		t.Errorf("no expectation in\n%s", text)
	}
	if testing.Verbose() {
		t.Log(text)
	}
}

// csvRows reads a compressed file of comma-separated values but for its first line.
func csvRows(t *testing.T, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	rows, err := csv.NewReader(z).ReadAll()
	must(t, err)
	return rows[1:]
}

// TestSuggestSteps: a counter whose increases differ is a value by its rate, and numbers that stand for no reading are missing. A
// number of records, a clock and an id are no values, and a number that is no placeholder is kept.
func TestSuggestSteps(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	rng := seedtest.New(t)
	topic := c.Topic(t, "counters", 1)
	bytes, energy := map[int]int{}, 0.0
	_, err := c.ProduceAcked(t.Context(), lines(topic, 3000, func(i int) (string, string) {
		host := i % 3
		if bytes[host] += 1000 + rng.IntN(400); i == 1500 {
			bytes[host] = 7 // it began again
		}
		energy += 1 + 0.3*math.Sin(float64(i)/60) + 0.01*rng.Float64()
		temperature, level := 20+3*math.Sin(float64(i)/90)+0.2*rng.NormFloat64(), 50+10*math.Sin(float64(i)/30)+rng.Float64()
		if rng.IntN(100) == 0 {
			temperature = -9999
		}
		if rng.IntN(100) == 0 {
			level = 0 // a reading
		}
		return fmt.Sprint("web-", host), fmt.Sprintf(`{"host":"web-%d","n":%d,"uptime":%d,"bytes_total":%d,"energy":%f,"temperature":%.3f,"level":%.3f}`,
			host, i, 100+i, bytes[host], energy, temperature, level)
	}))
	must(t, err)
	_, text, cfg := suggested(t, c, topic)
	if transform := strings.Join(cfg.Mapping.Transform, ","); transform != "bytes_total=rate" && transform != "bytes_total=rate,energy=rate" {
		t.Errorf("transform %q in\n%s", transform, text)
	}
	if missing := strings.Join(cfg.Mapping.MissingIf, ","); missing != "temperature=-9999" {
		t.Errorf("missing_if %q in\n%s", missing, text)
	}
	for field, want := range map[string]bool{"bytes_total": true, "temperature": true, "level": true, "n": false, "uptime": false} {
		if slices.Contains(cfg.Mapping.SeriesFields, field) != want {
			t.Errorf("%s is one of the series %q: %v, want %v\n%s", field, cfg.Mapping.SeriesFields, !want, want, text)
		}
	}
}
