package processor

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
)

// budget divides the bytes of state that a worker may hold among its partitions.
//
// Every partition may have an equal share, and beyond it what the others leave: its
// limit is the larger of the share and of what the budget has left. A partition that
// is over its limit evicts its own least recently used keys before it folds another
// record, so the one that grows pays, down to the share and not below. One that is
// over its share and gets no records keeps what it has until the next one.
type budget struct {
	total int64 // 0: none

	mu   sync.Mutex
	used map[kafka.TP]int64 // of those that are assigned
	sum  int64
}

// join and leave count a partition in and out.
func (b *budget) join(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used == nil {
		b.used = map[kafka.TP]int64{}
	}
	if _, ok := b.used[tp]; !ok {
		b.used[tp] = 0
	}
}

func (b *budget) leave(tp kafka.TP) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum -= b.used[tp]
	delete(b.used, tp)
}

// limit notes what a partition uses and returns what it may use.
func (b *budget) limit(tp kafka.TP, bytes int64) int64 {
	if b.total == 0 {
		return math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	old, ok := b.used[tp]
	if !ok { // it has left
		return math.MaxInt64
	}
	b.used[tp] = bytes
	b.sum += bytes - old
	return max(b.total/int64(len(b.used)), b.total-(b.sum-bytes))
}

// trim evicts keys before the record at offset, as many as the partition is over
// its limit, and a little more so that not every record has to.
func (pt *partition) trim(offset int64) {
	s := pt.state
	if n := s.Shed(offset); n > 0 {
		pt.log.Warn("series that there was no room for when the partition was restored are evicted (ODRADEK_STATE_BYTES)",
			"offset", offset, "evicted", n)
	}
	pt.limit = pt.host.budget.limit(pt.tp, s.Bytes())
	if s.Bytes() <= pt.limit {
		return
	}
	n := s.Trim(pt.limit-pt.limit/64, offset)
	pt.host.budget.limit(pt.tp, s.Bytes())
	if pt.trimmedN += n; n > 0 && time.Since(pt.trimmedAt) > summaryEvery {
		pt.log.Warn("the state is over its budget (ODRADEK_STATE_BYTES), the least recently used series are evicted",
			"offset", offset, "evicted", pt.trimmedN, "bytes", s.Bytes(), "limit", pt.limit)
		pt.trimmedAt, pt.trimmedN = time.Now(), 0
	}
}

// A changelog may hold more than there is room for: the budget is smaller than it
// was, or partitions of several workers have come to one. So it is loaded within the
// partition's limit. Nearly always everything fits. Where it does not, loading is
// given up and the changelog read once more to see what each key takes (keystate.Survey);
// then those that were used last are loaded, and the others evicted with the first
// record that is folded. An estimate that was too low makes the next one lower.

// fitting is how far that has come.
type fitting struct {
	tries    int
	granted  int64 // the limit when it was first passed, which is kept for the partition
	estimate int64 // what the last survey was told to fit into
}

var errOverBudget = errors.New("the state does not fit into the budget")

const mostFittings = 3

// fits fails when the state that is being loaded has passed its limit by an eighth,
// keys that are left out not counted.
func (pt *partition) fits(f *fitting) error {
	bytes := pt.state.Bytes()
	pt.bytes.Store(bytes)
	limit := pt.host.budget.limit(pt.tp, max(bytes, f.granted))
	if f.tries > 0 {
		limit = f.granted
	}
	if bytes -= pt.state.LeftOut(); bytes-bytes/8 <= limit || f.tries == mostFittings {
		return nil
	}
	return errOverBudget
}

// measure makes an empty state that will take only what fits.
func (pt *partition) measure(ctx context.Context, f *fitting) error {
	if f.tries++; f.tries == 1 {
		f.granted = pt.host.budget.limit(pt.tp, pt.state.Bytes())
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
		if rec.Key != nil && !AboutLog(string(rec.Key)) {
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
