package processor

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"odradek/processor/state/rules"
)

// TestOnlyIf: the worker leaves records out for which the condition is false, and makes dead letters of those for which it cannot
// be evaluated, once each, though it is killed and replays.
func TestOnlyIf(t *testing.T) {
	b := newBench(t, 1)
	for range 2 {
		b.rereadRecords(200)
		cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"},
			OnlyIf: `id != "s3" && a >= 2`}})
		p, stop := b.start(cfg)
		waitFor(t, "all is committed", func() bool {
			l := p.Status()
			return len(l) == 1 && l[0].Running && l[0].Committed >= int64(b.n)
		})
		if n := gathered(t, cfg.Metrics, "odradek_records_skipped_total"); n == 0 {
			t.Error("no record is counted as filtered")
		}
		stop(errors.New("killed"))
	}
	fates := b.fates()
	for at, r := range b.read(b.input) {
		var v struct {
			ID string
			A  any
		}
		want, got := "", strings.Join(fates[int64(at)], ", ")
		err := json.Unmarshal(r.Value, &v)
		a, number := v.A.(float64)
		switch {
		case err != nil: // without a value
			want = "dlq"
		case v.ID == "s3":
		case !number:
			want = "dlq"
		case a >= 2:
			want = "score or late"
		}
		if strings.HasPrefix(got, "score") || got == "late" {
			got = "score or late"
		}
		if got != want && (want != "score or late" || got != "") { // a sample may be of a warm-up
			t.Errorf("the record %s at offset %d has become %q, not %q", r.Value, at, got, want)
		}
	}
	failed := 0
	for _, r := range b.read("dlq") {
		if class := head(&r, "odradek.error.class"); class == "expression" {
			failed++
			if why := head(&r, "__streams.errors.message"); !strings.Contains(why, `only_if id != "s3" && a >= 2: `) ||
				!strings.Contains(why, "a is null") && !strings.Contains(why, "a is string") {
				t.Error(why)
			}
		} else if class != "tombstone" {
			t.Errorf("a dead letter of class %s", class)
		}
	}
	if failed == 0 {
		t.Error("no condition could not be evaluated")
	}
}

// TestComputedNulls: a record whose values are all computed as null is no sample where each value is a series, and is counted.
func TestComputedNulls(t *testing.T) {
	b := newBench(t, 1)
	b.rereadRecords(200)
	cfg := b.reread(rules.Reading{Decoding: rules.Decoding{Format: "json", Key: "id", Time: "at", TimeUnit: "ms", Fields: []string{"a"},
		Series: true, Computed: []string{`a=id == "s3" ? dyn(null) : b`}}})
	p, stop := b.start(cfg)
	waitFor(t, "all is committed", func() bool {
		l := p.Status()
		return len(l) == 1 && l[0].Running && l[0].Committed >= int64(b.n)
	})
	out, unmapped := 0.0, 0.0
	for _, name := range strings.Fields(`scored_total warming_up_total missing_total filtered_total late_total duplicate_total
			aggregated_total dead_lettered_total skipped_total forwarded_total held`) {
		out += gathered(t, cfg.Metrics, "odradek_records_"+name)
	}
	in := gathered(t, cfg.Metrics, "odradek_records_consumed_total") + gathered(t, cfg.Metrics, "odradek_records_further_samples_total")
	for _, r := range b.read(b.input) {
		if strings.Contains(string(r.Value), `"id":"s3"`) {
			unmapped++
		}
	}
	if got := gathered(t, cfg.Metrics, "odradek_records_skipped_total"); in != 200 || out != in || got != unmapped || got == 0 {
		t.Errorf("%v in, %v accounted for, %v unmapped, want %v", in, out, got, unmapped)
	}
	stop(nil)
}
