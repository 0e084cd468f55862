package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	kafkago "github.com/segmentio/kafka-go"
)

// Class says what the caller of a failed operation has to do next. There are
// more than a hundred error codes, but few ways to respond to them.
type Class int

const (
	// None is the class of no error.
	None Class = iota
	// Retriable means that the broker did not carry the request out, and may do so
	// later. This package has retried it already for as long as it may.
	Retriable
	// Abortable means that the transaction cannot be committed. Call End(false), or Init where
	// NeedsInit says so, and start again from the committed state.
	Abortable
	// TooLarge means that a batch is larger than the topic takes. Respond as to Abortable, with smaller
	// batches: the same batch would be refused again.
	TooLarge
	// Rebalance means that the group does not take commits of this generation (illegal
	// generation, unknown member, rebalance in progress). If the member still holds
	// the partitions, the offsets may be sent again with a newer generation
	// (Member.Newer); otherwise the transaction must be aborted.
	Rebalance
	// Unknown means that the broker may or may not have carried the request out (timeout,
	// broken connection, an answer that makes no sense). A transactional producer
	// must be initialised again before anything else, because a late copy of the
	// request may still arrive; Init fences it off.
	Unknown
	// Fenced means that another producer has this transactional id now, or that our transaction
	// timed out; ProducerConfig says how to find out which.
	Fenced
	// InstanceFenced means that another member has this group instance id. There are two
	// live workers with one identity: this one has to end.
	InstanceFenced
	// Fatal means not allowed, not supported or not configured. Repeating does not help.
	Fatal
)

var classNames = [...]string{"none", "retriable", "abortable", "too large", "rebalance", "unknown", "fenced", "instance fenced", "fatal"}

// String returns the class in lower-case words, for logs and metrics.
func (c Class) String() string {
	if c < 0 || int(c) >= len(classNames) {
		return fmt.Sprintf("class(%d)", int(c))
	}
	return classNames[c]
}

// Protocol error codes that kafka-go has no name for.
const (
	codeOperationNotAttempted kafkago.Error = 55  // kafka-go calls it BrokerAuthorizationFailed
	codeFencedMemberEpoch     kafkago.Error = 110 // KIP-848
	codeUnreleasedInstanceID  kafkago.Error = 111
	codeUnsupportedAssignor   kafkago.Error = 112
	codeStaleMemberEpoch      kafkago.Error = 113
	codeTransactionAbortable  kafkago.Error = 120 // KIP-890
)

// classOfCode has a row for each code that a request of this package can be
// answered with. A code that is not here is Unknown, the careful answer.
// Names: https://kafka.apache.org/protocol#protocol_error_codes
var classOfCode = map[kafkago.Error]Class{
	kafkago.Unknown:         Unknown,   // -1 UNKNOWN_SERVER_ERROR: the broker does not say what it did
	kafkago.InvalidMessage:  Retriable, // 2 CORRUPT_MESSAGE: damaged on the way
	kafkago.InvalidTopic:    Fatal,
	kafkago.InvalidRequest:  Fatal,
	kafkago.PolicyViolation: Abortable,

	kafkago.UnknownTopicOrPartition:      Retriable, // also right after a topic was made
	kafkago.LeaderNotAvailable:           Retriable,
	kafkago.NotLeaderForPartition:        Retriable,
	kafkago.RequestTimedOut:              Retriable, // appended here, not everywhere: the same sequence again is safe
	kafkago.BrokerNotAvailable:           Retriable,
	kafkago.ReplicaNotAvailable:          Retriable,
	kafkago.NetworkException:             Retriable,
	kafkago.NotEnoughReplicas:            Retriable,
	kafkago.NotEnoughReplicasAfterAppend: Retriable,
	kafkago.KafkaStorageError:            Retriable,
	kafkago.FencedLeaderEpoch:            Retriable,
	kafkago.UnknownLeaderEpoch:           Retriable,
	kafkago.OffsetNotAvailable:           Retriable,
	kafkago.PreferredLeaderNotAvailable:  Retriable,
	kafkago.EligibleLeadersNotAvailable:  Retriable,
	kafkago.ListenerNotFound:             Retriable,
	kafkago.NotController:                Retriable,
	kafkago.ReassignmentInProgress:       Retriable,
	kafkago.ThrottlingQuotaExceeded:      Retriable,
	kafkago.UnknownTopicID:               Retriable,
	kafkago.InconsistentTopicID:          Retriable,
	kafkago.FetchSessionIDNotFound:       Retriable,
	kafkago.InvalidFetchSessionEpoch:     Retriable,
	kafkago.FetchSessionTopicIDError:     Retriable,
	kafkago.UnstableOffsetCommit:         Retriable, // 88: an open transaction holds the offset

	kafkago.GroupLoadInProgress:          Retriable, // 14 COORDINATOR_LOAD_IN_PROGRESS
	kafkago.GroupCoordinatorNotAvailable: Retriable, // 15
	kafkago.NotCoordinatorForGroup:       Retriable, // 16
	kafkago.ConcurrentTransactions:       Retriable, // 51: the transaction before is still being completed

	kafkago.MessageSizeTooLarge: TooLarge, // 10
	kafkago.RecordListTooLarge:  TooLarge, // 18: larger than the topic's segment

	kafkago.OffsetOutOfRange:             Abortable,
	kafkago.OffsetMetadataTooLarge:       Abortable,
	kafkago.InvalidCommitOffsetSize:      Abortable,
	kafkago.InvalidTimestamp:             Abortable,
	kafkago.InvalidRecord:                Abortable,
	kafkago.OutOfOrderSequenceNumber:     Abortable, // 45: a batch before this one is missing
	kafkago.UnknownProducerId:            Abortable, // 59: the broker forgot our sequences
	kafkago.InvalidProducerIDMapping:     Abortable, // 49: the coordinator forgot the id; Init gets another
	kafkago.TransactionCoordinatorFenced: Abortable,
	kafkago.TransactionalIDNotFound:      Abortable,
	codeTransactionAbortable:             Abortable,
	codeOperationNotAttempted:            Abortable, // only beside the code of another partition

	kafkago.IllegalGeneration:   Rebalance, // 22
	kafkago.UnknownMemberId:     Rebalance, // 25
	kafkago.RebalanceInProgress: Rebalance, // 27
	kafkago.MemberIDRequired:    Rebalance, // 79
	codeFencedMemberEpoch:       Rebalance,
	codeStaleMemberEpoch:        Rebalance,

	kafkago.InvalidProducerEpoch:    Fenced, // 47
	kafkago.InvalidTransactionState: Fenced, // 48: how some brokers answer a zombie
	kafkago.ProducerFenced:          Fenced, // 90

	kafkago.FencedInstanceID: InstanceFenced, // 82
	codeUnreleasedInstanceID: InstanceFenced,

	kafkago.TopicAuthorizationFailed:           Fatal, // 29
	kafkago.GroupAuthorizationFailed:           Fatal, // 30
	kafkago.ClusterAuthorizationFailed:         Fatal,
	kafkago.TransactionalIDAuthorizationFailed: Fatal, // 53
	kafkago.SASLAuthenticationFailed:           Fatal, // 58
	kafkago.UnsupportedSASLMechanism:           Fatal,
	kafkago.IllegalSASLState:                   Fatal,
	kafkago.SecurityDisabled:                   Fatal,
	kafkago.UnsupportedVersion:                 Fatal,
	kafkago.UnsupportedForMessageFormat:        Fatal,
	kafkago.UnsupportedCompressionType:         Fatal,
	kafkago.InvalidRequiredAcks:                Fatal,
	kafkago.InvalidTransactionTimeout:          Fatal,
	kafkago.InvalidSessionTimeout:              Fatal,
	kafkago.InvalidGroupId:                     Fatal,
	kafkago.InconsistentGroupProtocol:          Fatal,
	kafkago.GroupMaxSizeReached:                Fatal,
	codeUnsupportedAssignor:                    Fatal,
}

// classed is an error that knows its class, where the code alone would say
// something else.
type classed struct {
	class Class
	err   error
}

func (c *classed) Error() string { return c.err.Error() }
func (c *classed) Unwrap() error { return c.err }

// ClassOf returns the class of an error of this package and of those that stand on it.
// Of several errors the gravest counts.
//
// Errors of the network, of a context and of decoding are Unknown, because the
// broker may have carried the request out, except those that say that nothing was
// sent: a connection that was not made is Retriable, a failed TLS handshake or login Fatal.
func ClassOf(err error) Class {
	if err == nil {
		return None
	}
	var c *classed
	if errors.As(err, &c) {
		return c.class
	}
	var code kafkago.Error
	if errors.As(err, &code) {
		if c, ok := classOfCode[code]; ok {
			return c
		}
		return Unknown
	}
	if errors.Is(err, ErrClosed) || handshakeFailed(err) {
		return Fatal
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return Retriable
	}
	return Unknown
}

// handshakeFailed reports whether err is of a TLS handshake in which one side does not
// trust the other, or does not speak TLS.
func handshakeFailed(err error) bool {
	var verify *tls.CertificateVerificationError
	var header tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verify) || errors.As(err, &header) || errors.As(err, &unknown) ||
		errors.As(err, &host) || errors.As(err, &invalid)
}

// BadReplication reports whether err is of a topic that was to have more replicas than
// there are brokers.
func BadReplication(err error) bool { return errors.Is(err, kafkago.InvalidReplicationFactor) }

// gravity orders the classes by how much the caller has to give up.
var gravity = []Class{None, Retriable, Abortable, TooLarge, Rebalance, Unknown, Fenced, Fatal, InstanceFenced}

// gravest joins errors that happened at the same time, the gravest first, so that
// ClassOf and errors.As find that one.
func gravest(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(e error) bool { return e == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	slices.SortStableFunc(errs, func(a, b error) int {
		return slices.Index(gravity, ClassOf(b)) - slices.Index(gravity, ClassOf(a))
	})
	// A class that was not found by its code must win over a code further back.
	return &classed{ClassOf(errs[0]), several(errs)}
}

// several are errors at the same time, on one line.
type several []error

func (s several) Error() string {
	texts := make([]string, len(s))
	for i, err := range s {
		texts[i] = err.Error()
	}
	texts = slices.Compact(texts)
	if n := len(texts) - 2; n > 0 {
		texts = append(texts[:2], fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, "; and ")
}

func (s several) Unwrap() []error { return s }

// ProduceError is the broker's refusal of one batch.
type ProduceError struct {
	TP      TP
	Code    kafkago.Error
	Message string // what the broker adds, often nothing
	Batch   int    // which batch of the partition, from 0
	Records int    // in the batch
	Bytes   int    // of the batch as sent
}

// settingCompression is the name of the worker's setting.
const settingCompression = "compression"

func (e *ProduceError) Error() string {
	s := fmt.Sprintf("kafka: produce to %s: batch %d (%d records, %d bytes): %v", e.TP, e.Batch, e.Records, e.Bytes, newCodeError(e.Code))
	if e.Message != "" {
		s += ": " + e.Message
	}
	switch e.Code {
	case kafkago.MessageSizeTooLarge:
		s += "; raise max.message.bytes of topic " + e.TP.Topic + " or make the batches smaller"
	case kafkago.TopicAuthorizationFailed:
		s += "; the worker needs WRITE on topic " + e.TP.Topic
	case kafkago.UnsupportedForMessageFormat, kafkago.UnsupportedCompressionType: // the first is how Event Hubs answers
		s += "; if the batches are compressed, these brokers may not take it: set " + settingCompression + " to none, or to gzip"
	}
	return s
}

func (e *ProduceError) Unwrap() error { return e.Code }

// OffsetError is the group coordinator's refusal of an offset.
type OffsetError struct {
	Group string
	TP    TP
	Code  kafkago.Error
}

func (e *OffsetError) Error() string {
	s := fmt.Sprintf("kafka: commit of %s in group %q: %v", e.TP, e.Group, newCodeError(e.Code))
	switch e.Code {
	case kafkago.OffsetMetadataTooLarge:
		s += "; raise the brokers' offset.metadata.max.bytes"
	case kafkago.GroupAuthorizationFailed:
		s += "; the worker needs READ on the group"
	case kafkago.TopicAuthorizationFailed:
		s += "; the worker needs READ on topic " + e.TP.Topic
	}
	return s
}

func (e *OffsetError) Unwrap() error { return e.Code }
