package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/schemas/registry"
)

// StartLimit is for how long a start is retried after faults that may be temporary: brokers or a registry that are not
// up yet, an output topic that is about to be created. An attempt that has begun by then may take up to StartGrace.
const (
	StartLimit = 2 * time.Minute
	StartGrace = time.Minute
)

// PermanentError is a fault that no retry removes.
type PermanentError struct{ error }

// Unwrap returns the fault.
func (e PermanentError) Unwrap() error { return e.error }

// Permanent makes err a fault that no retry removes.
func Permanent(err error) error { return PermanentError{err} }

// Retry calls f until it succeeds, fails finally, or the deadline has passed. It logs
// each failure.
func Retry(ctx context.Context, log *slog.Logger, deadline time.Time, f func(context.Context) error) error {
	var missing time.Time // since when an input topic is
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 10*time.Second) {
		err := f(ctx)
		if absent := (missingError{}); errors.As(err, &absent) {
			if missing.IsZero() {
				missing = time.Now()
			}
			if time.Since(missing) > missingLimit {
				return err
			}
			wait = 500 * time.Millisecond
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err), time.Now().After(deadline):
			return err
		}
		log.Warn("not started yet, trying again", "err", err, "in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// missingLimit is for how long a start waits for an input topic that no broker knows: they learn of a new one after its
// producer does, on a slow cluster more than a second later.
const missingLimit = 5 * time.Second

// missingError is the fault of an input topic that does not exist, or not yet.
type missingError struct{ topic string }

func (e missingError) Error() string { return "topic " + e.topic + " does not exist" }

// final reports whether no retry can remove err.
func final(err error) bool {
	var never PermanentError
	var refused *processor.RefusedError
	var registry *registry.Error
	return errors.As(err, &never) || errors.As(err, &refused) || kafka.ClassOf(err) == kafka.Fatal ||
		errors.As(err, &registry) && (registry.Status == http.StatusUnauthorized || registry.Status == http.StatusForbidden)
}

// EndOf returns nil for a start that was interrupted, which is a clean end.
func EndOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// startError has the faults that prevent a start.
type startError struct{ faults []Finding }

func (e *startError) Error() string {
	s := "worker: "
	for i, f := range e.faults {
		if i > 0 {
			s += "; and "
		}
		s += f.What + ": " + f.Detail
		if f.Fix != "" {
			s += "; " + f.Fix
		}
	}
	return s
}

// Unwrap returns the causes of the faults, which decide the exit code.
func (e *startError) Unwrap() (errs []error) {
	for _, f := range e.faults {
		if f.err != nil {
			errs = append(errs, f.err)
		}
	}
	return errs
}
