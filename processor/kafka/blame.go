package kafka

import (
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// Blame names the partition of an error that a retry cannot mend.
type Blame struct {
	TP           TP
	Unauthorized bool // the client lacks the permission, on every partition of the topic
	Written      bool // the broker refuses a batch that was written to TP; false: it refuses the committed offset of TP
	Batch        int  // where a batch is refused: its index in the batches that Produce was given for TP, from 0
}

// BlameOf returns the partition whose batch or offset the broker refuses each time. ok is
// false for an error that names no partition, and for one that may go away.
func BlameOf(err error) (b Blame, ok bool) {
	if b, ok = Named(err); !ok {
		return Blame{}, false
	}
	var code kafkago.Error
	errors.As(err, &code)
	switch code {
	case kafkago.TopicAuthorizationFailed:
		b.Unauthorized = true
		return b, true
	case kafkago.OffsetMetadataTooLarge, kafkago.InvalidCommitOffsetSize, kafkago.InvalidRecord, kafkago.InvalidTimestamp,
		kafkago.PolicyViolation:
		return b, true
	}
	return Blame{}, false
}

// Doubtful reports whether a broker has refused a batch with a code that says neither that a retry can succeed nor that it
// cannot: UNKNOWN_SERVER_ERROR, with which brokers also answer where a record makes them fail, and CORRUPT_MESSAGE, which may
// have happened on the way.
func Doubtful(err error) bool {
	var refused *ProduceError
	return errors.As(err, &refused) && (refused.Code == kafkago.Unknown || refused.Code == kafkago.InvalidMessage)
}

// Named returns the partition that an error of a commit names, whether a retry can mend it or not; ok is false where it
// names none.
func Named(err error) (b Blame, ok bool) {
	var produce *ProduceError
	var offset *OffsetError
	var part partitionError
	switch {
	case errors.As(err, &produce):
		b.TP, b.Written, b.Batch = produce.TP, true, produce.Batch
	case errors.As(err, &offset):
		b.TP = offset.TP
	case errors.As(err, &part):
		b.TP, b.Written = part.tp, true
	default:
		return Blame{}, false
	}
	return b, true
}

// Lacks adds to the error of a missing permission which one it is, and returns others as they are.
func Lacks(err error, op Operation, topic string) error {
	if !Unauthorized(err) {
		return err
	}
	return fmt.Errorf("%w; the worker needs %s on topic %s", err, op, topic)
}

// Unauthorized reports that the client may not do on a topic what it tried.
func Unauthorized(err error) bool { return errors.Is(err, kafkago.TopicAuthorizationFailed) }
