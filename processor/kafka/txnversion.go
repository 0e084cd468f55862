package kafka

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// The two versions of the transactions' protocol.
//
// Version 1 (KIP-98): the producer keeps its epoch from one transaction to the next. A request that was held up on its way
// can reach its broker in a later transaction of the same epoch, and would be taken for a part of it, or end it. Only Init prevents
// that: it raises the epoch, and so has to follow every request of unknown outcome.
//
// Version 2 (KIP-890, part 2): EndTxn 5 raises the epoch, so that the brokers refuse what is late of any transaction that has ended,
// and EndTxn can be repeated without an Init after it. Sequence numbers begin at 0 with each epoch.
//
// With version 2 brokers can also add partitions and groups to the transaction by themselves (Produce 12, TxnOffsetCommit 5), which
// saves AddPartitionsToTxn and AddOffsetsToTxn. That is not used: the coordinator takes one change of a transaction at a time,
// and a leader that it turns away tries again 20 ms later, so that a transaction with partitions on three leaders takes 1.6 times as
// long as one whose partitions are added by one request. What is late is refused in both ways: leaders ask the coordinator
// whether the partition and the epoch are of the transaction that is open.
//
// identity.v2 says which one a producer speaks. Init alone sets it, since a change from 1 to 2 needs a new epoch. Where the cluster
// is downgraded, a producer speaks version 2 up to its next Init: brokers take the versions of requests that they have,
// regardless of the feature, and one that is too old for them closes the connection, which is of class Unknown and leads to Init.

// endTxnVersion2 is the version of EndTxn that raises the epoch.
const endTxnVersion2 = 5

// brokerFeatures is ApiVersions v3 and its response: the newest versions of requests that a broker has, and the
// features that its cluster has finalized (KIP-584). kafka-go knows ApiVersions without features.
type brokerFeatures struct {
	newest    map[protocol.ApiKey]int16
	finalized map[string]int16
}

const brokerFeaturesVersion = 3

// transactionsV2 asks a broker whether its cluster speaks version 2 of the transactions' protocol.
func (c *Cluster) transactionsV2(ctx context.Context, broker int32) (bool, error) {
	if c.transport.newest(protocol.ApiVersions) < brokerFeaturesVersion {
		return false, nil // before Kafka 2.4
	}
	f := &brokerFeatures{newest: map[protocol.ApiKey]int16{}, finalized: map[string]int16{}}
	if _, err := c.roundTrip(ctx, broker, f); err != nil {
		return false, err
	}
	return f.finalized["transaction.version"] >= 2 && f.newest[protocol.EndTxn] >= endTxnVersion2, nil
}

func (*brokerFeatures) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

func (f *brokerFeatures) Exchange(rw io.ReadWriter, _ int16, correlation int32, clientID string) (protocol.Message, error) {
	b := appendRequest(nil, protocol.ApiVersions, brokerFeaturesVersion, correlation, clientID, true)
	b = appendCompactString(b, "odradek") // name and version of the client's software (KIP-511); neither may be empty
	b = appendCompactString(b, "1")
	b = append(b, 0) // no tagged fields
	var r wireReader
	if err := r.Ask(rw, b, correlation, false); err != nil { // the old header at every version, so that any client can read it
		return nil, err
	}
	if r.Int16() != 0 {
		return f, r.End() // a broker without the version, which has none of these features
	}
	for n := r.CompactCount(7); n > 0 && r.Err() == nil; n-- {
		key := protocol.ApiKey(r.Int16())
		r.Int16() // oldest version
		f.newest[key] = r.Int16()
		r.Tags()
	}
	r.Int32() // throttle time
	const finalizedFeatures = 2
	for n := r.uvarint(); n > 0 && r.Err() == nil; n-- {
		tag, size := r.uvarint(), r.uvarint()
		if tag != finalizedFeatures {
			r.Bytes(int(min(size, maxResponse)))
			continue
		}
		for n := r.CompactCount(6); n > 0 && r.Err() == nil; n-- {
			name := string(r.CompactString())
			f.finalized[name] = r.Int16()
			r.Int16() // lowest level
			r.Tags()
		}
	}
	return f, r.End()
}

// endTxn is EndTxn and its response. Version 5 is of version 2 of the protocol; older versions differ in their encoding alone.
type endTxn struct {
	identity identity
	commit   bool

	code int16
	next struct { // producer id and epoch of the next transaction; the id is another one where epochs are used up. Only of version 2
		id    int64
		epoch int16
	}
}

func (*endTxn) ApiKey() protocol.ApiKey { return protocol.EndTxn }

func (e *endTxn) Exchange(rw io.ReadWriter, highest int16, correlation int32, clientID string) (protocol.Message, error) {
	version := min(highest, 2) // the last one that is not flexible
	if e.identity.v2 {
		version = endTxnVersion2
	}
	b := appendRequest(nil, protocol.EndTxn, version, correlation, clientID, e.identity.v2)
	if e.identity.v2 {
		b = appendCompactString(b, e.identity.transactionalID)
	} else {
		b = appendString(b, e.identity.transactionalID)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(e.identity.id))
	b = binary.BigEndian.AppendUint16(b, uint16(e.identity.epoch))
	commit := byte(0)
	if e.commit {
		commit = 1
	}
	b = append(b, commit)
	if e.identity.v2 {
		b = append(b, 0) // no tagged fields
	}
	var r wireReader
	if err := r.Ask(rw, b, correlation, e.identity.v2); err != nil {
		return nil, err
	}
	r.Int32() // throttle time
	e.code = r.Int16()
	if e.identity.v2 {
		e.next.id, e.next.epoch = r.Int64(), r.Int16()
	}
	return e, r.End()
}
