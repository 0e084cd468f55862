package processor

import (
	"context"
	"errors"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/processor/provenance"
)

// trim evicts keys before the record at offset, as many as the partition is over its
// limit, and a few more, so that the next record need not evict again.
func (pt *partition) trim(offset int64) {
	s := pt.state
	if n := s.Shed(offset); n > 0 {
		pt.log.Warn("series that there was no room for when the partition was restored are evicted (ODRADEK_STATE_BYTES)",
			"offset", offset, "evicted", n)
	}
	pt.limit = pt.host.budget.Limit(pt.tp, s.Bytes())
	if s.Bytes() <= pt.limit {
		return
	}
	n := s.Trim(pt.limit-pt.limit/64, offset)
	pt.host.budget.Limit(pt.tp, s.Bytes())
	if pt.trimmedN += n; n > 0 && time.Since(pt.trimmedAt) > summaryEvery {
		pt.log.Warn("the state is over its budget (ODRADEK_STATE_BYTES), the least recently used series are evicted",
			"offset", offset, "evicted", pt.trimmedN, "bytes", s.Bytes(), "limit", pt.limit)
		pt.trimmedAt, pt.trimmedN = time.Now(), 0
	}
}

// A changelog may hold more than the memory that a partition may use: the budget is
// smaller than it was, or partitions of several workers have moved to one. So it is
// loaded within the partition's limit. Nearly always everything fits. Where it does not,
// loading ends and the changelog is read once more for the size of each key
// (keystate.Survey). Then the keys that were used last are loaded, and the others evicted
// with the first record that is folded. If even these do not fit, the next try loads
// fewer.

// fitting describes the tries to load a changelog within the limit.
type fitting struct {
	tries    int
	granted  int64 // the limit when it was first passed, which holds for all tries
	estimate int64 // bytes that the keys chosen by the last survey were to fit into
}

var errOverBudget = errors.New("the state does not fit into the budget")

const mostFittings = 3

// fits returns errOverBudget when the state that is being loaded has passed its limit by
// an eighth, without the keys that are left out.
func (pt *partition) fits(f *fitting) error {
	bytes := pt.state.Bytes()
	pt.status.SetBytes(bytes)
	limit := pt.host.budget.Limit(pt.tp, max(bytes, f.granted))
	if f.tries > 0 {
		limit = f.granted
	}
	if bytes -= pt.state.LeftOut(); bytes-bytes/8 <= limit || f.tries == mostFittings {
		return nil
	}
	return errOverBudget
}

// measure replaces the state by an empty one that will load only the keys that fit.
func (pt *partition) measure(ctx context.Context, f *fitting) error {
	if f.tries++; f.tries == 1 {
		f.granted = pt.host.budget.Limit(pt.tp, pt.state.Bytes())
		f.estimate = f.granted
	}
	f.estimate -= f.estimate / 8
	pt.state = pt.newState()
	tp := pt.changelogTP()
	from, err := pt.list(ctx, tp, StartEarliest)
	if err != nil {
		return err
	}
	to, err := pt.list(ctx, tp, StartLatest)
	if err != nil {
		return err
	}
	survey := keystate.NewSurvey(pt.host.cfg.State)
	err = pt.read(ctx, tp, from, to, func(rec *record.Record) error {
		if rec.Key != nil && !provenance.IsRecord(string(rec.Key)) {
			survey.Add(rec.Key, rec.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	keep, drop := survey.Cut(f.estimate)
	pt.log.Warn("the changelog holds more than the budget (ODRADEK_STATE_BYTES), the least recently used series are left out",
		"limit", f.granted, "kept", keep, "left_out", drop)
	pt.state.DropLoaded(survey)
	return nil
}
