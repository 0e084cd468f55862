package processor

import (
	"errors"
	"log/slog"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas"
)

// A record whose schema the registry does not have is condemned: it becomes a dead
// letter. That does not follow from the log, so it is decided once and written to the
// changelog (state/rules). A replay condemns by this verdict, regardless of the
// registry answers by then, or if it does not answer.
//
// A registry's replica that lags does not have a schema that was just registered.
// So the first record of an unknown schema holds its partition, and the registry
// is asked again, until the answer was the same for Config.SchemaGrace
// (schemas/registry/absence.go). Corrupt records name random schemas, each of them for
// the first time; cycle.Patience bounds how long they hold a partition in all.

// heldForSchema is the reason for a hold within the grace period.
const heldForSchema = "the schema registry does not have the record's schema (yet)"

const heldForRegistry = "the schema registry does not answer"

// holds logs when a partition is held, and shows it to Status.
type holds struct {
	status *partitionStatus
	log    *slog.Logger
}

// note notes that the record at offset cannot be read before why is over. The log
// gets a line when a hold begins, not with each try.
func (h holds) note(why string, offset int64, err error) {
	if h.status.Hold(why, offset) {
		h.log.Warn("partition held, "+why, "offset", offset, "err", err)
	}
}

// end ends a hold, if there is one.
func (h holds) end() {
	if offset, lasted, held := h.status.Release(); held {
		h.log.Info("partition resumes", "offset", offset, "held", lasted.Round(time.Millisecond))
	}
}

// whyHeld returns the reason why a record cannot be read yet, and the time until
// the next try. Most replicas lag for less than a second.
func whyHeld(err error) (why string, pause time.Duration) {
	var de *schemas.DecodeError
	if errors.As(err, &de) && de.Absent {
		return heldForSchema, 250 * time.Millisecond
	}
	return heldForRegistry, time.Second
}

// headerOf returns a header of a record.
type headerOf = func(name string) ([]byte, bool)

// verdicts decides which records are condemned, and finds the verdicts that stand.
type verdicts struct {
	dec      schemas.Decoder
	grace    time.Duration // Config.SchemaGrace
	log      *slog.Logger
	patience cycle.Patience
	ref      []byte // of the record's schema
}

// maxReason bounds the reason that a verdict gives.
const maxReason = 200

// condemn reports whether a record becomes a dead letter because its schema is missing;
// otherwise it waits. With refused the
// dead letter would be one too many (deadLetterStop), and nothing is decided.
func (v *verdicts) condemn(s *state.State, rec *record.Record, header headerOf, de *schemas.DecodeError, refused bool) bool {
	if !de.Absent {
		return false // the registry has not answered that it lacks the schema
	}
	ref, _ := v.dec.Ref(rec.Key, rec.Value, header)
	v.ref = ref.Append(v.ref[:0])
	if s.Standing(state.Verdict, v.ref, rec.Offset) != nil {
		return true
	}
	if spent := v.patience.Spent(rec.Offset, v.grace, time.Now()); de.Retry && !spent {
		return false
	}
	if refused {
		return true
	}
	reason := []byte(de.Error())
	s.Decide(state.Verdict, v.ref, reason[:min(len(reason), maxReason)], rec.Offset)
	s.Standing(state.Verdict, v.ref, rec.Offset)
	return true
}

// gone reports whether a replay gives up on the missing schema of a record without a verdict.
// The record was read when it was live, and its schema has been deleted since; or a version
// without verdicts has condemned it.
func (v *verdicts) gone(rec *record.Record, de *schemas.DecodeError) bool {
	return de.Absent && v.patience.Spent(rec.Offset, v.grace, time.Now())
}

// acquit withdraws the verdict on the schema of a record that could be read.
func (v *verdicts) acquit(s *state.State, rec *record.Record, header headerOf, schema int32) {
	if v.condemned(s, rec, header) {
		s.Decide(state.Verdict, v.ref, nil, rec.Offset)
		v.log.Info("the schema registry now has a schema that it lacked before", "offset", rec.Offset, "schema", schema)
	}
}

// condemned reports whether a verdict stands on the schema of a record.
func (v *verdicts) condemned(s *state.State, rec *record.Record, header headerOf) bool {
	if s.Subjects(state.Verdict) == 0 {
		return false
	}
	ref, ok := v.dec.Ref(rec.Key, rec.Value, header)
	v.ref = ref.Append(v.ref[:0])
	return ok && s.Standing(state.Verdict, v.ref, rec.Offset) != nil
}
