package worker

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linkedin/goavro/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/cmd/bench/testbed"
)

// The franz-go baseline is a straightforward program with the fastest general Go
// client: consume in a group, decode with goavro, keep a mean per key, encode
// with goavro, produce and commit offsets in one transaction. It does the
// same as the Kafka Streams program without a changelog: its state is lost with the process,
// which is in its favour. Partitions are processed in parallel and the transaction ends every
// 100 ms, the default of Kafka Streams.

const franzScore = `{"type":"record","name":"Score","fields":[
  {"name":"sensor","type":"string"},
  {"name":"ts","type":{"type":"long","logicalType":"timestamp-micros"}},
  {"name":"score","type":"double"},
  {"name":"offset","type":"long"}]}`

const franzCommit = 100 * time.Millisecond

// franzPace runs the loop in a process of its own.
func (b *Bench) franzPace(ctx context.Context, in *testbed.Input) (testbed.Pace, error) {
	self, err := os.Executable()
	if err != nil {
		return testbed.Pace{}, err
	}
	group := in.Topic + "-franz-go"
	out := group + "-scores"
	if err := b.Cluster.Admin().CreateTopic(ctx, out, testbed.Partitions, 0, nil); err != nil {
		return testbed.Pace{}, err
	}
	defer b.Drop(out)
	env := os.Environ()
	if b.Procs > 0 {
		env = append(env, fmt.Sprintf("GOMAXPROCS=%d", b.Procs))
	}
	var count testbed.Counter
	p, err := b.Spawn("franz-go", env, &count, self, ChildArgument, "franz-go",
		"-brokers", strings.Join(b.Cluster.Brokers, ","), "-in", in.Topic, "-out", out, "-group", group, "-compression", b.Compression())
	if err != nil {
		return testbed.Pace{}, err
	}
	defer p.Kill()
	total := min(int64(in.Records), int64(b.Scale(franzRecords)))
	ticks, err := b.Watch(ctx, p, total, 5*time.Minute, func() (int64, error) { return count.Records.Load(), nil })
	if err != nil {
		return testbed.Pace{}, err
	}
	r, err := testbed.Steady(ticks, 0.2, 0.95)
	if err == nil {
		b.Say("worker: franz-go: %v", r)
	}
	return r, err
}

// franzLoop is the process; it prints the number of records in committed
// transactions after each.
func franzLoop(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("franz-go", flag.ContinueOnError)
	brokers := fs.String("brokers", "", "")
	input := fs.String("in", "", "")
	output := fs.String("out", "", "")
	group := fs.String("group", "", "")
	compression := fs.String("compression", "none", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	codec := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[*compression]
	s, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(*brokers, ",")...),
		kgo.ConsumerGroup(*group), kgo.ConsumeTopics(*input), kgo.TransactionalID(*group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ProducerBatchCompression(codec), kgo.MaxBufferedRecords(1<<20),
	)
	if err != nil {
		return err
	}
	defer s.Close()

	workers := map[int32]*franzWorker{}
	var committed, open int64
	for ctx.Err() == nil {
		if err := s.Begin(); err != nil {
			return err
		}
		var failed atomic.Pointer[error]
		promise := func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		}
		open = 0
		for began := time.Now(); time.Since(began) < franzCommit; {
			pctx, cancel := context.WithTimeout(ctx, franzCommit)
			fetches := s.PollRecords(pctx, 20_000)
			cancel()
			for _, e := range fetches.Errors() {
				if !errors.Is(e.Err, context.DeadlineExceeded) {
					return e.Err
				}
			}
			var wg sync.WaitGroup
			fetches.EachPartition(func(p kgo.FetchTopicPartition) {
				w := workers[p.Partition]
				if w == nil {
					if w, err = newFranzWorker(); err != nil {
						return
					}
					workers[p.Partition] = w
				}
				open += int64(len(p.Records))
				wg.Go(func() {
					for _, r := range p.Records {
						value, err := w.score(r)
						if err != nil {
							failed.CompareAndSwap(nil, &err)
							return
						}
						s.Produce(ctx, &kgo.Record{Topic: *output, Key: r.Key, Value: value}, promise)
					}
				})
			})
			wg.Wait()
		}
		ok, err := s.End(ctx, kgo.TransactionEndTry(failed.Load() == nil))
		if err != nil {
			return err
		}
		if p := failed.Load(); p != nil {
			return *p
		}
		if !ok {
			return errors.New("worker: franz-go: a transaction was not committed")
		}
		committed += open
		fmt.Fprintln(out, committed)
	}
	return nil
}

// franzWorker scores the records of one partition.
type franzWorker struct {
	in, out *goavro.Codec
	mean    map[string]*float64
}

func newFranzWorker() (*franzWorker, error) {
	in, err := goavro.NewCodec(testbed.ReadingSchema)
	if err != nil {
		return nil, err
	}
	out, err := goavro.NewCodec(franzScore)
	return &franzWorker{in, out, map[string]*float64{}}, err
}

func (w *franzWorker) score(r *kgo.Record) ([]byte, error) {
	if len(r.Value) < 5 {
		return nil, errors.New("worker: franz-go: a record without framing")
	}
	native, _, err := w.in.NativeFromBinary(r.Value[5:])
	if err != nil {
		return nil, err
	}
	m := native.(map[string]any)
	v := m["value"].(float64)
	mean := w.mean[string(r.Key)]
	if mean == nil {
		mean = new(float64)
		w.mean[string(r.Key)] = mean
	}
	*mean += 0.05 * (v - *mean)
	buf := binary.BigEndian.AppendUint32(append(make([]byte, 0, 64), 0), 2)
	return w.out.BinaryFromNative(buf, map[string]any{
		"sensor": m["sensor"], "ts": m["ts"], "score": math.Abs(v - *mean), "offset": r.Offset,
	})
}
