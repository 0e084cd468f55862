package processor

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/schemas/output"
)

// scoreBlocks is a detector whose block are the bits of a task's scores, of every task
// but one in five.
type scoreBlocks struct{ detectors.Detector }

func (scoreBlocks) Block(r detectors.Rows) (mediaType string, block []byte) {
	bits := math.Float32bits(r.Scores[0])
	if bits%5 == 0 {
		return "", nil
	}
	return "text/plain", fmt.Appendf(nil, "%x", r.Scores)
}

// TestBlocks: blocks are in the transactions of their scores. Workers are killed and
// commits fail; each task's block is there once, under its series, beside its scores.
func TestBlocks(t *testing.T) {
	b := newBench(t, 2)
	if err := b.client.Admin.CreateTopic(t.Context(), "blocks", 3, 1, nil); err != nil {
		t.Fatal(err)
	}
	ends := 0
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		if ends++; ends%4 != 2 {
			return nil, nil, false
		}
		r := req.(*kmsg.EndTxnRequest)
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.OperationNotAttempted.Code
		return resp, nil, true
	})
	config := func() Config {
		cfg := b.config("one")
		cfg.Outputs[cycle.Blocks] = "blocks"
		d := &cfg.Mappings.State.Detectors[0]
		d.Detector = scoreBlocks{d.Detector}
		return cfg
	}
	for range 3 {
		b.produce(1500)
		cfg := config()
		_, stop := b.start(cfg)
		waitFor(t, "some of the input is committed", func() bool {
			return gathered(t, cfg.Metrics, "odradek_records_consumed_total") > 500
		})
		stop(errors.New("killed"))
	}
	b.run(config())
	scores := b.ledger()
	type place struct {
		key string
		at  int
	}
	series, places := map[string][]output.Score{}, map[[2]int64]place{}
	for part := range int64(2) {
		for offset := range int64(b.n) {
			s, ok := scores[[2]int64{part, offset}] // a task that is not full yet has none
			if key := string(s.Key); ok && s.State != output.WarmingUp {
				places[[2]int64{part, offset}] = place{key, len(series[key])}
				series[key] = append(series[key], s)
			}
		}
	}
	covered := map[place]bool{}
	partitions := map[string]int32{}
	for _, r := range b.read("blocks") {
		header := func(name string) string {
			v, _ := r.Header(name)
			return string(v)
		}
		part, _ := strconv.ParseInt(header("odradek.source.partition"), 10, 32)
		offset, err := strconv.ParseInt(header("odradek.source.offset"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		end, ok := places[[2]int64{part, offset}]
		if !ok || end.at < 2 || covered[end] {
			t.Errorf("a block of no task, or its second, for %s at %d/%d", r.Key, part, offset)
			continue
		}
		task, text := series[end.key][end.at-2:end.at+1], []float32{}
		for i := range task {
			covered[place{end.key, end.at - 2 + i}] = true
			text = append(text, float32(task[i].Score))
		}
		if got, want := string(r.Value), fmt.Sprintf("%x", text); got != want || string(r.Key) != end.key {
			t.Errorf("the block for %s at %d/%d is %q, the scores of %s are %q", r.Key, part, offset, got, end.key, want)
		}
		if p, ok := partitions[string(r.Key)]; ok && p != r.Partition {
			t.Errorf("%s has blocks in partitions %d and %d", r.Key, p, r.Partition)
		}
		partitions[string(r.Key)] = r.Partition
		if until := strconv.FormatInt(task[2].EventTime, 10); header("odradek.to") != until || header("odradek.detector") != "level" ||
			header("content-type") != "text/plain" || len(header("odradek.from")) != len(until) || header("odradek.from") >= until {
			t.Errorf("headers %v, where the task ends at %s", r.Headers, until)
		}
	}
	without := 0
	for key, list := range series {
		for i := 0; i+3 <= len(list); i += 3 {
			if covered[place{key, i}] {
				continue
			}
			if without++; math.Float32bits(float32(list[i].Score))%5 != 0 {
				t.Errorf("the task of %s at offset %d has no block", key, list[i+2].Offset)
			}
		}
	}
	if without == 0 || len(partitions) < 10 {
		t.Errorf("%d tasks without a block; there are blocks of %d series", without, len(partitions))
	}
}

// TestBlocksTopicTooSmall: a topic that does not hold the largest block stops the
// start, not a partition later.
func TestBlocksTopicTooSmall(t *testing.T) {
	b := newBench(t, 1)
	if err := b.client.Admin.CreateTopic(t.Context(), "blocks", 1, 1, map[string]string{"max.message.bytes": "200000"}); err != nil {
		t.Fatal(err)
	}
	cfg := b.config("one")
	cfg.Outputs[cycle.Blocks] = "blocks"
	if p, err := New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "blocks_topic") {
		t.Errorf("New gives %v, %v", p, err)
	}
}
