package schemas

import (
	"errors"
	"fmt"
)

// Classes of a record that cannot be read. They are the reasons on dead
// letters and the labels of the counter, so they never change.
const (
	ClassTombstone     = "tombstone"      // no value
	ClassMagic         = "magic"          // no known framing
	ClassTruncated     = "truncated"      // ends within a value
	ClassTrailingBytes = "trailing_bytes" // has bytes behind the last value
	ClassUnknownSchema = "unknown_schema" // the registry has no such schema, or it cannot be read
	ClassMissingField  = "missing_field"  // the writer's schema lacks a mapped path
	ClassMissingKey    = "missing_key"    // the series key is null or empty
	ClassInfinite      = "infinite_value" // a value is infinite
	ClassBadTime       = "bad_time"       // no event time, or outside the years 1 to 9998
	ClassBadType       = "bad_type"       // a mapped field is of a type that it cannot be read from
	ClassTooLarge      = "too_large"      // beyond a limit of the decoder
	ClassMalformed     = "malformed"      // bytes that no writer of this schema writes
	ClassExpression    = "expression"     // an expression over its fields cannot be evaluated
)

// DecodeError is the reason why a record cannot be read.
type DecodeError struct {
	Class    string // one of the Class constants
	Field    string // the path concerned, as configured or in the schema; "" if none
	SchemaID int32  // id in the registry, -1 if none is known
	Err      error  // what is wrong
	// Retry reports that the record may be fine, but its schema is not available at present.
	// The caller waits and retries; all other errors make dead letters.
	Retry bool
	// Absent reports that the registry has answered that it does not have the schema. With
	// Retry, the grace period is not over yet.
	Absent bool
}

func (e *DecodeError) Error() string {
	s := "schemas: " + e.Class
	if e.Field != "" {
		s += fmt.Sprintf(": field %q", e.Field)
	}
	if e.SchemaID >= 0 {
		s += fmt.Sprintf(" (schema id %d)", e.SchemaID)
	}
	return s + ": " + e.Err.Error()
}

func (e *DecodeError) Unwrap() error { return e.Err }

// Located returns the error of a part of a record with its place, such as "line 3"; one that is no *DecodeError as it is.
func Located(err error, place string, number int) error {
	var e *DecodeError
	if !errors.As(err, &e) {
		return err
	}
	at := *e // a copy: programs share their errors
	at.Err = fmt.Errorf("%s %d: %w", place, number, e.Err)
	return &at
}

// Fault is a value that is well-formed but not acceptable. The rest of the record is still
// read, so that a record broken as well is reported as broken.
type Fault uint8

// The faults.
const (
	FaultNone Fault = iota
	FaultKeyNull
	FaultKeyType
	faultKeyLong
	FaultTimeNull
	FaultTimeRange
	FaultTimeText
	FaultTimeType
	FaultValueType
	FaultInfinite
	FaultLength
	FaultBranch // this record lacks the field, others of its schema may have it
	FaultDecimal
	FaultReadings
	FaultQuoted // a text that writes a number, where the mapping does not read texts
	FaultText   // a text that writes none, where it does
	FaultBase64 // of a decimal
)

var faultErrors = [...]struct {
	class string
	err   error
}{
	FaultKeyNull:   {ClassMissingKey, errors.New("the series key is null or empty")},
	FaultKeyType:   {ClassBadType, errors.New("the value is of a type that cannot be a key")},
	faultKeyLong:   {ClassTooLarge, fmt.Errorf("a series key of more than %d bytes", MaxKeyBytes)},
	FaultTimeNull:  {ClassBadTime, errors.New("there is no event time")},
	FaultTimeRange: {ClassBadTime, errors.New("the event time is outside the years 1 to 9998")},
	FaultTimeText:  {ClassBadTime, errors.New("the event time is not a time as the mapping has it: RFC 3339, or with an offset")},
	FaultTimeType:  {ClassBadType, errors.New("the value is of a type that cannot be a time")},
	FaultValueType: {ClassBadType, errors.New("the value is not a number")},
	FaultInfinite:  {ClassInfinite, errors.New("the value is infinite")},
	FaultLength:    {ClassMalformed, errors.New("the array has another length than configured")},
	FaultBranch:    {ClassMissingField, errors.New("the record does not have this field")},
	FaultDecimal:   {ClassTooLarge, errors.New("the decimal has too many digits")},
	FaultReadings:  {ClassBadType, errors.New("the value is not an array of readings")},
	FaultQuoted:    {ClassBadType, errors.New("the value is a text, not a number" + TextHint)},
	FaultBase64:    {ClassMalformed, errors.New("the decimal is not in base64")},
	FaultText:      {ClassBadType, errors.New("the value is a text, and it writes no number")},
}

// MaxKeyBytes is the most bytes of a series key.
const MaxKeyBytes = 32 << 10
