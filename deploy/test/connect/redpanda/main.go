// Command redpanda is the engine of Redpanda Connect with an input in place of its own, redpanda.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"
	_ "github.com/redpanda-data/benthos/v4/public/components/pure"
	"github.com/redpanda-data/benthos/v4/public/service"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The input redpanda is in a module of its own, with drivers of hundreds of systems. This one has the fields that the pipelines use,
// which fail the test where they are misspelt, and the same client underneath; all else of a pipeline is Redpanda Connect's engine.

func main() {
	env, err := newEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	service.RunCLI(context.Background(), service.CLIOptSetEnvironment(env))
}

// newEnvironment returns the engine's components and the input.
func newEnvironment() (*service.Environment, error) {
	env := service.NewEnvironment()
	spec := service.NewConfigSpec().Fields(
		service.NewStringListField("seed_brokers"),
		service.NewStringListField("topics"),
		service.NewStringField("consumer_group"),
		service.NewStringEnumField("transaction_isolation_level", "read_uncommitted", "read_committed").Default("read_uncommitted"),
		service.NewObjectField("unordered_processing",
			service.NewBoolField("enabled").Default(false),
			service.NewIntField("checkpoint_limit").Default(1024)),
	)
	return env, env.RegisterBatchInput("redpanda", spec, func(c *service.ParsedConfig, _ *service.Resources) (service.BatchInput, error) {
		in, err := newInput(c)
		if err != nil {
			return nil, err
		}
		return service.AutoRetryNacksBatched(in), nil
	})
}

type input struct {
	opts []kgo.Opt
	mu   sync.Mutex
	cl   *kgo.Client
}

func newInput(c *service.ParsedConfig) (*input, error) {
	brokers, err := c.FieldStringList("seed_brokers")
	if err != nil {
		return nil, err
	}
	topics, err := c.FieldStringList("topics")
	if err != nil {
		return nil, err
	}
	group, err := c.FieldString("consumer_group")
	if err != nil {
		return nil, err
	}
	isolation, err := c.FieldString("transaction_isolation_level")
	if err != nil {
		return nil, err
	}
	level := kgo.ReadUncommitted()
	if isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	return &input{opts: []kgo.Opt{kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...), kgo.ConsumerGroup(group),
		kgo.FetchIsolationLevel(level), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitMarks()}}, nil
}

func (in *input) Connect(context.Context) (err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cl == nil {
		in.cl, err = kgo.NewClient(in.opts...)
	}
	return err
}

func (in *input) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	f := in.cl.PollRecords(ctx, 50) // several batches of a burst, as brokers send them
	if err := f.Err0(); err != nil {
		return nil, nil, err
	}
	var batch service.MessageBatch
	records := f.Records()
	for _, r := range records {
		m := service.NewMessage(r.Value)
		m.MetaSetMut("kafka_key", string(r.Key))
		batch = append(batch, m)
	}
	return batch, func(context.Context, error) error {
		in.cl.MarkCommitRecords(records...)
		return nil
	}, nil
}

func (in *input) Close(context.Context) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.cl != nil {
		in.cl.Close()
	}
	return nil
}
