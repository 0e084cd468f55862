package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// refusal starts a worker and returns why it does not start; "" once it is ready. A
// start that is tried again is not one.
func (f *fleet) refusal(name string, env ...string) (refusal string, code int) {
	f.t.Helper()
	w := f.start(name, env...)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if lines := w.lines("trying again"); len(lines) > 0 {
			w.kill()
			return lines[0], -1
		}
		select {
		case <-w.done:
			return strings.Join(w.lines("worker ended"), "\n"), w.exit(f.t)
		default:
		}
		if code, _ := w.get("/readyz"); code == http.StatusOK {
			if code := w.drain(f.t); code != exitOK {
				f.t.Errorf("drained with %d", code)
			}
			return "", exitOK
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s neither starts nor ends", name)
		}
	}
}

// checked returns what check finds with the settings of a worker of the fleet: the faults by
// which run does not start, and everything as it is printed.
func (f *fleet) checked(env ...string) (stops []admin.Finding, code int, all string) {
	f.t.Helper()
	term, out, errs := console(f.settings(append(env, "HTTP_ADDR=127.0.0.1:1")...)...)
	code = term.check(context.Background(), []string{"-online", "-json"})
	for line := range bytes.Lines(out.Bytes()) {
		var x admin.Finding
		if err := json.Unmarshal(line, &x); err != nil {
			f.t.Fatalf("%q: %v", line, err)
		}
		if x.Level == admin.LevelFault && !x.Starts {
			stops = append(stops, x)
		}
		if x.Level != admin.LevelOK {
			all += fmt.Sprintf("%s %s: %s -> %s\n", x.Level, x.What, x.Detail, x.Fix)
		}
	}
	return stops, code, all + errs.String()
}

// TestCheckAndRunAgree holds check and run to each other, fault by fault: check finds one by
// which run does not start exactly where run does not start, and both say the same of it.
func TestCheckAndRunAgree(t *testing.T) {
	const (
		starts  = true
		refuses = false
	)
	type bed struct {
		*fleet
		m     *measurements
		cache string
	}
	rng := seedtest.New(t)
	ctx := context.Background()
	produce := func(b *bed, n int) {
		_, err := b.c.ProduceAcked(ctx, walk(b.t, b.m, b.input, rng, 6, n))
		must(b.t, err)
	}
	ran := func(b *bed) { // the group has state
		produce(b, 300)
		w := b.start("before")
		w.waitReady(b.t)
		b.waitDone()
		w.drain(b.t)
	}
	raw := func(b *bed, n int, value string) {
		var recs []kafkatest.Record
		for i := range n {
			recs = append(recs, kafkatest.Record{Topic: b.input, Partition: int32(i % 2), Key: []byte("k"), Value: []byte(value)})
		}
		_, err := b.c.ProduceAcked(ctx, recs)
		must(b.t, err)
	}
	asJSON := func(b *bed, n int) { raw(b, n, `{"sensor":"secret-pump","value":1.5}`) }
	changelog := func(b *bed) string { return config.ChangelogName(config.ChangelogPrefix(b.group), b.input) }
	never := func(*bed) {}

	for _, tt := range []struct {
		name  string
		set   func(b *bed)
		env   []string
		want  bool
		texts []string // in the refusal and in what check finds; where run starts, in the latter
	}{
		{"fine", ran, nil, starts, nil},
		{"an empty topic", never, nil, starts, []string{"there are none to check"}},
		{"a missing topic", never, []string{"TOPICS=nowhere"}, refuses, []string{"topic nowhere", "does not exist",
			"worker setup -input-partitions"}},
		{"missing outputs", never, []string{"CREATE_TOPICS=false"}, refuses, []string{"-dlq", "ODRADEK_CREATE_TOPICS is false"}},
		{"more replicas than brokers", never, []string{"REPLICATION=5"}, refuses,
			[]string{"-scores", "do not exist and cannot be created", "ODRADEK_REPLICATION"}},
		{"another group's changelog", func(b *bed) {
			ran(b)
			b.env = append(b.env, "CHANGELOG_PREFIX="+config.ChangelogPrefix(b.group))
			b.group += "2"
		}, nil, refuses, []string{"holds the state of group", "ODRADEK_CHANGELOG_PREFIX"}},
		{"another key", ran, []string{"KEY_FIELD=@key"}, refuses, []string{"ODRADEK_KEY_FIELD was sensor and is @key",
			"ODRADEK_STATE_MISMATCH=reset"}},
		{"another key, reset", ran, []string{"KEY_FIELD=@key", "STATE_MISMATCH=reset"}, starts, []string{"is emptied",
			"ODRADEK_KEY_FIELD was sensor and is @key"}},
		{"another parameter", ran, []string{"DETECTOR_CHANGE_RANK=2"}, refuses, []string{"ODRADEK_DETECTOR_CHANGE_RANK was 3 and is 2"}},
		{"another threshold", ran, []string{"DETECTOR_CHANGE_THRESHOLD=fixed:0.5"}, starts, nil},
		{"more partitions", func(b *bed) { ran(b); must(b.t, b.c.Admin().AddPartitions(ctx, b.input, 3)) }, nil, refuses,
			[]string{"it has 3 partitions and its changelog", "worker state reset -topic"}},
		{"more partitions, reset", func(b *bed) { ran(b); must(b.t, b.c.Admin().AddPartitions(ctx, b.input, 3)) },
			[]string{"STATE_LOST=reset", "TTL=1h", "MAX_JUMP=0s"}, starts, nil},
		{"input lost", func(b *bed) {
			ran(b)
			produce(b, 100)
			for p := range int32(2) {
				ends, err := b.c.Admin().Ends(ctx, b.input, kafkatest.HighWatermark)
				must(b.t, err)
				must(b.t, b.c.Admin().DeleteRecords(ctx, b.input, p, ends[p]))
			}
		}, nil, refuses, []string{"retention has deleted input", "ODRADEK_OFFSET_LOST"}},
		{"changelog made again", func(b *bed) {
			ran(b)
			must(b.t, b.c.Admin().DeleteTopic(ctx, changelog(b)))
			must(b.t, b.c.Admin().CreateTopic(ctx, changelog(b), 2, 1, map[string]string{"cleanup.policy": "compact"}))
		}, nil, refuses, []string{"it was deleted and made again", "ODRADEK_STATE_LOST=reset"}},
		{"changelog deleted", func(b *bed) { ran(b); must(b.t, b.c.Admin().DeleteTopic(ctx, changelog(b))) }, nil, refuses,
			[]string{"it was deleted and made again"}},
		{"changelog deletes by age", func(b *bed) {
			must(b.t, b.c.Admin().CreateTopic(ctx, changelog(b), 2, 1, map[string]string{"cleanup.policy": "delete"}))
		}, nil, starts, []string{"deletes state by age"}},

		{"a misspelt field, no records", never, []string{"VALUE_FIELDS=valeu"}, refuses, []string{`field "valeu"`, "nearest: value"}},
		{"a misspelt field", func(b *bed) { produce(b, 100) }, []string{"VALUE_FIELDS=valeu"}, refuses,
			[]string{`field "valeu"`, "nearest: value"}},
		{"a newer schema that nobody writes", func(b *bed) {
			produce(b, 100)
			register(b.t, b.registry, b.input+"-value", strings.Replace(sensorSchema, `"name":"value"`, `"name":"reading"`, 1))
		}, nil, starts, []string{`field "value"`, "newer records can be read"}},
		{"a topic of JSON", func(b *bed) { asJSON(b, 20) }, nil, refuses,
			[]string{"20 of 20 would be dead letters (magic)", "looks like JSON", "ODRADEK_SCHEMA_FILE", "START=latest"}},
		{"a topic of JSON, from its end", func(b *bed) { asJSON(b, 20) }, []string{"START=latest"}, starts, []string{"looks like JSON"}},
		{"a few records of JSON", func(b *bed) { asJSON(b, admin.FewRecords-1) }, nil, starts, []string{"looks like JSON"}},
		{"JSON behind good records", func(b *bed) { produce(b, 100); asJSON(b, 20) }, nil, starts, []string{"looks like JSON"}},
		{"JSON before good records", func(b *bed) { asJSON(b, 20); produce(b, 20) }, nil, starts, []string{"looks like JSON"}},
		{"JSON since the group began", func(b *bed) { ran(b); asJSON(b, 60) }, nil, starts, []string{"looks like JSON"}},
		{"deletions alone", func(b *bed) {
			_, err := b.c.ProduceAcked(ctx, slices.Repeat([]kafkatest.Record{{Topic: b.input, Key: []byte("k")}}, 20))
			must(b.t, err)
		}, nil, starts, []string{"tombstone"}},
		{"no registry", func(b *bed) { b.registry = "http://127.0.0.1:1" }, nil, refuses, []string{"schema registry",
			"ODRADEK_SCHEMA_REGISTRY_URL"}},
		{"no registry, with a cache", func(b *bed) {
			b.env = append(b.env, "SCHEMA_REGISTRY_CACHE_DIR="+b.cache)
			r, err := kafkatest.StartFakeRegistry()
			must(b.t, err)
			b.registry = r.URL
			b.m = newMeasurements(b.t, r.URL, b.input)
			ran(b)
			r.Close()
		}, nil, starts, []string{"schema registry", "a start is possible"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := kafkatest.Fake(t, kafkatest.FakeOptions{})
			input := c.Topic(t, "in", 2)
			b := &bed{cache: t.TempDir(), fleet: newFleet(t, c, input, input+"-g", "INSTANCE_ID=one")}
			b.m = newMeasurements(t, b.registry, b.input)
			tt.set(b)
			stops, code, all := b.checked(tt.env...)
			refusal, exit := b.refusal("after", tt.env...)
			if checked := len(stops) == 0; checked != (refusal == "") || checked != tt.want || !checked && code != exitFailed {
				t.Errorf("check says that run starts: %v (exit %d); run starts: %v (exit %d); want %v\n%s\n%s", checked, code, refusal == "", exit,
					tt.want, all, refusal)
			}
			refusal = strings.ReplaceAll(refusal, `\"`, `"`)
			for _, text := range tt.texts {
				if !strings.Contains(all, text) {
					t.Errorf("check does not say %q:\n%s", text, all)
				}
				if !tt.want && !strings.Contains(refusal, text) {
					t.Errorf("run does not say %q: %s", text, refusal)
				}
			}
			if strings.Contains(all+refusal, "secret") {
				t.Errorf("a value is shown:\n%s%s", all, refusal)
			}
		})
	}
}
