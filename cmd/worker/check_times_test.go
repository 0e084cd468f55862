package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestCheckEventTimes: check --online warns of event times in another unit, and by a clock
// that is an hour off, with what helps; it is content with good ones.
func TestCheckEventTimes(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	now := time.Now().Add(-2 * time.Hour)
	for name, tt := range map[string]struct {
		time func(at time.Time) string
		want []string
	}{
		"good":    {func(at time.Time) string { return fmt.Sprint(at.UnixMilli()) }, []string{"40 checked, all can be read"}},
		"seconds": {func(at time.Time) string { return fmt.Sprint(at.Unix()) }, []string{"in s instead of ms", "set ODRADEK_TIME_UNIT=s"}},
		"fraction": {func(at time.Time) string { return fmt.Sprintf("%.3f", float64(at.UnixMilli())/1000) },
			[]string{"set ODRADEK_TIME_UNIT=s"}},
		"hour behind": {func(at time.Time) string { return fmt.Sprint(at.Add(-time.Hour).UnixMilli()) }, []string{"1h0m0s behind", "time zone"}},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "times", 2)
			var recs []kafkatest.Record
			for i := range 40 {
				at := now.Add(time.Duration(i) * time.Second)
				recs = append(recs, kafkatest.Record{Topic: topic, Partition: int32(i % 2), Key: fmt.Appendf(nil, "s%d", i%2), Time: at.UnixMilli(),
					Value: fmt.Appendf(nil, `{"sensor":"s%d","at":%s,"value":%d}`, i%2, tt.time(at), i)})
			}
			if _, err := c.ProduceAcked(t.Context(), recs); err != nil {
				t.Fatal(err)
			}
			code, out := runCheck(t, []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=" + topic + "-g",
				"ODRADEK_TOPICS=" + topic, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=value",
				"ODRADEK_REPLICATION=1"})
			if code != exitOK {
				t.Errorf("exit %d\n%s", code, out)
			}
			for _, w := range tt.want {
				if !strings.Contains(out, w) {
					t.Errorf("lacks %q\n%s", w, out)
				}
			}
			if name == "good" && strings.Contains(out, "TIME_UNIT") {
				t.Errorf("good times are warned of\n%s", out)
			}
		})
	}
}

// TestCheckNamesReading: check --online names the settings that read what cannot be read as it is.
func TestCheckNamesReading(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	for name, tt := range map[string]struct{ record, want string }{
		"numbers in quotes": {`{"sensor":"s","at":1772323200000,"value":"7.5"}`,
			"ODRADEK_KEY_FIELD, _TIME_FIELD or _VALUE_FIELDS; _TEXT_VALUES=number"},
		"decimals":           {`{"sensor":"s","at":1772323200000,"value":"AfQ="}`, "_DECIMALS decimals in base64"},
		"times without zone": {`{"sensor":"s","at":"2026-03-01 00:00:00","value":7.5}`, "texts without an offset need _TIME_ZONE"},
	} {
		topic := c.Topic(t, "reading", 1)
		var recs []kafkatest.Record
		for i := range 40 {
			recs = append(recs, kafkatest.Record{Topic: topic, Key: []byte("s"), Time: 1772323200000 + int64(i), Value: []byte(tt.record)})
		}
		_, err := c.ProduceAcked(t.Context(), recs)
		must(t, err)
		code, out := runCheck(t, []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=" + topic + "-g",
			"ODRADEK_TOPICS=" + topic, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=value",
			"ODRADEK_REPLICATION=1"})
		if code != exitFailed || !strings.Contains(out, tt.want) {
			t.Errorf("%s: exit %d, want %q of\n%s", name, code, tt.want, out)
		}
	}
}

// TestCheckNamesAFastClock: of five series of a partition the clock of one is five minutes ahead.
func TestCheckNamesAFastClock(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	for fast := range 2 {
		topic := c.Topic(t, "clocks", 1)
		now := time.Now().Add(-time.Hour)
		var recs []kafkatest.Record
		for i := range 60 {
			sent := now.Add(time.Duration(i) * time.Second)
			at := sent
			if i%5 == 3 {
				at = at.Add(time.Duration(fast) * 5 * time.Minute)
			}
			recs = append(recs, kafkatest.Record{Topic: topic, Key: fmt.Appendf(nil, "s%d", i%5), Time: sent.UnixMilli(),
				Value: fmt.Appendf(nil, `{"at":%d,"value":%d}`, at.UnixMilli(), i)})
		}
		if _, err := c.ProduceAcked(t.Context(), recs); err != nil {
			t.Fatal(err)
		}
		code, out := runCheck(t, []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=" + topic + "-g",
			"ODRADEK_TOPICS=" + topic, "ODRADEK_FORMAT=json", "ODRADEK_TIME_FIELD=at", "ODRADEK_REPLICATION=1", "ODRADEK_LATENESS=10s"})
		if code != exitOK || !strings.Contains(out, "series: a sample is late if it is more than 10s older than the newest of its series") ||
			strings.Contains(out, `the clock of series "s3" is about 4m5`) != (fast == 1) {
			t.Errorf("exit %d, fast %d\n%s", code, fast, out)
		}
	}
}
