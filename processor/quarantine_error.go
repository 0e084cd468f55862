package processor

import (
	"errors"
	"fmt"
	"runtime/debug"

	"odradek/detectors"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// This file has the errors that pause one partition of a worker while the others continue.

// The reasons of a quarantine, as the metric has them.
const (
	Unreadable   = "unreadable"   // the log at its position, and the begin of the next batch is not known
	Unfetchable  = "unfetchable"  // brokers refuse to return records
	Unauthorized = "unauthorized" // the worker lacks a permission on its topic or changelog
	Unwritable   = "unwritable"   // an output that no batch of its topic holds
	Refused      = "refused"      // its offset or state, by the brokers
	Undecided    = "undecided"    // to go on would lose or misread something: the operator decides (RefusedError)
	Panicked     = "panic"        // a defect of the program, in its fold or its restore
	DeadLetters  = "dead_letters" // more of its records than an operator allows (stop_above)
)

// QuarantineError stops one partition, for one of the reasons.
type QuarantineError struct {
	Reason string
	Err    error
}

func (e *QuarantineError) Error() string { return e.Err.Error() }
func (e *QuarantineError) Unwrap() error { return e.Err }

// QuarantineOfFetch returns an error of the fetcher as a *QuarantineError.
func QuarantineOfFetch(err error) error {
	reason := Unfetchable
	var corrupt *record.CorruptError
	switch {
	case kafka.Unauthorized(err):
		reason = Unauthorized
	case errors.As(err, &corrupt):
		reason = Unreadable
	}
	return &QuarantineError{reason, err}
}

// QuarantineOfWrite returns the error of a record that fits no batch as a *QuarantineError, and others as
// they are.
func QuarantineOfWrite(err error) error {
	if errors.Is(err, record.ErrTooLarge) {
		return &QuarantineError{Unwritable, err}
	}
	return err
}

// QuarantineOfPermission returns an error that names a missing permission as a *QuarantineError, and others
// as they are.
func QuarantineOfPermission(err error) error {
	if kafka.Unauthorized(err) {
		return &QuarantineError{Unauthorized, err}
	}
	return err
}

// PanicError is a panic in the work of one partition.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("processor: panic: %v", e.Value) }

// Contain calls f, and returns its panic as a *QuarantineError around a *PanicError.
func Contain(f func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *detectors.Panic: // in a goroutine that scored a part of a batch
			err = &QuarantineError{Panicked, &PanicError{v.Value, v.Stack}}
		default:
			err = &QuarantineError{Panicked, &PanicError{v, debug.Stack()}}
		}
	}()
	return f()
}
