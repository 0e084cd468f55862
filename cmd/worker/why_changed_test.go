package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/why"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestWhyChanged: anomalies from before a change of settings are explained by the earlier settings, which the changelog
// has recorded, and by the threshold in their records.
func TestWhyChanged(t *testing.T) {
	near := []string{"DETECTORS=near,level", "DETECTOR_NEAR_OP=knn", "DETECTOR_NEAR_WINDOW=24", "DETECTOR_NEAR_K=3",
		"DETECTOR_NEAR_MIN_POINTS=12",
		"DETECTOR_NEAR_THRESHOLD=fixed:9", "DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=16", "DETECTOR_LEVEL_THRESHOLD=fixed:4",
		"FORMAT=json", "KEY_FIELD=machine", "TIME_FIELD=at", "MAX_FUTURE=0s", "MAX_JUMP=0s", "EXECUTOR=cpu"}
	load := append(slices.Clone(near), "VALUE_FIELDS=sensors.load,sensors.speed")
	each := append(slices.Clone(near), "SERIES_FIELDS=sensors.load,sensors.speed")
	for name, c := range map[string]struct {
		first, then []string
		notes       map[string]string // by detector, of an anomaly under the first settings
	}{
		"window": {load, []string{"DETECTOR_LEVEL_WINDOW=31", "STATE_MISMATCH=reset"},
			map[string]string{"level": "the change: ODRADEK_DETECTOR_LEVEL_WINDOW was 16 and is 31", "near": ""}},
		"k": {load, []string{"DETECTOR_NEAR_K=5", "STATE_MISMATCH=reset"},
			map[string]string{"near": "the change: ODRADEK_DETECTOR_NEAR_K was 3 and is 5", "level": ""}},
		"op": {load, []string{"DETECTOR_LEVEL_OP=flatline", "DETECTOR_LEVEL_SMOOTH=2", "STATE_MISMATCH=reset"},
			map[string]string{"level": "ODRADEK_DETECTOR_LEVEL_OP was zscore and is flatline", "near": ""}},
		"threshold": {load, []string{"DETECTOR_LEVEL_THRESHOLD=fixed:3.5"},
			map[string]string{"level": "the published threshold is 4, and these settings give 3.5", "near": ""}},
		"threshold, no anomaly now": {load, []string{"DETECTOR_LEVEL_THRESHOLD=fixed:1000"},
			map[string]string{"level": "the published threshold is 4, and these settings give 1000", "near": ""}},
		"fields": {load, []string{"VALUE_FIELDS=sensors.vibration,sensors.temperature", "DETECTOR_LEVEL_FIELDS=sensors.temperature",
			"STATE_MISMATCH=reset"}, map[string]string{"level": "was sensors.load,sensors.speed and is sensors.temperature",
			"near": "is sensors.vibration,sensors.temperature"}},
		"a series less": {each, []string{"SERIES_FIELDS=sensors.speed"},
			map[string]string{"level/load": "the change: ODRADEK_SERIES_FIELDS has no sensors.load any more", "level/speed": ""}},
		"series to values": {each, []string{"SERIES_FIELDS=", "VALUE_FIELDS=sensors.load,sensors.speed", "STATE_LOST=reset"},
			map[string]string{"level/load": "ODRADEK_SERIES_FIELDS was \"each a series\" and is not there", "near/speed": "is not there"}},
		"values to series": {load, []string{"VALUE_FIELDS=value", "SERIES_FIELDS=sensors.load,sensors.speed", "STATE_LOST=reset"},
			map[string]string{"level": "ODRADEK_SERIES_FIELDS is \"each a series\" and was not there", "near": "was not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := kafkatest.Open(t, kafkatest.KindFake)
			input := k.Topic(t, "in", 2)
			f := newFleet(t, k, input, input+"-g", c.first...)
			g := newWideInput(seedtest.New(t))
			batch := func() (recs []kafkatest.Record) {
				for range 900 {
					machine, at, values := g.next()
					if values[3] == "" {
						values[3] = "null"
					}
					recs = append(recs, wideRecord(input, machine, at, values))
				}
				return recs
			}
			f.add(batch(), "first")
			old := publishedAnomalies(t, k, f.group+"-anomalies")
			f.add(batch(), "then", c.then...)
			environ := f.settings(c.then...)
			for source, want := range c.notes {
				detector, suffix, _ := strings.Cut(source, "/")
				var a *output.Anomaly
				for i := range old[detector] {
					if strings.HasSuffix(string(old[detector][i].Key), suffix) {
						a = &old[detector][i]
					}
				}
				if a == nil {
					t.Errorf("no anomaly of %s", source)
					continue
				}
				r, code, errs := runWhy(t, environ, idOf(a))
				notes := strings.Join(r.Notes, "; ")
				if code != exitOK || r.Verdict != why.Equal || !strings.Contains(notes, want) || want == "" && notes != "" {
					t.Errorf("%s: exit %d, verdict %q, notes %q, %s; want %q", source, code, r.Verdict, notes, errs, want)
				}
			}
		})
	}
}

// TestWhyNotRecorded: where the earlier settings are not recorded, or cannot be rebuilt, why says so in a note.
func TestWhyNotRecorded(t *testing.T) {
	k := kafkatest.Open(t, kafkatest.KindFake)
	input := k.Topic(t, "in", 1)
	settings := append(slices.Clone(batchSettings), "MAX_JUMP=0s", "MAX_FUTURE=0s", "EXECUTOR=cpu")
	f := newFleet(t, k, input, input+"-g", settings...)
	g := newBatchInput(seedtest.New(t))
	var recs []kafkatest.Record
	for range 900 {
		machine, readings := g.next()
		r := batchRecord(input, machine, readings)
		r.Partition = 0
		recs = append(recs, r)
	}
	f.add(recs, "only")
	list := publishedAnomalies(t, k, f.group+"-anomalies")["level"]
	if len(list) == 0 {
		t.Fatal("no anomaly of level")
	}
	id := idOf(&list[len(list)-1])
	is := func(want string, verdict string, more ...string) {
		t.Helper()
		r, _, errs := runWhy(t, append(f.settings(), more...), id)
		if notes := strings.Join(r.Notes, "; "); r.Verdict != verdict || !strings.Contains(notes, want) {
			t.Errorf("%v: verdict %q, notes %q, %s; want %q", more, r.Verdict, notes, errs, want)
		}
	}
	// The command has other settings than the workers had.
	is("the change: ODRADEK_DETECTOR_LEVEL_WINDOW was 12 and is 40", why.Equal, "ODRADEK_DETECTOR_LEVEL_WINDOW=40")
	is("but they do not fit the other present settings: ", why.Differ, "ODRADEK_DETECTOR_LEVEL_OP=lof", "ODRADEK_DETECTOR_LEVEL_BINS=8",
		"ODRADEK_DETECTOR_LEVEL_WINDOW=40")
	// A score that no settings give.
	altered := list[len(list)-1]
	altered.PeakScore = float64(math.Nextafter32(float32(altered.PeakScore*1.5), 0))
	topic := input + "-altered"
	enc := output.NewAnomalyEncoder(output.SingleObject, altered.Topic, altered.Partition)
	must(t, k.Admin().CreateTopic(t.Context(), topic, 1, 0, nil))
	must(t, k.Admin().ProduceBatch(t.Context(), topic, 0, []kafkatest.Record{{Topic: topic, Key: altered.Key,
		Value: enc.Append(nil, &altered)}}))
	for _, c := range []struct{ setting, want string }{
		{"ODRADEK_MISSING=skip", "has recorded no other window, parameters or mapping for level"},
		{"ODRADEK_DETECTOR_LEVEL_WINDOW=40", "but they do not give the published score either"},
	} {
		r, code, errs := runWhy(t, append(f.settings(), c.setting), id, "-topic", topic)
		if notes := strings.Join(r.Notes, "; "); code != exitFailed || r.Verdict != why.Differ || !strings.Contains(notes, c.want) {
			t.Errorf("%s: exit %d, verdict %q, notes %q, %s", c.setting, code, r.Verdict, notes, errs)
		}
	}
	must(t, k.Admin().DeleteTopic(t.Context(), f.group+"--"+input+"-changelog"))
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		r, _, _ := runWhy(t, append(f.settings(), "ODRADEK_DETECTOR_LEVEL_WINDOW=40"), id)
		notes := strings.Join(r.Notes, "; ")
		if strings.Contains(notes, "the earlier settings of level are not known: ") && r.Verdict == why.Differ {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("without a changelog: verdict %q, notes %q", r.Verdict, notes)
		}
	}
}
