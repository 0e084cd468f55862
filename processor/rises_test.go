package processor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/detectors/simple"
	"odradek/detectors/threshold"
	"odradek/processor/kafkatest"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// TestRiseIsLogged: thresholds of two series rise tenfold. The metric has both, and the log one line, which names the first series by
// its digest. The next worker, which replays all of it, neither counts nor logs them again.
func TestRiseIsLogged(t *testing.T) {
	b := newBench(t, 1)
	enc := output.NewReadingEncoder(-1, "plant", "mm")
	produce := func(n int, value float64) {
		t.Helper()
		var recs []kafkatest.Record
		for range n {
			for _, key := range []string{"Xyzzy-1", "Xyzzy-2"} {
				at := 1700000000000 + int64(b.n)*1000
				recs = append(recs, kafkatest.Record{Topic: b.input, Key: []byte(key), Time: at,
					Value: enc.Append(nil, []byte(key), at*1000, value, int64(b.n))})
				b.n++
			}
		}
		if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
	}
	value, err := simple.NewValue(1, false)
	if err != nil {
		t.Fatal(err)
	}
	configure := func() Config {
		cfg := b.config("one")
		d := &cfg.Mappings.State.Detectors[0]
		d.Detector, d.Stride = value, 1
		d.Threshold = &threshold.Params{Kind: threshold.Mean, Value: 2, History: 64, Warmup: 10}
		cfg.ReplayLimit = time.Hour
		return cfg
	}
	cfg := configure()
	l := cfg.capture()
	produce(50, 1)
	produce(50, 80)
	p, stop := b.start(cfg)
	b.committed(p, int64(b.n))
	stop(errors.New("killed"))
	lines := l.with("INFO", "risen tenfold")
	if n := gathered(t, cfg.Metrics, "odradek_threshold_rises_total"); n != 2 || len(lines) != 1 {
		t.Fatalf("%v rises, the log says %q", n, lines)
	}
	for _, want := range []string{"detector=level", "series=" + state.Digest([]byte("Xyzzy-1")), "from=2 ", "topic=" + b.input, "partition=0",
		"others=0"} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q is not in %q", want, lines[0])
		}
	}
	if lines := l.with("Xyzzy"); len(lines) > 0 {
		t.Errorf("the log names a series: %q", lines)
	}
	produce(10, 80)
	cfg = configure()
	l = cfg.capture()
	b.run(cfg)
	if n := gathered(t, cfg.Metrics, "odradek_threshold_rises_total"); n != 0 || len(l.with("risen")) > 0 {
		t.Errorf("after a restart %v rises, the log says %q", n, l.with("risen"))
	}
	if fmt.Sprint(l.with("restored")) == "[]" {
		t.Error("nothing was restored")
	}
}
