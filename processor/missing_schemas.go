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

// A record whose schema the registry does not have becomes a dead letter. The log does
// not show which schemas were missing, so the worker decides once and writes the decision
// to the changelog (state/rules). A replay follows the decision and does not ask the
// registry.
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

// missingSchemas decides which schemas are missing, and finds the decisions in force.
type missingSchemas struct {
	dec      schemas.Decoder
	grace    time.Duration // Config.SchemaGrace
	log      *slog.Logger
	patience cycle.Patience
	ref      []byte // of the record's schema
}

// maxReason bounds the reason that a decision gives.
const maxReason = 200

// decide reports whether a record becomes a dead letter because its schema is missing;
// otherwise it waits. With refused the
// dead letter would be one too many (deadLetterStop), and nothing is decided.
func (m *missingSchemas) decide(s *state.State, rec *record.Record, header headerOf, de *schemas.DecodeError, refused bool) bool {
	if !de.Absent {
		return false // the registry has not answered that it lacks the schema
	}
	ref, _ := m.dec.Ref(rec.Key, rec.Value, header)
	m.ref = ref.Append(m.ref[:0])
	if s.Standing(state.MissingSchema, m.ref, rec.Offset) != nil {
		return true
	}
	if spent := m.patience.Spent(rec.Offset, m.grace, time.Now()); de.Retry && !spent {
		return false
	}
	if refused {
		return true
	}
	reason := []byte(de.Error())
	s.Decide(state.MissingSchema, m.ref, reason[:min(len(reason), maxReason)], rec.Offset)
	s.Standing(state.MissingSchema, m.ref, rec.Offset)
	return true
}

// gone reports whether a replay gives up on the missing schema of a record without a decision.
// The record was read when it was live, and its schema has been deleted since; or a version
// without such decisions has made it a dead letter.
func (m *missingSchemas) gone(rec *record.Record, de *schemas.DecodeError) bool {
	return de.Absent && m.patience.Spent(rec.Offset, m.grace, time.Now())
}

// withdraw withdraws the decision on the schema of a record that could be read.
func (m *missingSchemas) withdraw(s *state.State, rec *record.Record, header headerOf, schema int32) {
	if m.decided(s, rec, header) {
		s.Decide(state.MissingSchema, m.ref, nil, rec.Offset)
		m.log.Info("the schema registry now has a schema that it lacked before", "offset", rec.Offset, "schema", schema)
	}
}

// decided reports whether a decision that the schema of a record is missing is in force.
func (m *missingSchemas) decided(s *state.State, rec *record.Record, header headerOf) bool {
	if s.Subjects(state.MissingSchema) == 0 {
		return false
	}
	ref, ok := m.dec.Ref(rec.Key, rec.Value, header)
	m.ref = ref.Append(m.ref[:0])
	return ok && s.Standing(state.MissingSchema, m.ref, rec.Offset) != nil
}
