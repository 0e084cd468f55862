package testbed

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

// ReadingSchema is the schema of the benchmarks' inputs, the schema of the
// Kafka Streams program in docs/benchmarks/peers. With the keys and the unit
// here a value is 59 to 61 bytes in Confluent framing.
const ReadingSchema = `{"type":"record","name":"R","fields":[
  {"name":"sensor","type":"string"},
  {"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},
  {"name":"value","type":"double"},
  {"name":"unit","type":"string"},
  {"name":"seq","type":"long"}]}`

const readingUnit = "degrees Celsius"

// AppendReading writes a record of ReadingSchema. Go's varint is Avro's long.
func AppendReading(dst []byte, schemaID int32, sensor []byte, ts int64, value float64, seq int64) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, 0), uint32(schemaID))
	dst = append(binary.AppendVarint(dst, int64(len(sensor))), sensor...)
	dst = binary.AppendVarint(dst, ts)
	dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(value))
	dst = append(binary.AppendVarint(dst, int64(len(readingUnit))), readingUnit...)
	return binary.AppendVarint(dst, seq)
}

// BatchBytes is the size of a batch of the inputs, about 1,500 records: a
// producer that lingers a little. The topics are written before anything is
// measured, so that the producer costs nothing then.
const BatchBytes = 128 << 10

// Input is an input topic with its series keys, as many for each partition.
type Input struct {
	Topic    string
	SchemaID int32
	Keys     [][][]byte // by partition
	Records  int
}

// Partitions is the number of partitions of NewInput, as in the Kafka Streams program's measurements.
const Partitions = 4

// NewInput creates a topic for series keys that are spread evenly over its
// partitions, by the hash that every client uses, and registers its schema.
func (b *Bed) NewInput(ctx context.Context, name string, keys int) (*Input, error) {
	in, err := b.NewEmptyInput(ctx, name, Partitions)
	if err != nil {
		return nil, err
	}
	quota := (keys + Partitions - 1) / Partitions
	for i, n := 0, 0; n < keys; i++ {
		key := fmt.Appendf(nil, "press-%05d/bearing", i)
		if p := kafka.Partition(key, Partitions); len(in.Keys[p]) < quota {
			in.Keys[p] = append(in.Keys[p], key)
			n++
		}
	}
	return in, nil
}

// NewEmptyInput is NewInput without keys yet.
func (b *Bed) NewEmptyInput(ctx context.Context, name string, partitions int) (*Input, error) {
	in := &Input{Topic: fmt.Sprintf("bench-%s-%04x", name, rand.IntN(1<<16)), Keys: make([][][]byte, partitions)}
	if err := b.Cluster.Admin().CreateTopic(ctx, in.Topic, partitions, 0, nil); err != nil {
		return nil, err
	}
	b.topics = append(b.topics, in.Topic)
	reg, err := registry.New(registry.Config{URLs: []string{b.registry.URL}})
	if err != nil {
		return nil, err
	}
	defer reg.Close()
	in.SchemaID, err = reg.Register(ctx, schemas.Subject(in.Topic), ReadingSchema)
	return in, err
}

// Fill writes n records, the keys of each partition in turn, with event times a
// microsecond apart up to now, and noise as values.
func (b *Bed) Fill(ctx context.Context, in *Input, n int) error {
	began := time.Now()
	client, err := kafka.Open(ctx, kafka.Config{Brokers: b.Cluster.Brokers, ClientID: "bench"})
	if err != nil {
		return err
	}
	defer client.Close()
	each := n / Partitions
	errs := make([]error, Partitions)
	var wg sync.WaitGroup
	for p := range in.Keys {
		wg.Go(func() { errs[p] = in.fillPartition(ctx, client, int32(p), each, began.UnixMicro()-int64(n)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("fill %s: %w", in.Topic, err)
		}
	}
	in.Records += each * Partitions
	took := time.Since(began)
	b.Say("wrote %d records of %d bytes to %s in %v", in.Records,
		len(AppendReading(nil, in.SchemaID, in.Keys[0][0], began.UnixMicro(), 0, int64(each))),
		in.Topic, took.Round(time.Millisecond))
	return nil
}

func (in *Input) fillPartition(ctx context.Context, client *kafka.Client, p int32, n int, from int64) error {
	const round = 1 << 15 // records between acknowledgements
	prod := client.NewProducer(kafka.ProducerConfig{})
	if err := prod.Init(ctx); err != nil {
		return err
	}
	out := record.NewBatches(BatchBytes, record.CodecNone)
	rng := rand.New(rand.NewPCG(uint64(p), 1))
	keys, value := in.Keys[p], make([]byte, 0, 128)
	for i := 0; i < n; i++ {
		key := keys[i%len(keys)]
		value = AppendReading(value[:0], in.SchemaID, key, from+int64(i)*Partitions, 20+rng.Float64(), int64(i))
		if err := out.Append(time.Now().UnixMilli(), key, value, nil); err != nil {
			return err
		}
		if out.Count() == round || i == n-1 {
			if err := prod.Produce(ctx, map[kafka.TP]*record.Batches{{Topic: in.Topic, Partition: p}: out}); err != nil {
				return err
			}
			out.Reset()
		}
	}
	return nil
}

// Drop deletes topics; an error costs disk space only.
func (b *Bed) Drop(topics ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, t := range topics {
		_ = b.Cluster.Admin().DeleteTopic(ctx, t)
	}
}

// KeyMix draws series keys by a distribution: a shuffled deck that is dealt
// round after round, so that shares are exact and drawing costs nothing.
type KeyMix struct {
	Keys      [][]byte
	Partition []int32
	Deck      []uint32
}

// DeckSize is the number of cards of a KeyMix.
const DeckSize = 1 << 17

// EvenMix takes each key as often.
func (in *Input) EvenMix(rng *rand.Rand) *KeyMix {
	m := in.mix()
	for i := range m.Deck {
		m.Deck[i] = uint32(i % len(m.Keys))
	}
	return m.shuffled(rng)
}

// ZipfMix gives the first key the share hot and the others the rest, the k-th of
// them in proportion to 1/k.
func (in *Input) ZipfMix(rng *rand.Rand, hot float64) *KeyMix {
	m := in.mix()
	n := int(hot * DeckSize) // the first key's cards have index 0
	clear(m.Deck[:n])
	sum := 0.0
	for k := 1; k < len(m.Keys); k++ {
		sum += 1 / float64(k)
	}
	at, acc := n, 0.0
	for k := 1; k < len(m.Keys); k++ {
		acc += 1 / float64(k)
		for end := n + int(math.Round(acc/sum*float64(DeckSize-n))); at < end; at++ {
			m.Deck[at] = uint32(k)
		}
	}
	return m.shuffled(rng)
}

// mix interleaves the partitions' keys, so that neighbours in rank lie apart.
func (in *Input) mix() *KeyMix {
	m := &KeyMix{Deck: make([]uint32, DeckSize)}
	for i := range in.Keys[0] {
		for p := range in.Keys {
			if i < len(in.Keys[p]) {
				m.Keys, m.Partition = append(m.Keys, in.Keys[p][i]), append(m.Partition, int32(p))
			}
		}
	}
	return m
}

func (m *KeyMix) shuffled(rng *rand.Rand) *KeyMix {
	rng.Shuffle(len(m.Deck), func(i, j int) { m.Deck[i], m.Deck[j] = m.Deck[j], m.Deck[i] })
	return m
}
