package main

import (
	"fmt"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

// TestCheckScores: check says whether some series will have a score. That each record can be read is not enough: none may have all
// values of a detector, each may be of a series of its own, or all may be dead letters for their times.
func TestCheckScores(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	at := func(i int) int64 { return lines("", i+1, func(int) (string, string) { return "", "" })[i].Time }
	for name, x := range map[string]struct {
		n        int
		value    func(i int) string
		settings []string
		want     string // of a fault; "" for none
		ok       string
	}{
		"scored": {n: 800, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":%v,"press":%v}`, i%2, at(i), wave(i), wave(i+7))
		}, ok: "the first is among"},
		"alternate fields": {n: 800, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,%q:%v}`, i/2%2, at(i), []string{"temp", "press"}[i%2], wave(i))
		}, want: "none of 800 samples of 2 series has all values of a detector, so there will be none: " +
			"temp in 400, press in 400, all together in 0"},
		"alternate fields after a whole record, repeated": {n: 800, value: func(i int) string {
			if i < 4 {
				return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":1,"press":2}`, i/2%2, at(i))
			}
			return fmt.Sprintf(`{"id":"p%d","t":%d,%q:%v}`, i/2%2, at(i), []string{"temp", "press"}[i%2], wave(i))
		}, settings: []string{"ODRADEK_MISSING=hold"}, ok: "the first is among"},
		"alternate fields, a detector of one": {n: 800, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,%q:%v}`, i/2%2, at(i), []string{"temp", "press"}[i%2], wave(i))
		}, settings: []string{"ODRADEK_DETECTOR_Z_FIELDS=temp"}, ok: "the first is among"},
		"alternate fields, a detector of one and one of both": {n: 800, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,%q:%v}`, i/2%2, at(i), []string{"temp", "press"}[i%2], wave(i))
		}, settings: []string{"ODRADEK_DETECTORS=y,z", "ODRADEK_DETECTOR_Y_OP=zscore"},
			ok: "has all values of detector z, which will have no score: temp in "},
		"unique keys": {n: 400, value: func(i int) string {
			return fmt.Sprintf(`{"id":"order-%d","t":%d,"temp":%v,"press":1}`, i, at(i), wave(i))
		}, want: "each of 400 samples is of a series of its own"},
		"unique keys, a method that scores the first sample": {n: 400, value: func(i int) string {
			return fmt.Sprintf(`{"id":"order-%d","t":%d,"temp":%v,"press":1}`, i, at(i), wave(i))
		}, settings: []string{"ODRADEK_DETECTOR_Z_OP=flatline", "ODRADEK_DETECTOR_Z_FIELDS=temp"},
			want: "each of 400 samples is of a series of its own"},
		"no detector": {n: 400, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":%v,"press":1}`, i%2, at(i), wave(i))
		}, settings: []string{"ODRADEK_DETECTOR_Z_KEYS=fan-*"}, want: "none of 400 samples of 2 series is read by a detector"},
		"young": {n: 40, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":%v,"press":1}`, i%2, at(i), wave(i))
		}, ok: "none yet of all 40 samples of 2 series: the nearest lacks"},
		"held": {n: 40, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":%v,"press":1}`, i%2, at(i), wave(i))
		}, settings: []string{"ODRADEK_LATENESS=1h"}, ok: "none yet of all 40"},
		"the future": {n: 40, value: func(i int) string {
			return fmt.Sprintf(`{"id":"p%d","t":%d,"temp":%v,"press":1}`, i%2, at(i)+4e9, wave(i))
		}, want: "25 of 25 have an event time more than"},
	} {
		t.Run(name, func(t *testing.T) {
			topic := c.Topic(t, "in", 1)
			_, err := c.ProduceAcked(t.Context(), lines(topic, x.n, func(i int) (string, string) {
				v := x.value(i)
				return strings.Split(v, `"`)[3], v
			}))
			must(t, err)
			code, out := runCheck(t, append([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=" + topic,
				"ODRADEK_TOPICS=" + topic, "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id", "ODRADEK_TIME_FIELD=t", "ODRADEK_TIME_UNIT=ms",
				"ODRADEK_VALUE_FIELDS=temp,press", "ODRADEK_DETECTORS=z", "ODRADEK_DETECTOR_Z_OP=knn", "ODRADEK_DETECTOR_Z_WINDOW=64",
				"ODRADEK_MAX_KEYS=100000",
				"ODRADEK_OUTPUT_FORMAT=json"}, x.settings...))
			fault := ""
			for _, line := range strings.Split(out, "\n") {
				if strings.HasPrefix(line, "fault") {
					fault += line + "\n"
				}
			}
			if want := map[bool]int{true: exitFailed, false: exitOK}[x.want != ""]; code != want || !strings.Contains(fault, x.want) ||
				x.ok != "" && !strings.Contains(out, x.ok) {
				t.Errorf("exit %d, want fault %q or %q:\n%s", code, x.want, x.ok, out)
			}
		})
	}
}
