package kafka

import (
	"encoding/binary"
	"slices"
	"strconv"
	"testing"

	"odradek/processor/kafka/internal/brokertest"
	"odradek/processor/kafka/record"
)

// simple is a batch of n records from offset base on, each with its offset as value and without a producer.
func simple(t testing.TB, base int64, n int) []byte {
	t.Helper()
	bt := record.NewBatches(1<<20, record.CodecNone)
	for i := range n {
		brokertest.Must(t, bt.Append(int64(i), nil, strconv.AppendInt(nil, base+int64(i), 10), nil))
	}
	bt.Finish()
	b := slices.Clone(bt.Seal(0, -1, 0, 0, false)[record.SizePrefix:])
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}
