package kafka

import "encoding/binary"

// Partition returns the partition that the Java client's default partitioner
// gives a record with this key: murmur2 without its sign, modulo the number of
// partitions. A record with a null key is not hashed there but spread; the caller
// decides about those.
func Partition(key []byte, n int) int32 {
	return int32(murmur2(key)&0x7fffffff) % int32(n)
}

// murmur2 is Austin Appleby's MurmurHash2 with the seed that Kafka uses
// (org.apache.kafka.common.utils.Utils.murmur2).
func murmur2(b []byte) uint32 {
	const (
		seed = 0x9747b28c
		m    = 0x5bd1e995
		r    = 24
	)
	h := uint32(seed) ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := binary.LittleEndian.Uint32(b) * m
		k ^= k >> r
		h = h*m ^ k*m
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h = (h ^ uint32(b[0])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
