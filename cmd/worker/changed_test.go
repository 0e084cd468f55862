package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor"
	"odradek/processor/kafkatest"
)

// lines returns the lines of the worker's log that have the text.
func (c *child) lines(text string) (list []string) {
	b, _ := os.ReadFile(c.log)
	for line := range strings.SplitSeq(string(b), "\n") {
		if strings.Contains(line, text) {
			list = append(list, line)
		}
	}
	return list
}

// TestChangedSetting: a start that is refused because of a changed setting names the
// setting, its value then and now; with ODRADEK_STATE_MISMATCH=reset one line a
// partition says what was emptied and why. Of state without a settings record,
// the settings that it may be are named.
func TestChangedSetting(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	rng := seedtest.New(t)
	ctx := context.Background()
	const partitions = 2
	input := c.Topic(t, "in", partitions)
	m := newMeasurements(t, c.RegistryURL(t), input)
	f := newFleet(t, c, input, input+"-g", "INSTANCE_ID=one")
	some := func() []kafkatest.Record { return walk(t, m, input, rng, 6, 400) }
	refused := func(name string, env []string, want ...string) {
		t.Helper()
		w := f.start(name, env...)
		if code := w.exit(t); code != exitRefused {
			t.Errorf("%s: exit code %d, want %d", name, code, exitRefused)
		}
		end := strings.Join(w.lines("worker ended"), "")
		for _, text := range append(want, "ODRADEK_STATE_MISMATCH=reset") {
			if !strings.Contains(end, text) {
				t.Errorf("%s: the last line lacks %q:\n%s", name, text, end)
			}
		}
		if strings.Contains(end, "sensor-0") {
			t.Errorf("%s: the last line has a series key:\n%s", name, end)
		}
	}
	f.add(some(), "first")
	refused("key", []string{"KEY_FIELD=@key"}, "ODRADEK_KEY_FIELD was sensor and is @key (state of detector change, detector level)")
	refused("time", []string{"TIME_FIELD=@timestamp", "TIME_UNIT=us"},
		"ODRADEK_TIME_FIELD was time and is @timestamp, ODRADEK_TIME_UNIT was auto and is us")
	refused("values", []string{"VALUE_FIELDS=value,site.hall"}, "ODRADEK_VALUE_FIELDS was value and is value,site.hall")
	refused("fields", []string{"VALUE_FIELDS=value,site.hall", "DETECTOR_CHANGE_FIELDS=value", "DETECTOR_LEVEL_FIELDS=site.hall"},
		"ODRADEK_DETECTOR_LEVEL_FIELDS was value and is site.hall (state of detector level)")
	refused("parameter", []string{"DETECTOR_CHANGE_RANK=2"}, "ODRADEK_DETECTOR_CHANGE_RANK was 3 and is 2 (state of detector change)")

	w := f.add(some(), "reset", "KEY_FIELD=@key", "STATE_MISMATCH=reset")
	emptied := w.lines("is emptied")
	if len(emptied) != partitions {
		t.Errorf("%d lines say what was emptied, want one for each of %d partitions:\n%s", len(emptied), partitions, strings.Join(emptied, "\n"))
	}
	for _, line := range emptied {
		for _, text := range []string{"level=WARN", "ODRADEK_STATE_MISMATCH=reset", "window, scores and thresholds of detector change of ",
			" series", "ODRADEK_KEY_FIELD was sensor and is @key"} {
			if !strings.Contains(line, text) {
				t.Errorf("the line lacks %q:\n%s", text, line)
			}
		}
		if strings.Contains(line, "sensor-0") {
			t.Errorf("the line has a series key:\n%s", line)
		}
	}
	w = f.add(some(), "same", "KEY_FIELD=@key", "STATE_MISMATCH=reset")
	if emptied := w.lines("is emptied"); len(emptied) > 0 {
		t.Errorf("nothing was changed, and the log says\n%s", strings.Join(emptied, "\n"))
	}

	for p := range int32(partitions) {
		_, err := c.ProduceAcked(ctx, []kafkatest.Record{{Topic: config.ChangelogName(config.ChangelogPrefix(f.group), input), Partition: p,
			Key: []byte(processor.SettingsKey)}})
		must(t, err)
	}
	refused("no record", []string{"TIME_UNIT=s"},
		"one of ODRADEK_KEY_FIELD=sensor, ODRADEK_TIME_FIELD=time, ODRADEK_TIME_UNIT=s, ODRADEK_VALUE_FIELDS=value had another value")
}
