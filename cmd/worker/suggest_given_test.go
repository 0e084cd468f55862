package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// suggestedFor runs worker suggest on a topic with settings, and returns what they and the suggestion make.
func suggestedFor(t *testing.T, c *kafkatest.Cluster, topic string, environ ...string) (*config.Config, string) {
	t.Helper()
	term, out, errs := console(append([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")}, environ...)...)
	if code := term.suggest(t.Context(), []string{"-topic", topic}); code != exitOK {
		t.Fatalf("%v: exit %d: %s", environ, code, errs)
	}
	file := filepath.Join(t.TempDir(), "plant.yaml")
	must(t, os.WriteFile(file, out.Bytes(), 0o600))
	cfg, faults, warnings := config.Parse([]string{"ODRADEK_CONFIG=" + file})
	if len(faults)+len(warnings) > 0 {
		t.Fatalf("%v: %v %v in\n%s", environ, faults, warnings, out)
	}
	return cfg, out.String()
}

// wave is a number that moves.
func wave(i int) float64 { return 20 + math.Sin(float64(i)/20) + 0.1*math.Sin(float64(i*i)) }

// TestSuggestGivenValues: where no number moves, those that are given are the values, as the error of the topic without them says.
func TestSuggestGivenValues(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "still", 1)
	_, err := c.ProduceAcked(t.Context(), lines(topic, 400, func(i int) (string, string) {
		return fmt.Sprint("m-", i%2), fmt.Sprintf(`{"machine":"m-%d","level":%d,"count":%d}`, i%2, i/4%3, i/2)
	}))
	must(t, err)
	if said := suggestFails(t, c, topic); !strings.Contains(said, "Name the values yourself with ODRADEK_VALUE_FIELDS") {
		t.Error(said)
	}
	cfg, text := suggestedFor(t, c, topic, "ODRADEK_VALUE_FIELDS=level,count")
	if !slices.Equal(cfg.Mapping.ValueFields, []string{"level", "count"}) || len(cfg.Mapping.SeriesFields) > 0 {
		t.Errorf("values %q, series %q of\n%s", cfg.Mapping.ValueFields, cfg.Mapping.SeriesFields, text)
	}
	cfg, text = suggestedFor(t, c, topic, "ODRADEK_SERIES_FIELDS=level,count")
	if !slices.Equal(cfg.Mapping.SeriesFields, []string{"level", "count"}) {
		t.Errorf("series %q of\n%s", cfg.Mapping.SeriesFields, text)
	}
}

// TestSuggestSchemaFile: with the schema of records that carry none, no field has to be given: the defaults that the schema lacks are no
// fault. A field that is given and that the schema lacks is one.
func TestSuggestSchemaFile(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	dir := t.TempDir()
	avro := filepath.Join(dir, "bare.avsc")
	schema := `{"type":"record","name":"R","fields":[{"name":"dev","type":"string"},` +
		`{"name":"ts","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"temp","type":"double"}]}`
	must(t, os.WriteFile(avro, []byte(schema), 0o600))
	codec, err := goavro.NewCodec(schema)
	must(t, err)
	proto := filepath.Join(dir, "bare.proto")
	row := func(i int) plantRecord {
		return plantRecord{
			{"dev", fmt.Sprint("d", i%3)},
			{"ts", time.Date(2026, 3, 1, 0, 0, i, 0, time.UTC).UnixMilli()},
			{"temp", wave(i) + float64(10*(i%3))},
		}
	}
	must(t, os.WriteFile(proto, []byte("syntax = \"proto3\";\n"+row(0).proto("R")), 0o600))
	for name, x := range map[string]struct {
		file, format string
		value        func(i int) string
	}{
		"avro": {avro, "auto", func(i int) string {
			native := row(i).native()
			native["ts"] = time.UnixMilli(native["ts"].(int64))
			b, err := codec.BinaryFromNative(nil, native)
			must(t, err)
			return string(b)
		}},
		"protobuf": {proto, "protobuf", func(i int) string { return string(row(i).wire()) }},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "bare", 1)
			_, err := c.ProduceAcked(t.Context(), lines(topic, 600, func(i int) (string, string) { return "", x.value(i) }))
			must(t, err)
			given := []string{"ODRADEK_SCHEMA_FILE=" + x.file, "ODRADEK_FORMAT=" + x.format}
			cfg, text := suggestedFor(t, c, topic, given...)
			if m := &cfg.Mapping; m.KeyField != "dev" || m.TimeField != "ts" || !slices.Equal(m.ValueFields, []string{"temp"}) {
				t.Errorf("key %q, time %q, values %q of\n%s", m.KeyField, m.TimeField, m.ValueFields, text)
			}
			if said := suggestFails(t, c, topic, append(given, "ODRADEK_VALUE_FIELDS=pressure")...); !strings.Contains(said, "pressure") {
				t.Errorf("a field that the schema lacks: %s", said)
			}
		})
	}
}

// TestSuggestIdle: where series should be found silent, so should a topic that stops as a whole.
func TestSuggestIdle(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "steady", 1)
	_, err := c.ProduceAcked(t.Context(), lines(topic, 1200, func(i int) (string, string) {
		return fmt.Sprint("m-", i%3), fmt.Sprintf(`{"machine":"m-%d","v":%v}`, i%3, wave(i))
	}))
	must(t, err)
	cfg, text := suggestedFor(t, c, topic)
	if cfg.Detect.Silence == 0 || cfg.Keys.IdleAfter < cfg.Detect.Silence {
		t.Errorf("silence %v, idle after %v of\n%s", cfg.Detect.Silence, cfg.Keys.IdleAfter, text)
	}
	if cfg, text = suggestedFor(t, c, topic, "ODRADEK_IDLE_AFTER=7m"); cfg.Keys.IdleAfter != 7*time.Minute {
		t.Errorf("idle after %v is not what was given, of\n%s", cfg.Keys.IdleAfter, text)
	}
}

// TestSuggestFastClock: of five series of a partition the clock of one is five minutes ahead, by which the others would seem silent.
func TestSuggestFastClock(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	now := time.Now().Add(-time.Hour)
	for fast := range 2 {
		topic := c.Topic(t, "clocks", 1)
		var recs []kafkatest.Record
		for i := range 1500 {
			sent := now.Add(time.Duration(i) * time.Second)
			at := sent
			if i%5 == 3 {
				at = at.Add(time.Duration(fast) * 5 * time.Minute)
			}
			recs = append(recs, kafkatest.Record{Topic: topic, Key: fmt.Appendf(nil, "s%d", i%5), Time: sent.UnixMilli(),
				Value: fmt.Appendf(nil, `{"sensor":"s%d","at":%d,"value":%v}`, i%5, at.UnixMilli(), wave(i))})
		}
		_, err := c.ProduceAcked(t.Context(), recs)
		must(t, err)
		cfg, text := suggestedFor(t, c, topic)
		if said := strings.Contains(text, `The clock of series "s3" is about`); said != (fast == 1) || cfg.Detect.Silence == 0 != said {
			t.Errorf("fast %d, silence %v of\n%s", fast, cfg.Detect.Silence, text)
		}
	}
}

// TestSuggestOutFirst: that the file cannot be written is said before a record is read.
func TestSuggestOutFirst(t *testing.T) {
	there := filepath.Join(t.TempDir(), "there.yaml")
	must(t, os.WriteFile(there, nil, 0o600))
	for out, want := range map[string]string{there: "exists", filepath.Join(there, "in-a-file.yaml"): "cannot be written",
		filepath.Join(filepath.Dir(there), "absent", "plant.yaml"): "cannot be written"} {
		term, _, errs := console("ODRADEK_KAFKA_BROKERS=127.0.0.1:1") // no broker is there
		if code := term.suggest(t.Context(), []string{"-topic", "t", "-out", out}); code != exitFailed ||
			!strings.Contains(errs.String(), want) ||
			strings.Contains(errs.String(), "127.0.0.1") {
			t.Errorf("%s: exit %d: %s", out, code, errs)
		}
	}
	out := filepath.Join(filepath.Dir(there), "new.yaml")
	must(t, mayWrite(out))
	if files, _ := filepath.Glob(filepath.Join(filepath.Dir(there), "*")); len(files) != 1 {
		t.Errorf("a look at the folder leaves %q", files)
	}
}

// TestSuggestTimes: numbers that are times are no values, though they do not advance with the records or are in a part of them only.
func TestSuggestTimes(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "times", 1)
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	_, err := c.ProduceAcked(t.Context(), lines(topic, 1200, func(i int) (string, string) {
		back := time.Duration(i*7919%86400) * time.Second // no order
		part := ""
		if i%3 != 0 {
			part = fmt.Sprintf(`,"serviced":%d`, start.Add(-back).UnixMilli())
		}
		return fmt.Sprint("m-", i%4), fmt.Sprintf(`{"machine":"m-%d","at":%d,"calibrated":%d,"next_due":%d.5,"load":%d,"v":%v%s}`, i%4,
			start.Add(time.Duration(i)*time.Second).UnixMilli(), start.Add(-2*back).UnixMilli(), start.Add(-back).Unix(),
			1_700_000_000+i*7919%1_000_003, wave(i), part)
	}))
	must(t, err)
	cfg, text := suggestedFor(t, c, topic)
	fields := slices.Concat(cfg.Mapping.ValueFields, cfg.Mapping.SeriesFields)
	slices.Sort(fields)
	if cfg.Mapping.TimeField != "at" || strings.Join(fields, ",") != "load,v" {
		t.Errorf("time %q, values %q of\n%s", cfg.Mapping.TimeField, fields, text)
	}
}

// TestSuggestDuplicates: samples that are sent again are found where others of the series came between, and where they are few; samples
// of one time with other values are no duplicates.
func TestSuggestDuplicates(t *testing.T) {
	ownBrokers(t)
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	row := func(i int, v float64) string {
		return fmt.Sprintf(`{"machine":"m-%d","at":%d,"v":%v}`, i%2, start.Add(time.Duration(i)*time.Second).UnixMilli(), v)
	}
	for name, x := range map[string]struct {
		again func(i int) (value string, ok bool)
		want  string
	}{
		"ten later":  {func(i int) (string, bool) { return row(i-10, wave(i-10)), i > 10 && i%200 == 0 }, "drop"},
		"at once":    {func(i int) (string, bool) { return row(i, wave(i)), i%50 == 1 }, "drop"},
		"corrected":  {func(i int) (string, bool) { return row(i, wave(i)+1), i%50 == 1 }, "keep"},
		"none":       {func(int) (string, bool) { return "", false }, "keep"},
		"one in all": {func(i int) (string, bool) { return row(i-2, wave(i-2)), i == 1000 }, "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "again", 1)
			var values []string
			for i := range 2400 {
				values = append(values, row(i, wave(i)))
				if v, ok := x.again(i); ok {
					values = append(values, v)
				}
			}
			_, err := c.ProduceAcked(t.Context(), lines(topic, len(values), func(i int) (string, string) { return "k", values[i] }))
			must(t, err)
			if cfg, text := suggestedFor(t, c, topic); cfg.Mapping.Duplicates != x.want || cfg.Keys.Lateness != 0 {
				t.Errorf("duplicates %q, lateness %v; want %q, of\n%s", cfg.Mapping.Duplicates, cfg.Keys.Lateness, x.want, text)
			}
		})
	}
}
