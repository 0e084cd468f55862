package ops

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/bench/testbed"
	"odradek/detectors"
	"odradek/detectors/sst"
	"odradek/processor/kafkatest"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

// nestedSchema is the record of the decode figure: five fields, one nested, one
// a union.
const nestedSchema = `{"type":"record","name":"Reading","namespace":"bench","fields":[
  {"name":"sensor","type":"string"},
  {"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},
  {"name":"value","type":["null","double"]},
  {"name":"site","type":{"type":"record","name":"Site","fields":[{"name":"plant","type":"string"}]}},
  {"name":"seq","type":"long"}]}`

// perItem measures how long f takes an item, over about d; f does n items.
func perItem(d time.Duration, n int, f func()) (ns, allocs float64) {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began, rounds := time.Now(), 0
	for time.Since(began) < d {
		f()
		rounds++
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	items := float64(rounds * n)
	return float64(took.Nanoseconds()) / items, float64(after.Mallocs-before.Mallocs) / items
}

// Decode reads key, time and value of Confluent-framed records: with the
// projection, and with goavro and its maps.
func (b *Bench) Decode(ctx context.Context) ([]testbed.Row, error) {
	codec, err := goavro.NewCodec(nestedSchema)
	if err != nil {
		return nil, err
	}
	server, err := kafkatest.StartFakeRegistry()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	reg, err := registry.New(registry.Config{URLs: []string{server.URL}})
	if err != nil {
		return nil, err
	}
	defer reg.Close()
	id, err := reg.Register(ctx, "decode-value", nestedSchema)
	if err != nil {
		return nil, err
	}
	const n = 256
	var records [n][]byte
	for i := range records {
		head := []byte{0, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
		records[i], err = codec.BinaryFromNative(head, map[string]any{
			"sensor": fmt.Sprintf("press-%02d/bearing", i%100), "ts": time.UnixMicro(1767225600000000 + int64(i)),
			"value": goavro.Union("double", 20.5+float64(i)/7), "site": map[string]any{"plant": "oslo-north"}, "seq": int64(1_000_000 + i),
		})
		if err != nil {
			return nil, err
		}
	}
	dec, err := formats.NewDecoder(schemas.Mapping{Key: "sensor", Time: "ts", Fields: []string{"value"}}, reg, formats.Options{})
	if err != nil {
		return nil, err
	}
	var reading schemas.Reading
	var fault error
	var ours, ourAllocs, theirs []float64
	var want, got float64
	for range b.Repeat {
		ns, allocs := perItem(b.Span(time.Second), n, func() {
			got = 0
			for _, rec := range records {
				if err := dec.Decode(ctx, nil, rec, 0, nil, &reading); err != nil {
					fault = err
				}
				got += reading.Values[0] + float64(reading.Time%1000) + float64(len(reading.Key))
			}
		})
		ours, ourAllocs = append(ours, ns), append(ourAllocs, allocs)
		ns, _ = perItem(b.Span(time.Second), n, func() {
			want = 0
			for _, rec := range records {
				native, _, err := codec.NativeFromBinary(rec[5:])
				if err != nil {
					fault = err
					return
				}
				m := native.(map[string]any)
				value := m["value"].(map[string]any)["double"].(float64)
				want += value + float64(m["ts"].(time.Time).UnixMicro()%1000) + float64(len(m["sensor"].(string)))
			}
		})
		theirs = append(theirs, ns)
	}
	if fault == nil && got != want {
		fault = fmt.Errorf("the two read different values: %v and %v", got, want)
	}
	if fault != nil {
		return nil, fault
	}
	v, spread := testbed.Median(ours)
	base, _ := testbed.Median(theirs)
	allocs, _ := testbed.Median(ourAllocs)
	r := testbed.NewRow("", v, "ns/record").Against("goavro", base, true)
	r = r.Want(">= 20 times, 0 allocations", *r.Ratio >= 20 && allocs < 0.01)
	return []testbed.Row{r.Noted("%d bytes, %.2f allocations a record; median of %d, spread %.0f%%", len(records[0]), allocs,
		b.Repeat, spread)}, nil
}

// The parameters of the ikasst-cpu figure.
const (
	sstWindow = 100
	sstRank   = 3
	sstSteps  = 2
	sstFresh  = 16
	// sstNumpy is the result of ikasst.py with numpy 2 on one core of an AMD
	// EPYC (Zen 4): the baseline where numpy is not installed.
	sstNumpy = 6700
)

// ikasstProgram computes the same scores with numpy, the feedback included, and
// prints scores a second.
//
//go:embed ikasst.py
var ikasstProgram string

// IKASST measures IKA-SST on one core, tasks of 16 fresh samples.
func (b *Bench) IKASST(ctx context.Context) ([]testbed.Row, error) {
	det, err := sst.NewIKA(sst.IKAOpParams{Window: sstWindow, Rank: sstRank, PowerSteps: sstSteps, Epsilon: 1e-5})
	if err != nil {
		return nil, err
	}
	const keys = 64
	exec := detectors.NewCPU(1)
	defer exec.Close()
	batch := exec.Batch()
	var carries []detectors.Words
	pack := func() {
		batch.Reset()
		rng := rand.New(rand.NewPCG(5, 6))
		for k := range keys {
			rows := det.Window() + sstFresh - 1
			size, _ := det.Size(detectors.View{Dim: 1, Rows: rows, Fresh: sstFresh})
			t := detectors.Task{Op: det.Op(), Dim: 1, Fresh: sstFresh}
			var p []float32
			t.Params = batch.Put(det.Params())
			t.X, p = batch.GrowF32(rows)
			for i := range p {
				p[i] = float32(math.Sin(float64(i)/9) + math.Sin(float64(i+k)/23) + 0.1*rng.NormFloat64())
			}
			if carries != nil {
				t.Carry = batch.Put(carries[k])
			}
			batch.GrowOutputs(&t, size)
			batch.Tasks = append(batch.Tasks, t)
		}
	}
	// Each key's first task makes the carry of the others.
	pack()
	if err := exec.Execute(ctx, batch); err != nil {
		return nil, err
	}
	for i := range batch.Tasks {
		r := batch.Rows(i)
		carries = append(carries, append(detectors.Words(nil), r.Next...))
	}
	pack()
	var rates []float64
	for range b.Repeat {
		var fault error
		ns, _ := perItem(b.Span(time.Second), keys*sstFresh, func() {
			if err := exec.Execute(ctx, batch); err != nil {
				fault = err
			}
		})
		if fault != nil {
			return nil, fault
		}
		rates = append(rates, 1e9/ns)
	}
	v, spread := testbed.Median(rates)
	name := "numpy"
	base, err := b.numpy(ctx)
	if err != nil {
		b.Say("numpy: %v", err)
		name, base = "numpy, stored figure ("+testbed.FirstLine(err.Error())+")", sstNumpy
	}
	r := testbed.NewRow("", v, "scores/s").Against(name, base, false).Want(">= 100,000", v >= 100_000)
	return []testbed.Row{r.Noted("w=%d r=%d k=5, %d power steps, %d fresh samples a task, %d keys; median of %d, spread %.0f%%",
		sstWindow, sstRank, sstSteps, sstFresh, keys, b.Repeat, spread)}, nil
}

// numpy runs the program on one core.
func (b *Bench) numpy(ctx context.Context) (float64, error) {
	out, err := b.runPython(ctx, "numpy", ikasstProgram, sstWindow, sstRank, sstSteps)
	if err == nil && len(out) != 1 {
		err = fmt.Errorf("%d numbers from numpy", len(out))
	}
	if err != nil {
		return 0, err
	}
	return out[0], nil
}
