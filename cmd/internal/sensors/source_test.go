package sensors

import (
	"bytes"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/schemas/output"
)

func testSource(tb testing.TB, n int, seed uint64, every int64) *Source {
	tb.Helper()
	all, err := ParseKinds("all")
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{Topic: "in", Interval: time.Second, Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	model := &Model{Seed: seed, FaultEvery: every, Faults: all}
	return NewSource(o, model.Readings(n, output.NewReadingEncoder(3, "demo", "mm/s")), 4)
}

// The records of a run are a function of the seed, to the byte; another seed
// gives others.
func TestGenerateIsDeterministic(t *testing.T) {
	seed := seedtest.New(t).Uint64()
	records := func(seed uint64) []byte {
		g := testSource(t, 7, seed, 200)
		var all []byte
		for i := range int64(20_000) {
			_, v, _ := g.record(i)
			all = append(all, v...)
		}
		return all
	}
	a := records(seed)
	if !bytes.Equal(a, records(seed)) {
		t.Error("one seed, two runs")
	}
	if bytes.Equal(a, records(seed+1)) {
		t.Error("two seeds, one run")
	}
}

func BenchmarkGenerate(b *testing.B) {
	g := testSource(b, 1000, 0, 1000)
	bytes := 0
	for i := range b.N {
		_, v, _ := g.record(int64(i))
		bytes += len(v)
	}
	b.SetBytes(int64(bytes / b.N))
}
