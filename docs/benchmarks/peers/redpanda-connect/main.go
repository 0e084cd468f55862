// Command redpanda-connect is the aggregation of aggregate.yaml on Redpanda Connect's engine, the module
// github.com/redpanda-data/benthos/v4. Connect's own Kafka components are not in that module; those here do the same
// with the same client, franz-go. They commit no offsets, which is in their favour.
//
// Arguments: brokers, input topic, output topic, compression. Prints the number of records whose results are written,
// five times a second, until it is killed.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed aggregate.yaml
var pipeline string

// batch is the most records that a message batch has.
const batch = 1000

var done atomic.Int64

type input struct {
	opts    []kgo.Opt
	client  *kgo.Client
	fetched []*kgo.Record
}

func (in *input) Connect(context.Context) (err error) {
	in.client, err = kgo.NewClient(in.opts...)
	return err
}

func (in *input) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	for len(in.fetched) == 0 {
		fetches := in.client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, nil, err
		}
		in.fetched = fetches.Records()
	}
	n := min(batch, len(in.fetched))
	b := make(service.MessageBatch, n)
	for i, r := range in.fetched[:n] {
		b[i] = service.NewMessage(r.Value)
		b[i].MetaSetMut("kafka_key", string(r.Key))
	}
	in.fetched = in.fetched[n:]
	return b, func(_ context.Context, err error) error {
		if err == nil {
			done.Add(int64(n))
		}
		return err
	}, nil
}

func (in *input) Close(context.Context) error {
	in.client.Close()
	return nil
}

type output struct {
	opts   []kgo.Opt
	client *kgo.Client
}

func (o *output) Connect(context.Context) (err error) {
	o.client, err = kgo.NewClient(o.opts...)
	return err
}

func (o *output) WriteBatch(ctx context.Context, b service.MessageBatch) error {
	records := make([]*kgo.Record, len(b))
	for i, m := range b {
		key, _ := m.MetaGet("kafka_key")
		value, err := m.AsBytes()
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Key: []byte(key), Value: value}
	}
	return o.client.ProduceSync(ctx, records...).FirstErr()
}

func (o *output) Close(context.Context) error {
	o.client.Close()
	return nil
}

func newInput(conf *service.ParsedConfig, _ *service.Resources) (service.BatchInput, error) {
	brokers, err := conf.FieldString("brokers")
	if err != nil {
		return nil, err
	}
	topic, err := conf.FieldString("topic")
	if err != nil {
		return nil, err
	}
	numbers, err := conf.FieldIntList("partitions")
	if err != nil {
		return nil, err
	}
	from := map[int32]kgo.Offset{}
	for _, p := range numbers {
		from[int32(p)] = kgo.NewOffset().AtStart()
	}
	return &input{opts: []kgo.Opt{kgo.SeedBrokers(strings.Split(brokers, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})}}, nil
}

func newOutput(conf *service.ParsedConfig, _ *service.Resources) (o service.BatchOutput, p service.BatchPolicy, flight int, err error) {
	var text [3]string
	for i, name := range []string{"brokers", "topic", "compression"} {
		if text[i], err = conf.FieldString(name); err != nil {
			return nil, p, 0, err
		}
	}
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[text[2]]
	return &output{opts: []kgo.Opt{kgo.SeedBrokers(strings.Split(text[0], ",")...), kgo.DefaultProduceTopic(text[1]),
		kgo.ProducerBatchCompression(codec)}}, p, 10, nil
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("arguments: brokers, input topic, output topic, compression")
	}
	fields := []*service.ConfigField{service.NewStringField("brokers"), service.NewStringField("topic")}
	in := service.NewConfigSpec().Fields(fields...).Field(service.NewIntListField("partitions"))
	if err := service.RegisterBatchInput("kafka", in, newInput); err != nil {
		return err
	}
	out := service.NewConfigSpec().Fields(fields...).Field(service.NewStringField("compression"))
	if err := service.RegisterBatchOutput("kafka", out, newOutput); err != nil {
		return err
	}
	for i, name := range []string{"BROKERS", "INPUT", "OUTPUT", "COMPRESSION"} {
		if err := os.Setenv(name, args[i]); err != nil {
			return err
		}
	}
	b := service.NewStreamBuilder()
	if err := b.SetYAML(pipeline); err != nil {
		return err
	}
	stream, err := b.Build()
	if err != nil {
		return err
	}
	go func() {
		for range time.Tick(200 * time.Millisecond) {
			fmt.Println(done.Load())
		}
	}()
	return stream.Run(context.Background())
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}
