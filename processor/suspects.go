package processor

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/schemas"
)

// attachSuspect attaches a copy of rec to its sample where that is a suspect: if the
// votes reject it, the record is a dead letter, byte for byte.
func attachSuspect(s *state.State, rec *record.Record) {
	if s.Suspects.Len() == 0 || !s.Suspects.Has(rec.Offset) {
		return
	}
	own := *rec
	own.Key, own.Value, own.Headers = bytes.Clone(rec.Key), bytes.Clone(rec.Value), bytes.Clone(rec.Headers)
	s.Suspects.Attach(rec.Offset, &own)
}

// refused sends the records of the suspects of s that were not folded to the topics of late records and
// of dead letters. A record is sent once, and counted as dead once for each of its samples.
func (o *sideOutputs) refused(s *state.State, cfg *state.Config) {
	refused := s.Suspects.Refused
	var late []*record.Record
	samples := map[*record.Record][]int{} // by late record: the numbers of its late samples
	for i := range refused {
		r := &refused[i]
		rec := r.Record.(*record.Record)
		if r.Outcome == state.Late {
			if samples[rec] == nil {
				late = append(late, rec)
			}
			samples[rec] = append(samples[rec], cfg.Number(r.Offset))
			o.noteLate(rec, r.Key)
			continue
		}
		if i > 0 && refused[i-1].Record == r.Record { // another sample of the same record
			o.counts.Dead++
			continue
		}
		o.stop.Late()
		past := "of a partition that has none yet"
		if r.Max != state.NoTime {
			past = fmt.Sprintf("more than %v past the newest of its partition", time.Duration(cfg.Reading.MaxJump)*time.Microsecond)
		}
		o.sendDead(rec, &schemas.DecodeError{Class: "future_time", Err: fmt.Errorf(
			"its event time is %s, and most of the records after it are earlier (max_jump)", past)})
	}
	for _, rec := range late {
		slices.Sort(samples[rec])
		o.late(rec, samples[rec])
	}
	clear(refused)
	s.Suspects.Refused = refused[:0]
}

// suspectLog limits the log about suspects to one line a minute for each of held, accepted and rejected,
// with the number since the line before.
type suspectLog struct {
	seen   metrics.Suspects // last counts that joined a cycle
	logged metrics.Suspects // last counts in the log
	at     [3]time.Time
	// waiting: the log says that records are held, and not yet that they are accepted.
	waiting bool
}

// suspectCounts returns the suspects of a state so far: held, accepted, rejected.
func suspectCounts(s *state.State) metrics.Suspects {
	return metrics.Suspects{s.Suspects.Counts.Held, s.Suspects.Counts.Accepted, s.Tally.Counts[state.Rejected]}
}

// count returns the counts of s since the last call and logs them. before is the offset
// of the next record.
func (l *suspectLog) count(s *state.State, now time.Time, before int64, to *slog.Logger) (n metrics.Suspects) {
	all := suspectCounts(s)
	for i := range n {
		n[i], l.seen[i] = all[i]-l.seen[i], all[i]
	}
	if s.Suspects.Len() == 0 && !l.waiting { // what was confirmed at once, as the first records of a healthy partition, is no news
		l.logged[0], l.logged[1] = all[0], all[1]
	}
	if all == l.logged {
		return n
	}
	held := "event times far past the newest of the partition, held until the next records confirm or reject them"
	if s.MaxTime() == state.NoTime {
		held = "the first records of the partition wait for the next ones, whose event times must agree with theirs: one wrong clock " +
			"alone must not set the partition's time"
	}
	for i, what := range [...]string{
		held,
		"event times that were held are accepted: the next records agree",
		"event times that were held are rejected: the next records disagree; dead letters",
	} {
		if fresh := all[i] - l.logged[i]; fresh != 0 && now.Sub(l.at[i]) >= metrics.SummaryEvery {
			l.at[i], l.logged[i] = now, all[i]
			l.waiting = s.Suspects.Len() > 0
			log := to.Info
			if i > 1 {
				log = to.Warn
			}
			log(what, "records", fresh, "before_offset", before, "held", s.Suspects.Len(), "setting", "max_jump")
		}
	}
	return n
}

// reset begins with the counts of a state that was rolled back or restored.
func (l *suspectLog) reset(s *state.State) {
	all := suspectCounts(s)
	l.seen, l.logged = all, all
}

// lostSuspects reports suspects that a restore could not read again.
func (f *folder) lostSuspects(floor *state.Floor) {
	if n := f.state.Suspects.Lost; n > 0 {
		f.pt.host.cfg.Metrics.LostSuspects(f.pt.tp, n)
		f.pt.log.Warn("records that were held for their event time (max_jump) are not in the log any more and are lost",
			"records", n, "from_offset", floor.From(), "below", floor.Offset)
	}
}
