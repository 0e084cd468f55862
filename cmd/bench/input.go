package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/registry"
)

// readingSchema is what the benchmarks' inputs are written in, the schema of the
// Kafka Streams program in docs/benchmarks/peers. With the keys and the unit
// here a value is 59 to 61 bytes in Confluent framing.
const readingSchema = `{"type":"record","name":"R","fields":[
  {"name":"sensor","type":"string"},
  {"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},
  {"name":"value","type":"double"},
  {"name":"unit","type":"string"},
  {"name":"seq","type":"long"}]}`

const readingUnit = "degrees Celsius"

// appendReading writes a record of readingSchema. Go's varint is Avro's long.
func appendReading(dst []byte, schemaID int32, sensor []byte, ts int64, value float64, seq int64) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0), uint32(schemaID))
	dst = append(binary.AppendVarint(dst, int64(len(sensor))), sensor...)
	dst = binary.AppendVarint(dst, ts)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(value))
	dst = append(binary.AppendVarint(dst, int64(len(readingUnit))), readingUnit...)
	return binary.AppendVarint(dst, seq)
}

// inputBatch is the size of a batch of the inputs, about 1,500 records: a
// producer that lingers a little. The topics are written before anything is
// measured, so that the producer costs nothing then.
const inputBatch = 128 << 10

// benchInput is an input topic with its series keys, as many for each partition.
type benchInput struct {
	topic    string
	schemaID int32
	keys     [][][]byte // by partition
	records  int
}

// partitions of the inputs, as in the Kafka Streams program's measurements.
const inputPartitions = 4

// newInput creates a topic for series keys that are spread evenly over its
// partitions, by the hash that every client uses, and registers its schema.
func (b *bench) newInput(ctx context.Context, name string, keys int) (*benchInput, error) {
	in, err := b.newInputOf(ctx, name, inputPartitions)
	if err != nil {
		return nil, err
	}
	quota := (keys + inputPartitions - 1) / inputPartitions
	for i, n := 0, 0; n < keys; i++ {
		key := fmt.Appendf(nil, "press-%05d/bearing", i)
		if p := kafka.Partition(key, inputPartitions); len(in.keys[p]) < quota {
			in.keys[p] = append(in.keys[p], key)
			n++
		}
	}
	return in, nil
}

// newInputOf is newInput without keys yet.
func (b *bench) newInputOf(ctx context.Context, name string, partitions int) (*benchInput, error) {
	in := &benchInput{topic: fmt.Sprintf("bench-%s-%04x", name, rand.IntN(1<<16)), keys: make([][][]byte, partitions)}
	if err := b.cluster.Admin().CreateTopic(ctx, in.topic, partitions, 0, nil); err != nil {
		return nil, err
	}
	b.topics = append(b.topics, in.topic)
	reg, err := registry.New(registry.Config{URLs: []string{b.registry.URL}})
	if err != nil {
		return nil, err
	}
	defer reg.Close()
	in.schemaID, err = reg.Register(ctx, schemas.Subject(in.topic), readingSchema)
	return in, err
}

// fill writes n records, the keys of each partition in turn, with event times a
// microsecond apart up to now, and noise as values.
func (b *bench) fill(ctx context.Context, in *benchInput, n int) error {
	began := time.Now()
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	each := n / inputPartitions
	errs := make([]error, inputPartitions)
	var wg sync.WaitGroup
	for p := range in.keys {
		wg.Go(func() { errs[p] = in.fillPartition(ctx, client, int32(p), each, began.UnixMicro()-int64(n)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("fill %s: %w", in.topic, err)
		}
	}
	in.records += each * inputPartitions
	took := time.Since(began)
	b.say("wrote %d records of %d bytes to %s in %v", in.records,
		len(appendReading(nil, in.schemaID, in.keys[0][0], began.UnixMicro(), 0, int64(each))),
		in.topic, took.Round(time.Millisecond))
	return nil
}

func (in *benchInput) fillPartition(ctx context.Context, client *kafka.Client, p int32, n int, from int64) error {
	const round = 1 << 15 // records between acknowledgements
	prod := client.NewProducer(kafka.ProducerConfig{})
	if err := prod.Init(ctx); err != nil {
		return err
	}
	out := record.NewBatches(inputBatch, record.CodecNone)
	rng := rand.New(rand.NewPCG(uint64(p), 1))
	keys, value := in.keys[p], make([]byte, 0, 128)
	for i := 0; i < n; i++ {
		key := keys[i%len(keys)]
		value = appendReading(value[:0], in.schemaID, key, from+int64(i)*inputPartitions, 20+rng.Float64(), int64(i))
		if err := out.Append(time.Now().UnixMilli(), key, value, nil); err != nil {
			return err
		}
		if out.Count() == round || i == n-1 {
			if err := prod.Produce(ctx, map[kafka.TP]*record.Batches{{Topic: in.topic, Partition: p}: out}); err != nil {
				return err
			}
			out.Reset()
		}
	}
	return nil
}

// drop deletes topics; what stays behind costs only disk.
func (b *bench) drop(topics ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, t := range topics {
		_ = b.cluster.Admin().DeleteTopic(ctx, t)
	}
}

// keyMix draws series keys by a distribution: a shuffled deck that is dealt
// round after round, so that shares are exact and drawing costs nothing.
type keyMix struct {
	keys [][]byte
	part []int32
	deck []uint32
}

const deckSize = 1 << 17

// evenMix takes each key as often.
func (in *benchInput) evenMix(rng *rand.Rand) *keyMix {
	m := in.mix()
	for i := range m.deck {
		m.deck[i] = uint32(i % len(m.keys))
	}
	return m.shuffled(rng)
}

// zipfMix gives the first key the share hot and the others the rest, the k-th of
// them in proportion to 1/k.
func (in *benchInput) zipfMix(rng *rand.Rand, hot float64) *keyMix {
	m := in.mix()
	n := int(hot * deckSize) // the first key's cards are those of index 0
	clear(m.deck[:n])
	sum := 0.0
	for k := 1; k < len(m.keys); k++ {
		sum += 1 / float64(k)
	}
	at, acc := n, 0.0
	for k := 1; k < len(m.keys); k++ {
		acc += 1 / float64(k)
		for end := n + int(math.Round(acc/sum*float64(deckSize-n))); at < end; at++ {
			m.deck[at] = uint32(k)
		}
	}
	return m.shuffled(rng)
}

// mix interleaves the partitions' keys, so that neighbours in rank lie apart.
func (in *benchInput) mix() *keyMix {
	m := &keyMix{deck: make([]uint32, deckSize)}
	for i := range in.keys[0] {
		for p := range in.keys {
			if i < len(in.keys[p]) {
				m.keys, m.part = append(m.keys, in.keys[p][i]), append(m.part, int32(p))
			}
		}
	}
	return m
}

func (m *keyMix) shuffled(rng *rand.Rand) *keyMix {
	rng.Shuffle(len(m.deck), func(i, j int) { m.deck[i], m.deck[j] = m.deck[j], m.deck[i] })
	return m
}
