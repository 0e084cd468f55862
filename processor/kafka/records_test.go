package kafka

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"odradek/processor/kafka/record"
)

// seeded prints the seed of a test; ODRADEK_TEST_SEED repeats a run.
func seeded(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("ODRADEK_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// tpOf names a partition.
func tpOf(topic string, partition int32) TP { return TP{Topic: topic, Partition: partition} }

type plainRecord struct {
	offset, ts int64
	key, value []byte
	headers    []record.Header
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(6))
	}
	return b
}

func randomRecord(r *rand.Rand, ts int64) plainRecord {
	p := plainRecord{ts: ts}
	switch r.IntN(4) {
	case 0: // null
	case 1:
		p.key = []byte{}
	default:
		p.key = randomBytes(r, r.IntN(200))
	}
	switch r.IntN(5) {
	case 0:
	case 1:
		p.value = []byte{}
	default:
		p.value = randomBytes(r, r.IntN(1000))
	}
	for n := r.IntN(8) - 4; n > 0; n-- {
		h := record.Header{Key: string(randomBytes(r, r.IntN(80)))}
		if r.IntN(3) > 0 {
			h.Value = randomBytes(r, r.IntN(80))
		}
		p.headers = append(p.headers, h)
	}
	return p
}

// simple is a batch of n records from offset base on, each with its offset as value and without a producer.
func simple(t testing.TB, base int64, n int) []byte {
	t.Helper()
	bt := record.NewBatches(1<<20, record.CodecNone)
	for i := range n {
		must(t, bt.Append(int64(i), nil, strconv.AppendInt(nil, base+int64(i), 10), nil))
	}
	bt.Finish()
	b := slices.Clone(bt.Seal(0, -1, 0, 0, false)[record.SizePrefix:])
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func equalHeaders(a, b []record.Header) bool {
	return slices.EqualFunc(a, b, func(x, y record.Header) bool { return x.Key == y.Key && same(x.Value, y.Value) })
}
