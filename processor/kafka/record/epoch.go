package record

import (
	"encoding/binary"
	"strconv"
)

// Epoch is a leader epoch: Kafka numbers the leaders of a partition from 0, and
// every batch carries the number of the leader that appended it (KIP-101). A
// position with the epoch of the record before it can be compared with the present
// log (KIP-320): after an unclean election the log may lack records that were read,
// and have others at their offsets.
//
// The value is the number plus one: the zero value is an unknown epoch, which is not
// checked.
type Epoch int32

// EpochOf converts a number from the wire, where -1 stands for unknown.
func EpochOf(number int32) Epoch { return Epoch(max(number, -1) + 1) }

// Number returns the number on the wire.
func (e Epoch) Number() int32 { return int32(e) - 1 }

// String returns the number, or "unknown".
func (e Epoch) String() string {
	if e <= 0 {
		return "unknown"
	}
	return strconv.Itoa(int(e.Number()))
}

// LastEpoch returns the epoch of the last of some whole batches: the largest one, since
// epochs only grow in a log, and one that does not belongs to a damaged header. It walks
// the headers, not the records.
func LastEpoch(raw []byte) (e Epoch) {
	for len(raw) >= 17 {
		if raw[16] >= 2 { // older formats have none
			e = max(e, EpochOf(int32(binary.BigEndian.Uint32(raw[12:]))))
		}
		size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		raw = raw[min(size, len(raw)):]
	}
	return e
}
