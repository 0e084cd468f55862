package record

import (
	"encoding/binary"
	"errors"
)

// Unreadable is a batch that an iterator cannot read, as far as its header can be
// believed.
type Unreadable struct {
	// First is the first offset that was not delivered: records before the one
	// that is malformed are good. Last is the batch's last one.
	First, Last int64
	Records     int64  // that were not delivered, by the header's count
	TooLarge    bool   // it decompresses to more than is taken; nothing else is wrong with it
	Raw         []byte // the whole batch as it was fetched; it holds as long as the chunk
	Err         error
}

// Unreadable returns the batch that ended Next; ok is false where there is no
// error, or one after which it is not known where the next batch begins.
func (it *Iterator) Unreadable() (u Unreadable, ok bool) {
	if it.err == nil || it.batch == nil {
		return Unreadable{}, false
	}
	b, after := it.batch, it.end
	if it.damaged {
		until := it.until
		if until == 0 { // the chunk does not say
			until = it.base + int64(int32(binary.BigEndian.Uint32(b[23:]))) + 1
		}
		after = batchEnd(b, it.raw, until)
		// A last offset before the position asked for is no more sure than one that
		// is too high: the broker was asked for a batch that holds the position.
		if after <= it.from && len(it.raw) >= 8 {
			after = int64(binary.BigEndian.Uint64(it.raw))
		}
	}
	first := max(it.next, it.base)
	if after <= first {
		return Unreadable{}, false
	}
	n := int64(it.open)
	if n == 0 { // no record was read
		n = int64(int32(binary.BigEndian.Uint32(b[57:])))
	}
	if n <= 0 || n > after-first {
		n = after - first
	}
	return Unreadable{First: first, Last: after - 1, Records: n, TooLarge: errors.Is(it.err, errInflated), Raw: b, Err: it.err}, true
}

// Skip continues after the batch that Unreadable returned.
func (it *Iterator) Skip() {
	u, ok := it.Unreadable()
	if !ok {
		panic("record: skip of a batch of unknown end")
	}
	it.err, it.open = nil, 0
	it.next, it.end = u.Last+1, u.Last+1
	if it.damaged && len(it.aborted)+len(it.txns) > 0 {
		// It may have been the marker that ends an aborted transaction. The broker
		// knows by its own index: a fetch from here lists the transactions whose
		// records are still to be dropped.
		it.raw, it.cut = nil, true
	}
}

// Cut reports that the chunk was left before its end, by Skip: what follows must
// be fetched again, from NextOffset on.
func (it *Iterator) Cut() bool { return it.cut }
