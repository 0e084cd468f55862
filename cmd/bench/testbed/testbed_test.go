package testbed

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/processor/kafka"
)

// TestReadingEncoding holds the records of the benchmarks to their schema, read
// by another implementation, and to their size.
func TestReadingEncoding(t *testing.T) {
	codec, err := goavro.NewCodec(ReadingSchema)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(time.Now().UnixMicro())
	b := AppendReading(nil, 258, []byte("press-00001/bearing"), at.UnixMicro(), -20.25, 1<<21)
	if len(b) < 58 || len(b) > 62 {
		t.Errorf("a value of %d bytes, want about 60", len(b))
	}
	if !bytes.Equal(b[:5], []byte{0, 0, 0, 1, 2}) {
		t.Errorf("framing % x", b[:5])
	}
	native, rest, err := codec.NativeFromBinary(b[5:])
	if err != nil || len(rest) > 0 {
		t.Fatalf("%v, %d bytes left", err, len(rest))
	}
	m := native.(map[string]any)
	if m["sensor"] != "press-00001/bearing" || !m["ts"].(time.Time).Equal(at) || m["value"] != -20.25 || m["unit"] != readingUnit ||
		m["seq"] != int64(1<<21) {
		t.Errorf("goavro reads %v", m)
	}
}

func TestKeyMixes(t *testing.T) {
	in := &Input{Keys: make([][][]byte, Partitions)}
	for i := 0; i < 4000; i++ {
		key := []byte("press-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))
		if p := kafka.Partition(key, Partitions); len(in.Keys[p]) < 250 {
			in.Keys[p] = append(in.Keys[p], key)
		}
	}
	count := func(m *KeyMix) (n []int) {
		n = make([]int, len(m.Keys))
		for _, k := range m.Deck {
			n[k]++
		}
		return n
	}
	rng := rand.New(rand.NewPCG(1, 1))
	even := in.EvenMix(rng)
	if len(even.Keys) != 1000 {
		t.Fatalf("%d keys", len(even.Keys))
	}
	for k, n := range count(even) {
		if want := DeckSize / 1000; n < want || n > want+1 {
			t.Fatalf("key %d comes %d times, want %d", k, n, want)
		}
		if p := kafka.Partition(even.Keys[k], Partitions); p != even.Partition[k] {
			t.Fatalf("key %s is of partition %d, not %d", even.Keys[k], p, even.Partition[k])
		}
	}
	zipf := count(in.ZipfMix(rng, 0.3))
	if share := float64(zipf[0]) / DeckSize; math.Abs(share-0.3) > 0.001 {
		t.Errorf("the hot key has %.3f of the traffic", share)
	}
	if ratio := float64(zipf[1]) / float64(zipf[10]); math.Abs(ratio-10) > 0.2 {
		t.Errorf("the 1st key of the others comes %.2f times as often as the 10th, want 10", ratio)
	}
	if in.ZipfMix(rng, 0.3).Partition[0] == watchedPartition {
		t.Error("the hot key is in the partition that is to be beside it")
	}
}

func TestSteady(t *testing.T) {
	at := time.Now()
	var ticks []Tick
	// A slow start, ten seconds at 1,000/s with 2 ms of CPU each, a slow end.
	for i, n := range []int64{0, 10, 100, 1100, 2100, 3100, 4100, 5100, 6100, 7100, 8100, 9100, 10100, 10110} {
		ticks = append(ticks, Tick{At: at.Add(time.Duration(i) * time.Second), Records: n, CPU: time.Duration(n) * 2 * time.Millisecond})
	}
	p, err := Steady(ticks, 0.2, 0.9)
	if err != nil || p.Rate != 1000 || p.CPU != 2e6 || p.Span != 6*time.Second {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Steady(ticks[:2], 0.2, 0.9); err == nil {
		t.Error("two looks are enough for a pace")
	}
}

func TestSumMetrics(t *testing.T) {
	const page = `# TYPE odradek_records_scored_total counter
odradek_records_scored_total{topic="a b",partition="0"} 1.5e+06
odradek_records_scored_total{topic="a b",partition="1"} 7
odradek_records_scored_total_else 9
odradek_assigned_partitions 2
`
	m := sumMetrics([]byte(page), "odradek_records_scored_total", "odradek_assigned_partitions", "odradek_none")
	if m["odradek_records_scored_total"] != 1500007 || m["odradek_assigned_partitions"] != 2 || m["odradek_none"] != 0 {
		t.Error(m)
	}
}

func TestCounter(t *testing.T) {
	var c Counter
	for _, s := range []string{"1", "2\n3", "4\nnoise\n", "56"} {
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if c.Records.Load() != 34 {
		t.Errorf("%d, want 34: the last whole line that is a number", c.Records.Load())
	}
}
