package processor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/processor/kafkatest"
	"odradek/processor/state/rules"
	"odradek/schemas/output"
)

// TestGaps: samples whose subsequence spans a gap of their series have no score, and all others have one, by a plain reading of their
// times, although the worker is killed and replays.
func TestGaps(t *testing.T) {
	const window, length, stride, least = 64, 8, 3, 20
	method, err := discord.New(discord.Params{Window: window, Length: length, MaxLength: length, Lengths: 1, K: 1, Every: 1, MinPoints: least})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 1)
	type sample struct{ time, offset int64 }
	at, next, samples := int64(1_700_000_000_000), [3]int64{}, map[string][]sample{}
	for range 3 {
		recs := make([]kafkatest.Record, 500)
		for i := range recs {
			at += 1 + b.rng.Int64N(200)
			k := b.rng.IntN(len(next))
			for at < next[k] {
				k = (k + 1) % len(next)
				at += 100
			}
			if b.rng.IntN(60) == 0 {
				next[k] = at + 20_000 // a gap begins
			}
			key := fmt.Sprint("s", k)
			recs[i] = kafkatest.Record{Topic: b.input, Partition: 0, Time: at,
				Value: fmt.Appendf(nil, `{"id":%q,"at":%d,"a":%d}`, key, at, b.n*b.n%7)}
			samples[key] = append(samples[key], sample{at, int64(b.n)})
			b.n++
		}
		if _, err := b.c.ProduceAcked(context.Background(), recs); err != nil {
			t.Fatal(err)
		}
		cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"}},
			Order: rules.Order{MaxGap: rules.OwnGap, BySeries: true}})
		cfg.Mappings.State.Detectors[0].Detector, cfg.Mappings.State.Detectors[0].Stride = method, stride
		p, stop := b.start(cfg)
		waitFor(t, "all is committed", func() bool {
			l := p.Status()
			return len(l) == 1 && l[0].Running && l[0].Committed >= int64(b.n)
		})
		stop(errors.New("killed"))
	}
	scored := map[int64]bool{}
	for _, r := range b.read("scores") {
		s, err := output.DecodeScore(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := scored[s.Offset]; twice {
			t.Errorf("offset %d has two rows", s.Offset)
		}
		scored[s.Offset] = s.Score == s.Score
	}
	withheld, wrong := 0, 0
	for _, all := range samples {
		for i := window + stride; i < len(all); i++ {
			task := i + (stride - 1 - (i-least+1)%stride) // the newest sample of the score's task
			if task >= len(all) {
				break
			}
			var usual []int64
			for j := task + 2 - detectors.TaskRows(method, stride); j <= task; j++ {
				usual = append(usual, all[j].time-all[j-1].time)
			}
			slices.Sort(usual)
			limit := 10 * usual[len(usual)-1-max(1, len(usual)/100)]
			spans := false
			for j := i - length + 2; j <= i; j++ {
				spans = spans || all[j].time-all[j-1].time > limit
			}
			if spans {
				withheld++
			}
			if scored[all[i].offset] == spans {
				wrong++
			}
		}
	}
	if wrong > 0 || withheld < 7 {
		t.Errorf("of %d samples %d span a gap; %d are scored and span one, or are not scored and span none", b.n, withheld, wrong)
	}
}
