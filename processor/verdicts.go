package processor

import (
	"errors"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/schemas"
)

// A record whose schema the registry does not have is condemned: it becomes a dead
// letter. That is nothing that the log says, so it is decided once and written to
// the changelog (keystate/decisions.go), and a replay condemns by the verdict,
// whatever the registry says by then, or if it says nothing.
//
// A registry's replica that lags does not have a schema that was just registered.
// So the first record of an unknown schema holds its partition, and the registry
// is asked again, until the answer was the same for Config.SchemaGrace
// (schemas/registry/absence.go). Corrupt records name schemas at random, each of them for
// the first time; that they do not hold a partition again and again is what
// patience is for.

// heldForSchema is why a partition waits within the grace period.
const heldForSchema = "the schema registry does not have the record's schema (yet)"

// whyHeld is what a record that cannot be read yet waits for, and how long until it
// is tried again. Most replicas lag for less than a second.
func whyHeld(err error) (why string, pause time.Duration) {
	var de *schemas.DecodeError
	if errors.As(err, &de) && de.Absent {
		return heldForSchema, 250 * time.Millisecond
	}
	return heldForRegistry, time.Second
}

// patience bounds how long a partition waits for schemas that are not there: for
// the grace period and a quarter, and after that for a tenth of the time.
type patience struct {
	used   time.Duration
	at     time.Time // of the last question
	offset int64     // and of the record that waited then
}

// spent reports whether the record at offset has to be decided about now.
func (p *patience) spent(offset int64, grace time.Duration, now time.Time) bool {
	switch {
	case p.at.IsZero():
	case p.offset == offset:
		p.used += now.Sub(p.at)
	default:
		p.used = max(0, p.used-now.Sub(p.at)/10)
	}
	p.at, p.offset = now, offset
	return p.used >= grace+grace/4
}

// maxReason bounds the reason that a verdict gives.
const maxReason = 200

// condemn reports whether a record becomes a dead letter for want of its schema;
// otherwise it waits.
func (pt *partition) condemn(rec *record.Record, header func(string) ([]byte, bool), de *schemas.DecodeError) bool {
	if !de.Absent {
		return false // nobody knows
	}
	ref, _ := pt.dec.Ref(rec.Value, header)
	pt.ref = ref.Append(pt.ref[:0])
	if pt.state.Standing(keystate.Verdict, pt.ref, rec.Offset) != nil {
		return true
	}
	if spent := pt.patience.spent(rec.Offset, pt.host.cfg.SchemaGrace, time.Now()); de.Retry && !spent {
		return false
	}
	if pt.forward {
		return true // without state there is no replay
	}
	reason := []byte(de.Error())
	pt.state.Decide(keystate.Verdict, pt.ref, reason[:min(len(reason), maxReason)], rec.Offset)
	pt.state.Standing(keystate.Verdict, pt.ref, rec.Offset)
	return true
}

// gone reports whether the schema of a record that a replay meets, on which no verdict
// stands, is given up. The record was read when it was live, and its schema has
// been deleted since; or a version without verdicts has condemned it.
func (pt *partition) gone(rec *record.Record, de *schemas.DecodeError) bool {
	return de.Absent && pt.patience.spent(rec.Offset, pt.host.cfg.SchemaGrace, time.Now())
}

// acquit withdraws the verdict on the schema of a record that could be read.
func (pt *partition) acquit(rec *record.Record, header func(string) ([]byte, bool)) {
	if pt.condemned(rec, header) {
		pt.state.Decide(keystate.Verdict, pt.ref, nil, rec.Offset)
		pt.log.Info("the schema registry has a schema that it did not have", "offset", rec.Offset, "schema", pt.reading.Schema)
	}
}

// condemned reports whether a verdict stands on the schema of a record.
func (pt *partition) condemned(rec *record.Record, header func(string) ([]byte, bool)) bool {
	if pt.state.Decisions(keystate.Verdict) == 0 {
		return false
	}
	ref, ok := pt.dec.Ref(rec.Value, header)
	pt.ref = ref.Append(pt.ref[:0])
	return ok && pt.state.Standing(keystate.Verdict, pt.ref, rec.Offset) != nil
}
