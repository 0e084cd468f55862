package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
)

// Redrive is a way to send letters again.
type Redrive struct {
	Client  *kafka.Client
	Topic   *Topic
	Filter  Filter
	Sources []string // topics of the group: the only ones that get records back
	To      string   // where the records go; "": to the topic and partition that they came from
	// Partitions is how many a new To gets.
	Partitions int
	Schema     int32 // the schema id that all values name from now on; 0: each its own
	First      bool  // see Letter.Reframe
	// Reader returns what reads the records of a topic as the worker would, and how far an event time may be past the
	// record's timestamp, 0 for any: what is refused stays where it is. nil: all are sent.
	Reader   func(topic string) (schemas.Decoder, time.Duration)
	Attempts int  // records that were sent as often as this stay where they are
	Again    bool // also what was sent before
	Most     int  // letters to send; 0: all
	Dry      bool

	MaxMessage  int
	Codec       record.Codec
	Replication int // of new topics

	reading  schemas.Reading
	targets  map[string]*cycle.Topic
	producer *kafka.Producer
	out      map[kafka.TP]*record.Batches
	marks    map[sentTo]*runs // letters in out
	pending  Tally            // of out
	bytes    int
	step     func(string) // tests are called between the steps of a transaction
}

// Why a letter is not sent.
const (
	WhySent     = "sent there before"
	WhyBatch    = "a whole batch that could not be read"
	WhyAttempts = "sent too often"
	WhyNoSource = "from a topic that is none of the group's"
	WhyTooLarge = "larger than the topic takes"
	WhyCut      = "cut off, and no longer in the source topic"
	WhyRefused  = "would be a dead letter again"
)

// Tally counts letters by reason, and what became of them.
type Tally struct {
	Sent map[string]int            `json:"sent"` // by class
	Kept map[string]map[string]int `json:"kept"` // by why, then by class; of WhyRefused the present class
}

func (t *Tally) sent(class string, n int) {
	if t.Sent == nil {
		t.Sent = map[string]int{}
	}
	t.Sent[class] += n
}

func (t *Tally) keep(why, class string) {
	if t.Kept == nil {
		t.Kept = map[string]map[string]int{}
	}
	if t.Kept[why] == nil {
		t.Kept[why] = map[string]int{}
	}
	t.Kept[why][class]++
}

// Total returns the number of letters that were sent.
func (t *Tally) Total() (n int) {
	for _, k := range t.Sent {
		n += k
	}
	return n
}

// A transaction is ended after as many letters, or as many bytes of them.
const (
	transactionLetters = 500
	transactionBytes   = 4 << 20
)

// endLimit bounds the end of a transaction that was begun before the command was interrupted.
const endLimit = 30 * time.Second

// Run sends the selected letters and returns what became of them, also beside an error. It may be interrupted
// at any point and run again: a letter is in the ledger (LedgerTopic) if and only if its record is where it was sent.
// If two redrives of a topic run at a time, the one that began first ends with an error.
func (r *Redrive) Run(ctx context.Context) (done Tally, err error) {
	r.targets, r.out, r.marks = map[string]*cycle.Topic{}, map[kafka.TP]*record.Batches{}, map[sentTo]*runs{}
	if !r.Dry {
		if err := r.start(ctx); err != nil {
			return done, err
		}
	}
	chosen := 0
	err = r.Topic.Each(ctx, &r.Filter, func(l *Letter) (bool, error) {
		why, class, err := r.resend(ctx, l)
		switch {
		case err != nil:
			return false, fmt.Errorf("letter %s/%d: %w", l.TP, l.Offset, err)
		case why != "":
			done.keep(why, class)
			return true, nil
		case r.Dry:
			done.sent(l.Class, 1)
		case r.pending.Total() >= transactionLetters || r.bytes >= transactionBytes:
			if err := r.commit(ctx, &done); err != nil {
				return false, err
			}
		}
		chosen++
		return r.Most == 0 || chosen < r.Most, ctx.Err()
	})
	if err == nil && !r.Dry {
		err = r.commit(ctx, &done)
	}
	return done, err
}

// start makes the ledger, fences off a redrive that runs or was killed, which ends its transaction, and
// only then reads what was sent.
func (r *Redrive) start(ctx context.Context) error {
	name := LedgerTopic(r.Topic.Name)
	if err := r.Client.Admin.CreateTopic(ctx, name, 1, r.Replication, LedgerConfigs); err != nil {
		return fmt.Errorf("admin: create topic %q, which holds what was sent again: %w", name, err)
	}
	if r.To != "" {
		if err := r.Client.Admin.CreateTopic(ctx, r.To, r.Partitions, r.Replication, nil); err != nil {
			return fmt.Errorf("admin: create topic %q: %w", r.To, err)
		}
	}
	r.producer = r.Client.NewProducer(kafka.ProducerConfig{TransactionalID: r.Topic.Name + "-redrive"})
	return r.init(ctx)
}

func (r *Redrive) init(ctx context.Context) error {
	if err := r.producer.Init(ctx); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	return r.Topic.reload(ctx, true)
}

// resend adds the letter's record to the transaction, or says why it stays where it is.
func (r *Redrive) resend(ctx context.Context, l *Letter) (why, class string, err error) {
	name := cmp.Or(r.To, l.Source.Topic)
	switch {
	case !r.Again && slices.Contains(r.Topic.Sent(l), name):
		return WhySent, l.Class, nil
	case l.Batch != nil:
		return WhyBatch, l.Class, nil
	case l.Attempts >= r.Attempts:
		return WhyAttempts, l.Class, nil
	case r.To == "" && !slices.Contains(r.Sources, l.Source.Topic):
		return WhyNoSource, l.Class, nil
	}
	if l.Truncated {
		if ok, err := r.Topic.whole(ctx, l); err != nil || !ok {
			return WhyCut, l.Class, err
		}
	}
	if r.Schema > 0 && l.Value != nil {
		l.Reframe(r.Schema, r.First)
	}
	if class, err := r.refused(ctx, l); err != nil || class != "" {
		return WhyRefused, class, err
	}
	t, err := r.target(ctx, name)
	if err != nil {
		return "", "", err
	}
	headers := append(slices.Clone(l.Headers),
		record.Header{Key: AttemptsHeader, Value: strconv.AppendInt(nil, int64(l.Attempts+1), 10)},
		record.Header{Key: FromHeader, Value: fmt.Appendf(nil, "%s/%d", l.TP, l.Offset)})
	if record.BatchSize(l.Key, l.Value, headers) > t.BatchBytes {
		return WhyTooLarge, l.Class, nil
	}
	if r.Dry {
		return "", "", nil
	}
	tp := kafka.TP{Topic: t.Name, Partition: partition(l, t.Partitions)}
	b := r.out[tp]
	if b == nil {
		b = record.NewTransactionBatches(t.BatchBytes, r.Codec)
		r.out[tp] = b
	}
	ms := l.Timestamp
	if _, copied := l.Header(cycle.TimestampHeader); copied { // the letter is of an internal topic
		ms = time.Now().UnixMilli()
	}
	if err := b.Append(ms, l.Key, l.Value, headers); err != nil {
		return "", "", err
	}
	mark := sentTo{l.TP.Partition, name}
	if r.marks[mark] == nil {
		r.marks[mark] = &runs{}
	}
	r.marks[mark].add(l.Offset)
	r.pending.sent(l.Class, 1)
	r.bytes += len(l.Key) + len(l.Value)
	return "", "", nil
}

// partition keeps a record in the partition that it came from, regardless of the producer's
// partitioner was: there is the state of its series. A topic with fewer partitions gets it by its key.
func partition(l *Letter, partitions int) int32 {
	switch {
	case int(l.Source.Partition) < partitions && l.Source.Partition >= 0:
		return l.Source.Partition
	case l.Key == nil:
		return 0
	}
	return kafka.Partition(l.Key, partitions)
}

// refused returns the class of the error with which the worker would refuse the record now, "" for none.
func (r *Redrive) refused(ctx context.Context, l *Letter) (class string, err error) {
	if r.Reader == nil {
		return "", nil
	}
	topic := l.Source.Topic
	if slices.Contains(r.Sources, r.To) {
		topic = r.To
	}
	dec, maxFuture := r.Reader(topic)
	r.reading.Partition = l.Source.Partition
	err = dec.Decode(ctx, l.Key, l.Value, l.Timestamp, l.Header, &r.reading)
	var e *schemas.DecodeError
	switch {
	case errors.As(err, &e) && (!e.Retry || e.Absent):
		return e.Class, nil
	case err != nil:
		return "", err
	case maxFuture > 0 && l.Timestamp >= 0 && r.reading.Time > l.Timestamp*1000+maxFuture.Microseconds():
		return "future_time", nil
	}
	return "", nil
}

func (r *Redrive) target(ctx context.Context, name string) (*cycle.Topic, error) {
	if t := r.targets[name]; t != nil {
		return t, nil
	}
	infos, err := r.Client.Admin.Topics(ctx, name)
	if err == nil && !infos[name].Exists && r.Dry { // redrive creates it
		return &cycle.Topic{Name: name, Partitions: 1, BatchBytes: r.MaxMessage}, nil
	}
	var t cycle.Topic
	if err == nil {
		t, err = cycle.LookupTopic(ctx, r.Client.Admin, name, "-to", r.MaxMessage, 1<<30)
	}
	if err != nil {
		return nil, err
	}
	r.targets[name] = &t
	return &t, nil
}

// commit sends what was taken and the ledger's entries, in one transaction. It does not stop halfway
// when the command is interrupted: an open transaction would stop the readers of the topics until it times out.
func (r *Redrive) commit(ctx context.Context, done *Tally) error {
	if len(r.marks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	ledger := record.NewTransactionBatches(r.MaxMessage, record.CodecNone)
	now := time.Now()
	for mark, offsets := range r.marks {
		value, err := json.Marshal(ledgerRecord{Partition: mark.partition, Offsets: *offsets, To: mark.topic, At: now.UTC()})
		if err != nil {
			return err
		}
		if err := ledger.Append(now.UnixMilli(), nil, value, nil); err != nil {
			return fmt.Errorf("the ledger: %w", err)
		}
	}
	r.out[kafka.TP{Topic: LedgerTopic(r.Topic.Name)}] = ledger
	err := r.producer.Send(ctx, r.out, kafka.Generation{ID: -1}, "", nil)
	r.between("written")
	if err == nil {
		err = r.producer.End(ctx, true)
	}
	if err != nil {
		if kafka.ClassOf(err) == kafka.Fenced {
			return fmt.Errorf("another redrive of %s has begun and ends this one: %w", r.Topic.Name, err)
		}
		err = fmt.Errorf("a transaction of %d records failed: %w", r.pending.Total(), err)
		if !r.producer.NeedsInit() {
			err = errors.Join(err, r.producer.Abort(ctx))
		}
		return fmt.Errorf("%w; run the command again: what was sent is not sent twice", err)
	}
	r.between("committed")
	for class, n := range r.pending.Sent {
		done.sent(class, n)
	}
	clear(r.out)
	clear(r.marks)
	r.pending, r.bytes = Tally{}, 0
	if r.producer.NeedsInit() {
		return r.init(ctx)
	}
	return nil
}

func (r *Redrive) between(step string) {
	if r.step != nil {
		r.step(step)
	}
}
