package processor

import (
	"errors"
	"time"

	"odradek/processor/kafka/record"
	"odradek/processor/keystate"
	"odradek/schemas"
)

// A record whose schema the registry does not have is condemned: it becomes a dead
// letter. That does not follow from the log, so it is decided once and written to the
// changelog (keystate/decisions). A replay condemns by this verdict, whatever the
// registry answers by then, or if it does not answer.
//
// A registry's replica that lags does not have a schema that was just registered.
// So the first record of an unknown schema holds its partition, and the registry
// is asked again, until the answer was the same for Config.SchemaGrace
// (schemas/registry/absence.go). Corrupt records name random schemas, each of them for
// the first time; limits.Patience bounds how long they hold a partition in all.

// heldForSchema is why a partition waits within the grace period.
const heldForSchema = "the schema registry does not have the record's schema (yet)"

const heldForRegistry = "the schema registry does not answer"

// held notes that the record at offset cannot be read before why is over. The log
// gets a line when a hold begins, not with each try.
func (pt *partition) held(why string, offset int64, err error) {
	if pt.status.Hold(why, offset) {
		pt.log.Warn("partition held, "+why, "offset", offset, "err", err)
	}
}

// released ends a hold.
func (pt *partition) released() {
	if offset, lasted, held := pt.status.Release(); held {
		pt.log.Info("partition resumes", "offset", offset, "held", lasted.Round(time.Millisecond))
	}
}

// whyHeld returns what a record that cannot be read yet waits for, and the time until
// the next try. Most replicas lag for less than a second.
func whyHeld(err error) (why string, pause time.Duration) {
	var de *schemas.DecodeError
	if errors.As(err, &de) && de.Absent {
		return heldForSchema, 250 * time.Millisecond
	}
	return heldForRegistry, time.Second
}

// maxReason bounds the reason that a verdict gives.
const maxReason = 200

// condemn reports whether a record becomes a dead letter because its schema is missing;
// otherwise it waits.
func (pt *partition) condemn(rec *record.Record, header func(string) ([]byte, bool), de *schemas.DecodeError) bool {
	if !de.Absent {
		return false // the registry has not answered that it lacks the schema
	}
	ref, _ := pt.dec.Ref(rec.Value, header)
	pt.ref = ref.Append(pt.ref[:0])
	if pt.state.Decisions.Standing(keystate.Verdict, pt.ref, rec.Offset) != nil {
		return true
	}
	if spent := pt.patience.Spent(rec.Offset, pt.host.cfg.SchemaGrace, time.Now()); de.Retry && !spent {
		return false
	}
	if pt.forward {
		return true // without state there is no replay
	}
	reason := []byte(de.Error())
	pt.state.Decisions.Make(keystate.Verdict, pt.ref, reason[:min(len(reason), maxReason)], rec.Offset)
	pt.state.Decisions.Standing(keystate.Verdict, pt.ref, rec.Offset)
	return true
}

// gone reports whether a replay gives up on the missing schema of a record without a verdict.
// The record was read when it was live, and its schema has been deleted since; or a version
// without verdicts has condemned it.
func (pt *partition) gone(rec *record.Record, de *schemas.DecodeError) bool {
	return de.Absent && pt.patience.Spent(rec.Offset, pt.host.cfg.SchemaGrace, time.Now())
}

// acquit withdraws the verdict on the schema of a record that could be read.
func (pt *partition) acquit(rec *record.Record, header func(string) ([]byte, bool)) {
	if pt.condemned(rec, header) {
		pt.state.Decisions.Make(keystate.Verdict, pt.ref, nil, rec.Offset)
		pt.log.Info("the schema registry now has a schema that it lacked before", "offset", rec.Offset, "schema", pt.reading.Schema)
	}
}

// condemned reports whether a verdict stands on the schema of a record.
func (pt *partition) condemned(rec *record.Record, header func(string) ([]byte, bool)) bool {
	if pt.state.Decisions.Subjects(keystate.Verdict) == 0 {
		return false
	}
	ref, ok := pt.dec.Ref(rec.Value, header)
	pt.ref = ref.Append(pt.ref[:0])
	return ok && pt.state.Decisions.Standing(keystate.Verdict, pt.ref, rec.Offset) != nil
}
