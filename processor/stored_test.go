package processor

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/processor/state/changelog"
)

var update = flag.Bool("update", false, "write what a worker stores anew")

// stored is what a worker has left on the brokers at the end of a transaction, and its state then, as Export has it.
type stored struct {
	Input, Changelog []storedRecord
	Offset           int64
	Metadata         string // of the committed offset: the replay floor and the owner
	State            []byte
}

type storedRecord struct {
	Time       int64
	Key, Value []byte
}

const (
	storedTopic = "stored"
	storedFirst = 250 // records whose state is in the changelog
	storedAll   = 400 // records that are committed
)

// storedBench has the topics of the fixture: their names are in what is stored.
func storedBench(t *testing.T) (*bench, Config) {
	b := newBench(t, 1)
	b.input = storedTopic
	for _, name := range []string{storedTopic, "anomalies", "g-" + storedTopic + "-changelog"} {
		if err := b.client.Admin.CreateTopic(t.Context(), name, 1, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	cfg := b.config("")
	cfg.ReplayLimit = time.Minute
	cfg.Outputs[cycle.Anomalies] = "anomalies"
	params := threshold.New(threshold.Quantile, 0.9)
	params.History = 32
	d := &cfg.Mappings.State.Detectors[0]
	d.Threshold, d.Events = &params, &anomaly.Policy{OpenAfter: 1, CloseAfter: 2, Release: 1, UpdateEvery: 3}
	cfg.Mappings.Settings = []StateSettings{{Detector: d.Name, Window: 1, Params: 2,
		Fields: []StoredSetting{{Name: "value_fields", Value: "value"}}, Op: []StoredSetting{{Name: "window", Value: "8"}}}}
	return b, cfg
}

// TestStoredState: a worker restores what an earlier build with the same number of the stored format has left on the brokers, its
// changelog, its offset and the input to replay, to the same state. -update writes the fixture of a new number.
func TestStoredState(t *testing.T) {
	file := fmt.Sprintf("testdata/stored-%d.json", changelog.Version)
	if *update {
		writeStored(t, file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the stored format has number %d, and %s is missing: write it with -update in the commit that raises the number: %v",
			changelog.Version, file, err)
	}
	var was stored
	if err := json.Unmarshal(text, &was); err != nil {
		t.Fatal(err)
	}
	floor, err := state.ParseFloor(was.Metadata)
	if err != nil || floor.Offset <= 0 || floor.Offset >= was.Offset {
		t.Fatalf("floor %+v of offset %d: %v", floor, was.Offset, err)
	}
	b, cfg := storedBench(t)
	for topic, list := range map[string][]storedRecord{storedTopic: was.Input, cfg.Changelog(storedTopic): was.Changelog} {
		var records []kafkatest.Record
		for _, r := range list {
			records = append(records, kafkatest.Record{Topic: topic, Key: r.Key, Value: r.Value, Time: r.Time})
		}
		if err := b.c.Admin().ProduceBatch(t.Context(), topic, 0, records); err != nil {
			t.Fatal(err)
		}
	}
	tp := kafkatest.TP{Topic: storedTopic}
	if err := b.c.Admin().SetOffsets(t.Context(), cfg.Group, map[kafkatest.TP]kafkatest.Committed{tp: {Offset: was.Offset,
		Metadata: was.Metadata}}); err != nil {
		t.Fatal(err)
	}
	var got []byte
	var mu sync.Mutex
	cfg.export = func(_ kafka.TP, restored bool, offset int64, s []byte) {
		mu.Lock()
		defer mu.Unlock()
		if restored && offset == was.Offset {
			got = slices.Clone(s)
		}
	}
	b.run(cfg)
	if !bytes.Equal(got, was.State) {
		t.Errorf("%s is restored to a state of %d bytes, and was one of %d: this build reads format %d otherwise than the one that wrote it. "+
			"Raise changelog.Version, or read it as before", file, len(got), len(was.State), changelog.Version)
	}
}

// writeStored runs a worker on the first records and drains it, which writes their state, and a second one on the others. It writes what
// they have stored when the second has committed its records.
func writeStored(t *testing.T, file string) {
	b, cfg := storedBench(t)
	b.produceTo(0, storedFirst)
	b.run(cfg)
	b.produceTo(0, storedAll-storedFirst)
	var s stored
	left := storedAll - storedFirst
	cfg.Hooks.Step = func(step Step, records int) {
		if step != AfterEnd || left == 0 {
			return
		}
		if left -= records; left > 0 {
			return
		}
		offsets, err := b.c.Admin().Offsets(t.Context(), cfg.Group, true)
		if err != nil {
			t.Error(err)
		}
		at := offsets[kafkatest.TP{Topic: storedTopic}]
		s.Offset, s.Metadata = at.Offset, at.Metadata
		for topic, list := range map[string]*[]storedRecord{storedTopic: &s.Input, cfg.Changelog(storedTopic): &s.Changelog} {
			records, err := b.c.Admin().ReadAll(t.Context(), topic, true)
			if err != nil {
				t.Error(err)
			}
			for _, r := range records {
				*list = append(*list, storedRecord{r.Time, r.Key, r.Value})
			}
		}
	}
	cfg.export = func(_ kafka.TP, restored bool, offset int64, state []byte) {
		if !restored && offset == storedAll {
			s.State = slices.Clone(state)
		}
	}
	b.run(cfg)
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
