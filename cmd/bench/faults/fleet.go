package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// level is the detector whose scores a plain program computes, too.
const (
	level       = "level"
	levelWindow = 16
)

// settings returns the environment of a worker.
func (r *round) settings(input, group string, brokers []string, guarantee string) []string {
	env := testbed.Environ()
	for _, s := range []string{
		"KAFKA_BROKERS=" + strings.Join(brokers, ","), "GROUP=" + group, "TOPICS=" + input, "GUARANTEE=" + guarantee,
		"FORMAT=json", "KEY_FIELD=sensor", "TIME_FIELD=at", "TIME_UNIT=ms", "VALUE_FIELDS=value",
		"DETECTORS=change," + level, "DETECTOR_CHANGE_OP=ikasst", "DETECTOR_CHANGE_WINDOW=8", "DETECTOR_CHANGE_STRIDE=4",
		"DETECTOR_LEVEL_OP=zscore", "DETECTOR_LEVEL_WINDOW=" + strconv.Itoa(levelWindow), "DETECTOR_LEVEL_THRESHOLD=fixed:5",
		"DETECTOR_LEVEL_CLOSE_AFTER=3", "DETECTOR_LEVEL_UPDATE_EVERY=2", "GROUP_BY=^s-[0-9]", "GROUP_WINDOW=30s",
		"SESSION_TIMEOUT=6s", "REBALANCE_TIMEOUT=20s", "TRANSACTION_TIMEOUT=5s", "COMMIT_INTERVAL=50ms",
	} {
		env = append(env, config.Prefix+s)
	}
	if r.workerDisk != nil {
		env = append(env, config.Prefix+"SCHEMA_REGISTRY_CACHE_DIR="+r.workerDisk.dir, "STATE_DIRECTORY="+r.workerDisk.dir)
	}
	return slices.Concat(env, r.avro.settings(), r.Settings, r.others)
}

// worker is a worker's process.
type worker struct {
	*testbed.Process
	addr string // of its metrics
}

// start starts a worker of the fleet. Workers with even numbers are static members and come back under their name.
func (r *round) start(i int) (*worker, error) {
	var brokers []string
	for _, p := range r.proxies {
		brokers = append(brokers, p.Addr())
	}
	env := r.settings("in-"+r.name, r.group(), brokers, r.Guarantee)
	if i%2 == 0 {
		env = append(env, config.Prefix+"INSTANCE_ID=w"+strconv.Itoa(i))
	}
	r.started++
	program := r.Worker
	if r.kind.name == workerClocks {
		program = r.clockWorker
	}
	if r.kind.name == upgrade && r.started%2 == 1 { // all workers are replaced more than once, by either
		program = r.Other
	}
	return r.launch(fmt.Sprintf("w%d-%d", i, r.started), program, env)
}

func (r *round) launch(name, program string, env []string) (*worker, error) {
	ports, err := kafkatest.FreePorts(1)
	if err != nil {
		return nil, err
	}
	w := &worker{addr: "127.0.0.1:" + strconv.Itoa(ports[0])}
	env = append(env, config.Prefix+"HTTP_ADDR="+w.addr)
	w.Process, err = r.bed.Spawn(r.name+"-"+name, env, nil, program, "run")
	return w, err
}

// replace starts a worker in the place of one that has ended.
func (r *round) replace(i int) (err error) {
	r.workers[i], err = r.start(i)
	return err
}

// drainLimit is the longest time that a worker takes to leave its group while brokers are away.
const drainLimit = 2 * time.Minute

// drain lets a worker finish and wants it to end well.
func drain(w *worker) error {
	if err := w.Stop(drainLimit); err != nil && (w.Err == nil || w.Err.Error() != "signal: terminated") {
		return err
	}
	return nil // also where it had not yet begun to listen to signals
}

// alive says which worker has ended by itself.
func (r *round) alive() error {
	for _, w := range r.workers {
		if err := w.Ended(); err != nil {
			return err
		}
	}
	return nil
}

// unfinished returns err with the ends of all logs.
func (r *round) unfinished(err error) error {
	for _, w := range r.workers {
		err = w.Failed(err)
	}
	return fmt.Errorf("%w\n%s", err, r.c.Logs(10))
}

// at is a record's place.
type at struct {
	partition int32
	offset    int64
}

var seed = maphash.MakeSeed()

// sum is a hash of a record's key and value.
func sum(key, value []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(key)))
	_, _ = h.Write(n[:]) // never fails
	_, _ = h.Write(key)
	_, _ = h.Write(value)
	return h.Sum64()
}

// load writes the input at a steady rate and watches the group's commits.
type load struct {
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	acked   map[at]uint64 // what the brokers have acknowledged
	refused error
	walk    *walk
	avro    *avro       // of the readings; nil: they are JSON
	txn     *kgo.Client // writes transactions, once there is one

	gap time.Duration
}

func (r *round) startLoad(input string) (*load, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.c.Brokers...), kgo.MetadataMinAge(100*time.Millisecond), kgo.MaxBufferedRecords(1<<20),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, err
	}
	l := &load{acked: map[at]uint64{}, walk: newWalk(rand.New(rand.NewPCG(r.seed, 2))), avro: r.avro}
	ctx, stop := context.WithCancel(r.ctx)
	l.stop = stop
	l.wg.Go(func() { // the writer
		defer cl.Close()
		began := time.Now()
		for n := 0; ctx.Err() == nil; {
			time.Sleep(10 * time.Millisecond)
			for ; n < int(time.Since(began).Seconds()*float64(r.Rate)); n++ {
				key, value := l.next("s")
				cl.Produce(r.ctx, &kgo.Record{Topic: input, Key: key, Value: value}, l.note)
			}
		}
		if err := cl.Flush(r.ctx); err != nil {
			l.refused = errors.Join(l.refused, err)
		}
	})
	l.wg.Go(func() { // the watch
		began, last, since := time.Now(), map[kafkatest.TP]int64{}, map[kafkatest.TP]time.Time{}
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			for tp, offset := range r.committed(input) {
				before, seen := last[tp]
				if seen && offset <= before {
					continue
				}
				if seen {
					l.gap = max(l.gap, time.Since(since[tp]))
				}
				last[tp], since[tp] = offset, time.Now()
			}
		}
		for _, at := range since {
			l.gap = max(l.gap, time.Since(at))
		}
		if len(since) == 0 {
			l.gap = time.Since(began)
		}
	})
	return l, nil
}

// next returns a reading of a sensor whose name begins so.
func (l *load) next(prefix string) (key, value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name, at, v := l.walk.next(prefix)
	if l.avro != nil {
		return []byte(name), l.avro.encode(name, at, v)
	}
	text := "null"
	if v != nil {
		text = strconv.FormatFloat(*v, 'g', -1, 64)
	}
	return []byte(name), fmt.Appendf(nil, `{"sensor":%q,"at":%d,"value":%s}`, name, at, text)
}

// transaction writes n readings of sensors of its own in a transaction, and ends it after a pause. Where that fails it is
// not known which way it ended, and the next one is of a new producer.
func (l *load) transaction(r *round, n int, commit bool, pause func()) (err error) {
	if l.txn == nil {
		l.txn, err = kgo.NewClient(kgo.SeedBrokers(r.c.Brokers...), kgo.MetadataMinAge(100*time.Millisecond),
			kgo.TransactionalID("in-"+r.name), kgo.TransactionTimeout(30*time.Second), kgo.DefaultProduceTopic("in-"+r.name))
		if err != nil {
			return err
		}
	}
	var written []*kgo.Record
	for range n {
		key, value := l.next("t")
		written = append(written, &kgo.Record{Key: key, Value: value})
	}
	if err = l.txn.BeginTransaction(); err == nil {
		err = l.txn.ProduceSync(r.ctx, written...).FirstErr()
	}
	pause()
	if err == nil {
		err = l.txn.EndTransaction(r.ctx, kgo.TransactionEndTry(commit))
	}
	if err != nil {
		r.say("a transaction of the input: %v", err)
		l.txn.Close()
		l.txn = nil
		return nil
	}
	if commit {
		for _, rec := range written {
			l.note(rec, nil)
		}
	}
	return nil
}

func (l *load) note(rec *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused = fmt.Errorf("a record of the input was not acknowledged: %w", err)
		return
	}
	l.acked[at{rec.Partition, rec.Offset}] = sum(rec.Key, rec.Value)
}

// end ends the load and notes the longest gap.
func (l *load) end(res *Result) error {
	l.stop()
	l.wg.Wait()
	if l.txn != nil {
		l.txn.Close()
	}
	res.Gap, res.Records = l.gap.Seconds(), len(l.acked)
	return l.refused
}

// committed returns the group's offsets by partition, nothing where they cannot be had.
func (r *round) committed(input string) map[kafkatest.TP]int64 {
	ctx, cancel := context.WithTimeout(r.ctx, 2*time.Second)
	defer cancel()
	offsets, err := r.c.Admin().Offsets(ctx, r.group(), false)
	if err != nil {
		return nil
	}
	by := map[kafkatest.TP]int64{}
	for tp, c := range offsets {
		if tp.Topic == input {
			by[tp] = c.Offset
		}
	}
	return by
}

// walk makes readings of sensors: noise, changes of level, missing values, and spikes.
type walk struct {
	rng   *rand.Rand
	n     int
	ahead int // milliseconds by which the clock of the readings is ahead
	wrong int // number of the next readings whose times are wrong
	by    int // milliseconds by which they are
	level [sensors]float64
}

func newWalk(rng *rand.Rand) *walk { return &walk{rng: rng} }

// walkStart is the time of the first reading, in milliseconds since 1970; each comes a millisecond later.
const walkStart = 1_772_000_000_000

// next returns the next reading, of a sensor whose name begins so; no value is a missing one.
func (w *walk) next(prefix string) (name string, at int, value *float64) {
	s := w.rng.IntN(sensors)
	if w.rng.IntN(500) == 0 {
		w.level[s] += 10 * w.rng.NormFloat64()
	}
	v := w.level[s] + math.Sin(float64(w.n)/400) + 0.1*w.rng.NormFloat64()
	if w.rng.IntN(300) == 0 {
		v += 20
	}
	if w.rng.IntN(100) > 0 {
		value = &v
	}
	at = walkStart + w.ahead + w.n
	if w.wrong > 0 {
		w.wrong--
		at += w.by
	}
	w.n++
	return fmt.Sprintf("%s-%02d", prefix, s), at, value
}
