package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/try"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

// tryEnv are the settings of the records of tryRecords.
var tryEnv = []string{"ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=t", "ODRADEK_VALUE_FIELDS=bytes,temp",
	"ODRADEK_ONLY_IF=quality == 'GOOD'", "ODRADEK_MISSING_IF=temp=-9999", "ODRADEK_TRANSFORM=bytes=rate", "ODRADEK_TOMBSTONES=skip",
	"ODRADEK_DETECTORS=b,t", "ODRADEK_DETECTOR_B_OP=zscore", "ODRADEK_DETECTOR_B_FIELDS=bytes", "ODRADEK_DETECTOR_T_OP=knn",
	"ODRADEK_DETECTOR_T_FIELDS=temp", "ODRADEK_MAX_JUMP=1h"}

// tryRecords are records of one series, and what is to be said of each.
var tryRecords = []struct{ value, want string }{
	{`{"id":"m","t":1772323200000,"bytes":100,"temp":20.5,"quality":"GOOD"}`,
		"read\n  m  2026-03-01T00:00:00Z  bytes=100 -> missing (no result of ODRADEK_TRANSFORM)  temp=20.5"},
	{`{"id":"m","t":1772323202000,"bytes":160,"temp":-9999,"quality":"GOOD"}`,
		"read\n  m  2026-03-01T00:00:02Z  bytes=160 -> 30  temp=-9999 -> missing (no reading by ODRADEK_VALID or ODRADEK_MISSING_IF)"},
	{`{"id":"m","t":1772323203000,"bytes":170,"temp":21,"quality":"BAD"}`, "filtered: only_if quality == 'GOOD' is false"},
	{`{"id":"m","t":1772323204000,"bytes":50,"temp":null,"quality":"GOOD"}`,
		"missing: no detector has all values that it needs\n  m  2026-03-01T00:00:04Z  bytes=50 -> missing (no result of ODRADEK_TRANSFORM)  " +
			"temp=missing"},
	{`{"id":"m","t":1772323205000,"bytes":"many","temp":21,"quality":"GOOD"}`,
		`dead letter (bad_type): field "bytes": the value is not a number`},
	{`{"id":"m","t":1772323201000,"bytes":80,"temp":21,"quality":"GOOD"}`,
		"late: its time is before the newest of its series, and ODRADEK_LATENESS is 0\n  m  2026-03-01T00:00:01Z  bytes=80  temp=21"},
	{"", "tombstone: the record has no value"},
	{`{"id":"m","t":1772323206000,"bytes":60,"temp":21,"quality":"GOOD"}`, "read\n  m  2026-03-01T00:00:06Z  bytes=60 -> 5  temp=21"},
	{`{"id":"m","t":1772409606000,"bytes":61,"temp":21,"quality":"GOOD"}`, "held: its time is further past the partition's newest"},
}

// TestTry: worker try says of each record of a topic what would be read of it, by the worker's own fold, or why nothing is; it
// commits and creates nothing.
func TestTry(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	topic := c.Topic(t, "in", 3)
	var recs []kafkatest.Record
	for i, r := range tryRecords {
		rec := kafkatest.Record{Topic: topic, Partition: 1, Time: time.Date(2026, 3, 3, 0, 0, i, 0, time.UTC).UnixMilli(), Value: []byte(r.value)}
		if r.value == "" {
			rec.Key, rec.Value = []byte("m"), nil
		}
		recs = append(recs, rec)
	}
	for i := range 30 { // older ones, which are not shown
		recs = append(recs, kafkatest.Record{Topic: topic, Partition: 2, Time: time.Date(2026, 3, 2, 0, 0, i, 0, time.UTC).UnixMilli(),
			Value: []byte("older")})
	}
	_, err := c.ProduceAcked(t.Context(), recs)
	must(t, err)
	before := topicsOf(t, c)
	env := append([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_TOPICS=" + topic}, tryEnv...)
	term, out, errs := console(env...)
	code := term.try(t.Context(), []string{"-n", "9"})
	rest := out.String()
	for i, r := range tryRecords {
		at := strings.Index(rest, r.want)
		if code != exitOK || at < 0 {
			t.Fatalf("exit %d, record %d: want %q in\n%s%s", code, i, r.want, out, errs)
		}
		rest = rest[at+len(r.want):]
	}
	if want := "9 records: 3 read, 1 missing, 1 filtered, 1 tombstone, 1 late, 1 held, 1 dead\n"; !strings.HasSuffix(rest, want) {
		t.Errorf("want %q at the end of\n%s", want, rest)
	}
	if after := topicsOf(t, c); after != before {
		t.Errorf("topics %s, before %s", after, before)
	}

	// None is read.
	term, out, _ = console(append(env, "ODRADEK_KEY_FIELD=none")...)
	if code := term.try(t.Context(), []string{"-n", "3", "-first"}); code != exitFailed ||
		!strings.Contains(out.String(), "3 records: 0 read") {
		t.Errorf("exit %d\n%s", code, out)
	}

	// As JSON, also of what waits for order.
	term, out, _ = console(append(env, "ODRADEK_LATENESS=10s")...)
	if code := term.try(t.Context(), []string{"-n", "9", "-json"}); code != exitOK {
		t.Errorf("exit %d\n%s", code, out)
	}
	var list []try.Result
	for line := range strings.Lines(out.String()) {
		var r try.Result
		must(t, json.Unmarshal([]byte(line), &r))
		list = append(list, r)
	}
	bytes := func(i int) string { // of the first value: the record's, and what it becomes
		v := list[i].Samples[0].Values[0]
		return fmt.Sprintf("%v %v", *v.Read, deref(v.Value))
	}
	if len(list) != 9 || list[5].Outcome != try.Read || bytes(1) != "160 80" || bytes(5) != "80 missing" || bytes(7) != "60 5" ||
		list[8].Outcome != try.Held || *list[4].Offset != 4 || list[4].Class != "bad_type" {
		t.Errorf("%s", out)
	}
}

func deref(v *float64) any {
	if v == nil {
		return "missing"
	}
	return *v
}

func topicsOf(t *testing.T, c *kafkatest.Cluster) string {
	t.Helper()
	client, err := kafka.Open(t.Context(), kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	must(t, err)
	defer client.Close()
	infos, err := client.Admin.Topics(t.Context())
	must(t, err)
	return strings.Join(slices.Sorted(maps.Keys(infos)), " ")
}

// TestTryFiles: worker try reads files as it reads topics, without a broker.
func TestTryFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	lines := ""
	for _, r := range tryRecords[:3] {
		lines += r.value + "\n"
	}
	for name, x := range map[string]struct {
		path string
		env  []string
		want []string
		code int
	}{
		"lines": {path: file("a.jsonl", lines), want: []string{"line 2: read\n", "bytes=160 -> 30", "line 3: filtered",
			"3 records: 2 read, 1 filtered"}},
		"of kcat": {path: file("kcat.jsonl", `{"topic":"sensors","partition":3,"offset":17,"tstype":"create","ts":1772323200000,"broker":0,`+
			`"key":"k-1","payload":"{\"v\":2}"}`+"\n"+`{"topic":"sensors","partition":3,"offset":18,"ts":1772323201000,"key":"k-1","payload":null}`),
			env: []string{"ODRADEK_FORMAT=json", "ODRADEK_VALUE_FIELDS=v"},
			want: []string{"sensors/3 offset 17, 2026-03-01T00:00:00Z: read\n  k-1  2026-03-01T00:00:00Z  v=2",
				"offset 18, 2026-03-01T00:00:01Z: dead letter (tombstone)"}},
		"one record": {path: file("record.json", `{
 "id": "m", "t": 1772323200000, "bytes": 1, "temp": 2, "quality": "GOOD"}`),
			want: []string{"record: read\n", "temp=2", "1 records: 1 read"}},
		"rows": {path: file("rows.csv", "id,t,bytes,temp,quality\nm,1772323200000,1,20,GOOD\nm,never,1,20,GOOD\nm,1772323201000,2,20,BAD\n"+
			"m,1772323202000,5,-9999,GOOD\n"), env: tryEnv[1:],
			want: []string{"line 2: read\n", "line 3: left out: column t: ", "line 4: filtered: only_if ", "line 5: read\n", "bytes=5 -> 2",
				"temp=-9999 -> missing", "4 records: 2 read, 1 filtered, 1 dead"}},
		"none read": {path: file("bad.jsonl", "{\n}\n"), want: []string{"2 records: 0 read, 2 dead"}, code: exitFailed},
		"no such":   {path: filepath.Join(dir, "none.jsonl"), code: exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			env := x.env
			if env == nil {
				env = tryEnv
			}
			term, out, errs := console(env...)
			code := term.try(t.Context(), []string{"-in", x.path, "-topic", "sensors"})
			if code != x.code {
				t.Errorf("exit %d: %s", code, errs)
			}
			for _, want := range x.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in\n%s%s", want, out, errs)
				}
			}
		})
	}
}
