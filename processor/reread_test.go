package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
	"odradek/schemas"
	"odradek/schemas/output"
)

// change is a change of how records are read.
type change struct {
	name string
	make func(r *rand.Rand, to *rules.Reading)
}

// changes has one of each field of a reading that a restart may change without losing state.
var changes = []change{
	{"lateness", func(r *rand.Rand, to *rules.Reading) { to.Lateness = []int64{0, 5e6, 60e6}[r.IntN(3)] }},
	{"lateness_by", func(_ *rand.Rand, to *rules.Reading) { to.BySeries = !to.BySeries }},
	{"max_gap", func(r *rand.Rand, to *rules.Reading) { to.MaxGap = []int64{0, rules.OwnGap, 5e6}[r.IntN(3)] }},
	{"max_held", func(r *rand.Rand, to *rules.Reading) { to.MaxHeld = []int{0, 20, 1000}[r.IntN(3)] }},
	{"max_jump", func(r *rand.Rand, to *rules.Reading) { to.MaxJump = []int64{0, 30e6, 600e6}[r.IntN(3)] }},
	{"max_future", func(r *rand.Rand, to *rules.Reading) { to.MaxFuture = []int64{0, 1e6, 60e6}[r.IntN(3)] }},
	{"missing", func(_ *rand.Rand, to *rules.Reading) { to.Hold = !to.Hold }},
	{"duplicates", func(_ *rand.Rand, to *rules.Reading) { to.DropDuplicates = !to.DropDuplicates }},
	{"value_fields", func(r *rand.Rand, to *rules.Reading) {
		to.Fields = [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"c[2]", "a"}}[r.IntN(4)]
		if len(to.Computed) > 0 && !slices.Contains(to.Fields, "b") {
			to.Fields = append(slices.Clone(to.Fields), "b")
		}
	}},
	{"valid", func(r *rand.Rand, to *rules.Reading) { to.Valid = [][]string{nil, {"a=1..5"}, {"a=..4"}}[r.IntN(3)] }},
	{"text_values", func(_ *rand.Rand, to *rules.Reading) { to.TextNumbers = !to.TextNumbers }},
	{"decimals", func(r *rand.Rand, to *rules.Reading) { to.Decimals = [][]string{nil, {"a=1"}}[r.IntN(2)] }},
	{"tombstones", func(_ *rand.Rand, to *rules.Reading) { to.SkipTombstones = !to.SkipTombstones }},
	{"time_zone", func(r *rand.Rand, to *rules.Reading) { to.TimeZone = []string{"", "UTC", "Europe/Berlin"}[r.IntN(3)] }},
	{"transforms", func(r *rand.Rand, to *rules.Reading) {
		to.Transforms = [][]string{nil, {"b=rate"}, {"b=difference"}}[r.IntN(3)] // no window has b, and no state is lost
	}},
	{"compute", func(r *rand.Rand, to *rules.Reading) {
		to.Computed = [][]string{nil, {"b = 2.0 * a + 1.0"}, {"b=c == null ? a : 7.0 / (a - 2.0)"}}[r.IntN(3)] // no window has b
		if len(to.Computed) > 0 && !slices.Contains(to.Fields, "b") {
			to.Fields = append(slices.Clone(to.Fields), "b")
		}
	}},
	{"only_if", func(r *rand.Rand, to *rules.Reading) {
		to.OnlyIf = []string{"", "b != 3", `id in ["s1", "s2", "s3"] && c == null`, "a >= 2"}[r.IntN(4)]
	}},
	{"missing_if", func(r *rand.Rand, to *rules.Reading) { to.MissingIf = [][]string{nil, {"a=0|3"}}[r.IntN(2)] }},
}

// rereadRecords produces n records of JSON, some without a value, too late, too far in the future or twice at one time.
func (b *bench) rereadRecords(n int) {
	b.t.Helper()
	recs := make([]kafkatest.Record, n)
	for i := range recs {
		at := 1_700_000_000_000 + int64(b.n)*200
		event, value := at, fmt.Sprint(b.n%7)
		switch b.rng.IntN(10) {
		case 0:
			event -= b.rng.Int64N(20_000)
		case 1:
			event += b.rng.Int64N(90_000)
		case 2:
			value = "null"
		case 4:
			value = strconv.Quote(value)
		case 3:
			event -= event % 2000
		}
		recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Time: at, Value: fmt.Appendf(nil,
			`{"id":"s%d","at":%d,"a":%s,"b":%d,"c":[1,%d]}`, b.rng.IntN(5), event, value, b.n%5, b.n%3)}
		if b.rng.IntN(20) == 0 {
			recs[i].Value = nil
		}
		b.n++
	}
	if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
		b.t.Fatal(err)
	}
}

// reread returns the configuration of a worker that reads records by a reading.
func (b *bench) reread(reading rules.Reading) Config {
	b.t.Helper()
	cfg := b.config("one")
	cfg.Mappings.State.Reading, cfg.Mappings.State.Dim = reading, reading.Dim()
	columns, err := ReadingPaths(&reading).Columns([]string{"a"})
	if err != nil {
		b.t.Fatal(err)
	}
	cfg.Mappings.State.Windows = []series.WindowConfig{{Columns: columns, Fingerprint: 1}}
	cfg.Mappings.State.Detectors[0].Stride = 1
	if cfg.Mappings.Decoder, err = NewDecoder(&reading, nil, nil); err != nil {
		b.t.Fatal(err)
	}
	cfg.Mappings.Former = func(r *rules.Reading) (schemas.Decoder, error) { return NewDecoder(r, nil, nil) }
	cfg.ReplayLimit = 30 * time.Second
	return cfg
}

// fates returns what became of each input offset: scores, dead letters, late records, as often as they were published.
func (b *bench) fates() map[int64][]string {
	b.t.Helper()
	fates := map[int64][]string{}
	for _, r := range b.read("scores") {
		s, err := output.DecodeScore(r.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		fates[s.Offset] = append(fates[s.Offset], fmt.Sprint("score ", s.State, s.Score))
	}
	for topic, name := range map[string]string{"dlq": "__streams.errors.offset", "late": "odradek.source.offset"} {
		for _, r := range b.read(topic) {
			var at int64
			if _, err := fmt.Sscan(head(&r, name), &at); err != nil {
				b.t.Fatal(topic, r.Headers, err)
			}
			fates[at] = append(fates[at], topic)
		}
	}
	return fates
}

// TestReadingsInSequence: a worker is killed again and again, and starts with another way of reading records, and at times
// with a former one. Each record has exactly the fate that it has in a group whose workers drain before each change, which
// leaves nothing to replay: as many scores, dead letters and late records, and the same states at the end.
func TestReadingsInSequence(t *testing.T) {
	first := rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"}}}
	killed, drained := newBench(t, 1), newBench(t, 1)
	rng := killed.rng
	seed := rng.Uint64()
	killed.rng, drained.rng = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 1))
	past, now, trail := []rules.Reading{first}, first, "first"
	var mu sync.Mutex
	last := map[*bench][]byte{} // states that were handed over
	for phase := range 8 {
		for _, b := range []*bench{killed, drained} {
			b.rereadRecords(300)
			cfg := b.reread(now)
			cfg.export = func(_ kafka.TP, restored bool, _ int64, state []byte) {
				if !restored {
					mu.Lock()
					defer mu.Unlock()
					last[b] = state
				}
			}
			p, stop := b.start(cfg)
			waitFor(t, "all is committed", func() bool {
				l := p.Status()
				return len(l) == 1 && l[0].Running && l[0].Committed >= int64(b.n)
			})
			if b == killed && phase < 7 {
				stop(errors.New("killed"))
			} else {
				stop(nil)
			}
		}
		if past = append(past, now); rng.IntN(4) == 0 {
			now = past[rng.IntN(len(past))]
			trail += " > back"
			continue
		}
		var names []string
		for range 1 + rng.IntN(3) {
			c := changes[rng.IntN(len(changes))]
			c.make(rng, &now)
			names = append(names, c.name)
		}
		trail += " > " + strings.Join(names, "+")
	}
	got, want := killed.fates(), drained.fates()
	differ := 0
	for o := range int64(killed.n) {
		if g, w := fmt.Sprint(got[o]), fmt.Sprint(want[o]); g != w {
			if differ++; differ <= 10 {
				t.Errorf("the record at offset %d has become %s, not %s", o, g, w)
			}
		}
	}
	if !bytes.Equal(last[killed], last[drained]) {
		t.Errorf("the states of %d and %d bytes differ at the end", len(last[killed]), len(last[drained]))
	}
	for o, f := range want {
		if len(f) > 1 {
			t.Errorf("the record at offset %d has become %v", o, f)
		}
	}
	if differ > 0 {
		t.Errorf("%d of %d records differ after %s", differ, killed.n, trail)
	}
	t.Logf("%d of %d records have a fate after %s", len(want), killed.n, trail)
}
