package size

import (
	"fmt"
	"math"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/simple"
	"odradek/processor/cycle"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

func options(t *testing.T, window int) *Options {
	t.Helper()
	det, err := simple.NewZScore(window)
	if err != nil {
		t.Fatal(err)
	}
	exec := detectors.NewCPU(1)
	t.Cleanup(func() { exec.Close() })
	return &Options{
		State: &state.Config{Dim: 1, Windows: []series.WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
			Detectors: []series.DetectorConfig{{Name: "level", Detector: det, Stride: 1, Fingerprint: 1}}},
		Executor: exec, Topic: "in", Key: "line-1/press-000001", Series: 2000, Rate: 1, Outputs: cycle.TopicNames{cycle.Scores: "scores"},
		BatchBytes: 1_000_000, Commit: 50 * time.Millisecond, Replay: 30 * time.Second,
		Chunk: 8192, Memory: 1 << 28,
	}
}

// TestCosts compares the costs of copies, which are restored from the changelog of one series, with the costs of series that were run.
func TestCosts(t *testing.T) {
	for _, window := range []int{8, 256} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			o := options(t, window)
			got, err := Measure(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if got.Series < 500 || !got.Full {
				t.Fatalf("%+v", got)
			}
			names := make([][]byte, got.Series)
			for i := range names {
				names[i] = nameOf(o.Key, i)
			}
			p := newPartition(o, names)
			defer p.close()
			p.state.Mark(0)
			p.state.Committed(0)
			for int(p.step) < window+32 {
				if err := p.cycle(t.Context(), len(names), math.MaxInt64, 0); err != nil {
					t.Fatal(err)
				}
			}
			own, each := float64(p.state.Bytes())/float64(got.Series), float64(p.sent.outputs)/float64(p.steps())
			p.landed()
			heap := float64(p.freed()) / float64(got.Series)
			t.Logf("%+v: heap %.0f, state %.0f", got, heap, own)
			if math.Abs(got.Heap/heap-1) > 0.25 {
				t.Errorf("a copy takes %.0f bytes of heap, a series that was run %.0f", got.Heap, heap)
			}
			if math.Abs(got.State/own-1) > 0.25 {
				t.Errorf("a copy takes %.0f bytes of state, a series that was run %.0f", got.State, own)
			}
			if math.Abs(got.Outputs/each-1) > 0.25 {
				t.Errorf("%.1f bytes of outputs a sample, %.1f in large cycles", got.Outputs, each)
			}
			if got.Records < 0.9 || got.Records > 1 || got.CPU <= 0 || got.CPU > 1e-3 || got.Load < 1e6 || got.Replay <= 0 || got.Replay > 1e-3 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestNoGrids: a grid's cost depends on its counts.
func TestNoGrids(t *testing.T) {
	o := options(t, 8)
	o.State.Windows[0].Grid = &series.Grid{}
	if _, err := Measure(t.Context(), o); err == nil {
		t.Error("detectors of grids were measured on noise")
	}
}
