package kafka

import (
	"fmt"

	kafkago "github.com/segmentio/kafka-go"
)

// codeNames has the protocol's names of the codes for which kafka-go has none, or another one.
// Names: https://kafka.apache.org/protocol#protocol_error_codes
var codeNames = map[kafkago.Error]string{
	13:  "Network Exception: the broker disconnected before it answered",
	55:  "Operation Not Attempted: the broker has not tried this part of the request, because another part failed",
	77:  "Stale Broker Epoch",
	78:  "Offset Not Available: the leader cannot tell the end of its log yet",
	80:  "Preferred Leader Not Available",
	81:  "Group Max Size Reached: the group has as many members as the broker allows",
	107: "Ineligible Replica",
	108: "New Leader Elected",
	109: "Offset Moved To Tiered Storage",
	110: "Fenced Member Epoch: the group coordinator has fenced the member",
	111: "Unreleased Instance ID: another member of the group has the instance id",
	112: "Unsupported Assignor: the group does not support the assignor",
	113: "Stale Member Epoch: the group has a newer epoch of the member",
	114: "Mismatched Endpoint Type",
	115: "Unsupported Endpoint Type",
	116: "Unknown Controller ID",
	117: "Unknown Subscription ID",
	118: "Telemetry Too Large",
	119: "Invalid Registration",
	120: "Transaction Abortable: the transaction must be aborted, and may then be repeated",
}

// codeError is a code whose name kafka-go does not know.
type codeError struct {
	code kafkago.Error
	name string
}

func (e *codeError) Error() string { return fmt.Sprintf("[%d] %s", int(e.code), e.name) }
func (e *codeError) Unwrap() error { return e.code }

// newCodeError returns the error of a response's code, nil of 0. It wraps a kafkago.Error.
func newCodeError[C ~int | ~int16](code C) error {
	if code == 0 {
		return nil
	}
	if name, ok := codeNames[kafkago.Error(code)]; ok {
		return &codeError{kafkago.Error(code), name}
	}
	return kafkago.Error(code)
}
