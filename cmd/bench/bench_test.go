package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/processor/kafka"
)

func TestBenchNames(t *testing.T) {
	parse := func(args ...string) (names []string, o benchOptions, code int, done bool) {
		fs := flag.NewFlagSet("bench", flag.ContinueOnError)
		fs.SetOutput(new(bytes.Buffer))
		fs.BoolVar(&o.json, "json", false, "")
		fs.IntVar(&o.repeat, "repeat", 3, "")
		fs.Var(&o.set, "set", "")
		names, code, done = benchNames(fs, args)
		return
	}
	names, o, _, done := parse("decode", "-json", "skew", "-repeat", "1", "-set", "ODRADEK_COMPRESSION=none")
	if done || strings.Join(names, " ") != "decode skew" || !o.json || o.repeat != 1 || o.set.String() != "ODRADEK_COMPRESSION=none" {
		t.Errorf("names %v, options %+v, done %t", names, o, done)
	}
	for _, bad := range [][]string{{"decoder"}, {"-jason"}, {"-set", "COMPRESSION=none"}, {"decode", "-repeat"}} {
		if _, _, code, done := parse(bad...); !done || code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", bad, code, exitUsage)
		}
	}
	// -child is a flag, wherever it stands.
	silent := terminal{new(bytes.Buffer), new(bytes.Buffer), nil}
	if code := silent.bench(t.Context(), []string{"-child", "/none/odradek-cuda", "decoder"}); code != exitUsage {
		t.Errorf("-child and no benchmark: exit code %d, want %d", code, exitUsage)
	}
	var help bytes.Buffer
	if code := (terminal{nil, &help, nil}).bench(t.Context(), []string{"-h"}); code != exitOK ||
		!strings.Contains(help.String(), "usage: bench ") {
		t.Errorf("-h: exit code %d, %s", code, &help)
	}
	// Without a worker nothing is started.
	var out, errs bytes.Buffer
	code := (terminal{&out, &errs, nil}).bench(t.Context(), []string{"-kafka", "kfake", "-worker", "/none/worker", "path-cpu"})
	if code != exitFailed || !strings.Contains(errs.String(), "/none/worker") || out.Len() > 0 {
		t.Errorf("without a worker: exit code %d, %s%s", code, &errs, &out)
	}
	if names, _, _, done := parse(); done || names != nil {
		t.Errorf("without arguments: %v", names)
	}
}

// TestReadingEncoding holds the records of the benchmarks to their schema, read
// by another implementation, and to their size.
func TestReadingEncoding(t *testing.T) {
	codec, err := goavro.NewCodec(readingSchema)
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMicro(time.Now().UnixMicro())
	b := appendReading(nil, 258, []byte("press-00001/bearing"), at.UnixMicro(), -20.25, 1<<21)
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
	in := &benchInput{keys: make([][][]byte, inputPartitions)}
	for i := 0; i < 4000; i++ {
		key := []byte("press-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)))
		if p := kafka.Partition(key, inputPartitions); len(in.keys[p]) < 250 {
			in.keys[p] = append(in.keys[p], key)
		}
	}
	count := func(m *keyMix) (n []int) {
		n = make([]int, len(m.keys))
		for _, k := range m.deck {
			n[k]++
		}
		return n
	}
	rng := rand.New(rand.NewPCG(1, 1))
	even := in.evenMix(rng)
	if len(even.keys) != 1000 {
		t.Fatalf("%d keys", len(even.keys))
	}
	for k, n := range count(even) {
		if want := deckSize / 1000; n < want || n > want+1 {
			t.Fatalf("key %d comes %d times, want %d", k, n, want)
		}
		if p := kafka.Partition(even.keys[k], inputPartitions); p != even.part[k] {
			t.Fatalf("key %s is of partition %d, not %d", even.keys[k], p, even.part[k])
		}
	}
	zipf := count(in.zipfMix(rng, 0.3))
	if share := float64(zipf[0]) / deckSize; math.Abs(share-0.3) > 0.001 {
		t.Errorf("the hot key has %.3f of the traffic", share)
	}
	if ratio := float64(zipf[1]) / float64(zipf[10]); math.Abs(ratio-10) > 0.2 {
		t.Errorf("the 1st key of the others comes %.2f times as often as the 10th, want 10", ratio)
	}
	if in.zipfMix(rng, 0.3).part[0] == watchedPartition {
		t.Error("the hot key is in the partition that is to be beside it")
	}
}

func TestSteady(t *testing.T) {
	at := time.Now()
	var ticks []pathTick
	// A slow start, ten seconds at 1,000/s with 2 ms of CPU each, a slow end.
	for i, n := range []int64{0, 10, 100, 1100, 2100, 3100, 4100, 5100, 6100, 7100, 8100, 9100, 10100, 10110} {
		ticks = append(ticks, pathTick{at: at.Add(time.Duration(i) * time.Second), n: n, cpu: time.Duration(n) * 2 * time.Millisecond})
	}
	p, err := steady(ticks, 0.2, 0.9)
	if err != nil || p.rate != 1000 || p.cpu != 2e6 || p.span != 6*time.Second {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := steady(ticks[:2], 0.2, 0.9); err == nil {
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
	var c counter
	for _, s := range []string{"1", "2\n3", "4\nnoise\n", "56"} {
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if c.n.Load() != 34 {
		t.Errorf("%d, want 34: the last whole line that is a number", c.n.Load())
	}
}

func TestRestoreRows(t *testing.T) {
	const log = `time=x level=INFO msg=started
time=x level=INFO msg=restored topic=t partition=0 offset=9 keys=2 took=3s changelog_bytes=300000000 changelog_took=1s replayed=1000 replay_took=2s
time=x level=INFO msg=restored topic=t partition=1 offset=9 keys=2 took=3s changelog_bytes=300000000 changelog_took=2s replayed=3000 replay_took=1s
`
	rows, err := restoreRows([]byte(log), 1000)
	if err != nil || len(rows) != 2 || rows[0].Value != 300 || !*rows[0].Met || rows[1].Value != 2000 || *rows[1].Ratio != 2 || *rows[1].Met {
		t.Errorf("%+v, %v", rows, err)
	}
	if _, err := restoreRows([]byte("msg=started"), 1); err == nil {
		t.Error("a log without a restored partition is no figure")
	}
}

func TestBenchReport(t *testing.T) {
	rows := []benchRow{
		row("", 350, "ns/record").against("goavro", 7000, true).want("<= 350 ns", true).noted("a").noted("b"),
		row("x", 1, "s").against("y", 0, false),
		{Skipped: "no Java"},
	}
	if *rows[0].Ratio != 20 || rows[0].Note != "a; b" {
		t.Errorf("%+v", rows[0])
	}
	var out bytes.Buffer
	p := benchReport{out: &out, json: true, command: "bench", cpu: "one"}
	p.add(rows)
	p.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != len(rows) {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for _, l := range lines {
		var m map[string]any
		if err := json.Unmarshal([]byte(l), &m); err != nil {
			t.Errorf("%v: %s", err, l)
		}
		for _, field := range []string{"name", "value", "unit", "baseline", "ratio", "cpu", "command"} {
			if _, ok := m[field]; !ok {
				t.Errorf("no %s in %s", field, l)
			}
		}
	}
	out.Reset()
	p = benchReport{out: &out, cpu: "one"}
	p.add(rows)
	p.end()
	for _, want := range []string{"7,000 goavro", "20.0", "met", "skipped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for v, want := range map[float64]string{1234567.4: "1,234,567", 999.6: "1000", -1234: "-1,234", 35.16: "35.2", 0.01234: "0.0123"} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) = %s, want %s", v, got, want)
		}
	}
}

// TestBenchPath runs the path and a peer, small, on kfake: what is measured means
// nothing, that all parts work and every score is there does.
func TestBenchPath(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(runEnv, "1") // its own children are this test binary
	var out, log bytes.Buffer
	b := &bench{o: benchOptions{quick: true, kafka: "kfake", repeat: 1, worker: workerBinary(t)},
		t: terminal{&out, &log, os.Environ()}, dir: t.TempDir()}
	defer b.close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.open(ctx); err != nil {
		t.Fatal(err)
	}
	in, err := b.newInput(ctx, "test", 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.fill(ctx, in, 200_000); err != nil {
		t.Fatal(err)
	}
	if _, err := b.pathRun(ctx, in, "t", true); err != nil && !strings.Contains(err.Error(), "too few records") {
		t.Error(err)
	}
	if _, err := b.franzPace(ctx, in); err != nil && !strings.Contains(err.Error(), "too few records") {
		t.Error(err)
	}
}

// TestBenchCommit: the transactions of commit hold together on kfake.
func TestBenchCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a hundred megabytes")
	}
	var out, log bytes.Buffer
	b := &bench{o: benchOptions{quick: true, kafka: "kfake", partitions: 4}, t: terminal{&out, &log, os.Environ()}, dir: t.TempDir()}
	defer b.close()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := b.open(ctx); err != nil {
		t.Fatal(err)
	}
	rows, err := b.commit(ctx)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, want one for each size; %v", len(rows), err)
	}
	for _, r := range rows {
		if r.Value <= 0 || r.Unit != "ms" || r.Met != nil || !strings.Contains(r.Note, "MB, 4 partitions") {
			t.Errorf("%+v", r)
		}
	}
	size, _ := strconv.ParseFloat(regexp.MustCompile(`([\d.]+) MB`).FindStringSubmatch(rows[0].Note)[1], 64)
	if size < 9 || size > 12 { // a cycle of 463,000 records has 100 MB
		t.Errorf("a tenth of the large transaction has %.1f MB", size)
	}
}
