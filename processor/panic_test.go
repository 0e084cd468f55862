package processor

import (
	"bytes"
	"context"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// explosive is a detector that panics where rows of a task are far apart, while it is armed.
type explosive struct {
	detectors.Detector
	armed *atomic.Bool
}

func (e explosive) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	for _, x := range r.X {
		if e.armed.Load() && math.Abs(float64(x)) > 1e9 {
			panic("the detector explodes")
		}
	}
	return e.Detector.AppendFindings(dst, r)
}

// TestPanicOfOnePartition: the fold of one of three partitions panics in the middle of a batch. The partition is
// quarantined, with the stack in one line of the log, and nothing of the chunk is committed; the others go on. While the
// defect is there the next owner does the same. Without it the partition is restored, and what is written in the end is
// what a worker without the defect writes.
func TestPanicOfOnePartition(t *testing.T) {
	for name, guarantee := range map[string]Guarantee{"exactly once": ExactlyOnce, "at least once": AtLeastOnce} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 3)
			var armed atomic.Bool
			armed.Store(true)
			var mu sync.Mutex
			states := map[string][]byte{}
			config := func(group string) Config {
				cfg := b.config("")
				cfg.Group, cfg.Guarantee, cfg.ReplayLimit = group, guarantee, time.Nanosecond
				cfg.Mappings.State.Detectors[0].Detector = explosive{cfg.Mappings.State.Detectors[0].Detector, &armed}
				cfg.Changelog = func(topic string) string { return group + "-" + topic + "-changelog" }
				cfg.export = func(tp kafka.TP, was bool, _ int64, state []byte) {
					mu.Lock()
					defer mu.Unlock()
					if !was {
						states[group+"/"+tp.String()] = state
					}
				}
				return cfg
			}
			b.produce(300)
			before, err := b.c.Admin().Ends(context.Background(), b.input, kafka.Latest)
			if err != nil {
				t.Fatal(err)
			}
			enc := output.NewReadingEncoder(-1, "plant", "mm")
			for range 40 {
				name := []byte("s00")
				rec := kafkatest.Record{Topic: b.input, Partition: 1, Key: name, Time: 1700000000000 + int64(b.n)*1000,
					Value: enc.Append(nil, name, 1700000000000000+int64(b.n)*1e6, []float64{0, 1e12}[b.n%2], int64(b.n))}
				if _, err := b.c.ProduceAcked(context.Background(), []kafkatest.Record{rec}); err != nil {
					t.Fatal(err)
				}
				b.n++
			}
			b.produce(90)
			for _, owner := range []string{"first", "second"} {
				cfg := config("g")
				log := cfg.capture()
				p, stop := b.start(cfg)
				waitFor(t, "a quarantine", func() bool { return len(quarantined(p)) > 0 })
				b.produceTo(0, 30)
				b.produceTo(2, 30)
				if err := b.waitCommittedBut("g", 1); err != nil {
					t.Errorf("%s owner: %v", owner, err)
				}
				if q := quarantined(p); len(q) != 1 || q[0].Partition != 1 || q[0].Quarantine.Reason != Panicked {
					t.Errorf("%s owner: in quarantine: %+v; want partition 1, panic", owner, q)
				}
				for _, s := range p.Status() {
					if s.Partition == 1 && s.Committed >= before[1]+40 {
						t.Errorf("%s owner: offset %d is committed, of the chunk that cannot be folded", owner, s.Committed)
					}
				}
				lines := log.with("level=ERROR")
				if len(lines) != 1 || !strings.Contains(lines[0], "AppendFindings") || !strings.Contains(lines[0], "the detector explodes") {
					t.Errorf("%s owner: lines of level ERROR: %q", owner, lines)
				}
				stop(nil)
			}
			armed.Store(false)
			b.run(config("g"))
			if guarantee == ExactlyOnce {
				b.ledger() // no score twice
			}
			if err := b.client.Admin.CreateTopic(context.Background(), "h-"+b.input+"-changelog", 3, 1, nil); err != nil {
				t.Fatal(err)
			}
			b.run(config("h"))
			for p := range int32(3) {
				at := "/" + kafka.TP{Topic: b.input, Partition: p}.String()
				if got, want := states["g"+at], states["h"+at]; len(want) == 0 || !bytes.Equal(got, want) {
					t.Errorf("partition %d: a state of %d bytes, another worker's has %d", p, len(got), len(want))
				}
			}
		})
	}
}
