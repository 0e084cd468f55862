package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// ProducerConfig describes a producer.
type ProducerConfig struct {
	// TransactionalID names the transactional producer to the brokers. There may
	// be one live producer with an id: Init fences the one before. "" makes a
	// producer without transactions that is idempotent only.
	//
	// An error of class Fenced is therefore ambiguous. Either another worker runs
	// with the same id, or our own transaction was open for longer than
	// TransactionTimeout (the process was stopped for a while, say) and the
	// coordinator aborted it and fenced us. Drop all partitions, rejoin the group,
	// and Init again once the group has accepted this member's identity.
	TransactionalID string
	// TransactionTimeout is how long a transaction may be open before the
	// coordinator aborts it; default 30 s. While one is open, readers of
	// committed records do not get past it.
	TransactionTimeout time.Duration
	// Timeout is how long an operation other than Init is retried while the
	// brokers say that it may work later; default 30 s.
	Timeout time.Duration
}

const (
	// replicationTimeout is how long the leader waits for the in-sync replicas to
	// take a batch before it answers REQUEST_TIMED_OUT.
	replicationTimeout = 10 * time.Second
	// maxRequestBytes closes a Produce request; brokers refuse more than
	// socket.request.max.bytes, 100 MiB by default.
	maxRequestBytes = 16 << 20
	// unknownRetries is how often an idempotent producer sends a batch again whose
	// fate it does not know.
	unknownRetries = 5
)

// Producer sends record batches, in transactions if it has a transactional id.
// The life of a transaction:
//
//	Init                       once, and again where NeedsInit says so
//	AddPartitions              before records go to them
//	Produce, CommitOffsets     in any order, or at once (Send does)
//	End
//
// It speaks transactions as before KIP-890's second part, so a request that was
// lost on the way can still reach its broker in a later transaction of the same
// epoch, and would be taken for a part of it. Hence the rule: after any error of
// class Unknown the producer refuses everything until Init has raised the epoch,
// which fences off what may still be on its way. For the same reason sequence
// numbers go on from one transaction to the next, and begin at 0 only after Init.
//
// One goroutine at a time.
type Producer struct {
	c   *Client
	cfg ProducerConfig

	id    int64 // producer id, -1 before Init
	epoch int16

	next  map[TP]int32    // the next sequence number, where it is not 0
	added map[TP]struct{} // partitions in the open transaction
	group map[string]bool // groups in the open transaction

	// Send runs Produce and CommitOffsets at the same time; what both write is here.
	mu      sync.Mutex
	begun   bool  // the coordinator may have a transaction open
	outputs error // why the open transaction must not be committed: its records
	offsets error // ... its offsets; a later CommitOffsets may mend this one
	broken  error // why Init has to come first

	buffers [][]byte // memory of requests that are over
}

// NewProducer returns a producer that has to be initialised.
func (c *Client) NewProducer(cfg ProducerConfig) *Producer {
	if cfg.TransactionTimeout <= 0 {
		cfg.TransactionTimeout = 30 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &Producer{
		c: c, cfg: cfg, id: -1, epoch: -1,
		next: map[TP]int32{}, added: map[TP]struct{}{}, group: map[string]bool{},
		broken: &classed{Abortable, errors.New("kafka: producer has not been initialised")},
	}
}

// ID returns the producer id and epoch that Init got, -1 before.
func (p *Producer) ID() (id int64, epoch int16) { return p.id, p.epoch }

// NeedsInit reports whether Init has to come before anything else: at the
// start, after an error of class Unknown or Fenced, and when the broker has lost
// count of the sequences.
func (p *Producer) NeedsInit() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.broken != nil
}

// transactional reports whether the producer has transactions.
func (p *Producer) transactional() bool { return p.cfg.TransactionalID != "" }

// Init gets a producer id and, for a transactional id, an epoch that fences
// every earlier producer of that id; a transaction that one of them left open is
// aborted before Init returns. Sequences begin again. It retries for as long as
// the context lets it, since a fresh cluster has no coordinator for some
// seconds; only errors of class Fatal and Fenced end it earlier.
func (p *Producer) Init(ctx context.Context) error {
	req := &initproducerid.Request{
		TransactionalID:      p.cfg.TransactionalID,
		TransactionTimeoutMs: int32(p.cfg.TransactionTimeout.Milliseconds()),
		ProducerID:           -1, // the zero values would name producer 0
		ProducerEpoch:        -1,
	}
	retry := newPatience(0)
	var last error // that was not only the end of the context
	for {
		res, err := p.initOnce(ctx, req)
		if err == nil {
			p.id, p.epoch = res.ProducerID, res.ProducerEpoch
			clear(p.next)
			p.reset()
			p.broken = nil
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if c := ClassOf(err); c == Fatal || c == Fenced {
			return p.initError(err)
		}
		if err := retry.wait(ctx, last); err != nil {
			return p.initError(err)
		}
	}
}

func (p *Producer) initOnce(ctx context.Context, req *initproducerid.Request) (*initproducerid.Response, error) {
	node := int32(-1)
	if p.transactional() {
		var err error
		if node, err = p.findCoordinator(ctx, txnCoordinator, p.cfg.TransactionalID); err != nil {
			return nil, err
		}
	}
	m, err := p.c.roundTrip(ctx, node, req)
	if err != nil {
		p.c.forgetCoordinator(txnCoordinator, p.cfg.TransactionalID)
		return nil, err
	}
	res := m.(*initproducerid.Response)
	if res.ErrorCode != 0 {
		code := kafkago.Error(res.ErrorCode)
		if movedCoordinator(code) {
			p.c.forgetCoordinator(txnCoordinator, p.cfg.TransactionalID)
		}
		return nil, code
	}
	return res, nil
}

func (p *Producer) initError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, kafkago.InvalidTransactionTimeout):
		hint = fmt.Sprintf("; the transaction timeout, %v, must not be above the brokers' transaction.max.timeout.ms", p.cfg.TransactionTimeout)
	case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
		hint = fmt.Sprintf("; the worker needs WRITE and DESCRIBE on transactional id %q", p.cfg.TransactionalID)
	case errors.Is(err, kafkago.ClusterAuthorizationFailed):
		hint = "; the worker needs IDEMPOTENT_WRITE on the cluster"
	}
	return fmt.Errorf("kafka: init producer %q: %w%s", p.cfg.TransactionalID, err, hint)
}

// reset forgets the transaction.
func (p *Producer) reset() {
	clear(p.added)
	clear(p.group)
	p.begun, p.outputs, p.offsets = false, nil, nil
}

// usable returns why the producer cannot be used at the moment.
func (p *Producer) usable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil {
		return nil
	}
	if p.id < 0 {
		return p.broken
	}
	return &classed{ClassOf(p.broken), fmt.Errorf("kafka: producer %q has to be initialised again: %w", p.cfg.TransactionalID, p.broken)}
}

// note remembers what a failed operation means for the ones to come.
func (p *Producer) note(err error, reason *error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*reason = err
	if err != nil && p.broken == nil && needsInit(err) {
		p.broken = err
	}
}

// needsInit reports an error after which the epoch, or the sequences, are of no use.
func needsInit(err error) bool {
	switch ClassOf(err) {
	case Unknown, Fenced:
		return true
	case Abortable:
		for _, code := range []kafkago.Error{kafkago.OutOfOrderSequenceNumber, kafkago.UnknownProducerId,
			kafkago.InvalidProducerIDMapping, kafkago.TransactionCoordinatorFenced, kafkago.TransactionalIDNotFound} {
			if errors.Is(err, code) {
				return true
			}
		}
	}
	return false
}

// AddPartitions makes partitions part of the transaction, which it begins if
// none is open. Partitions that are part of it already cost nothing.
func (p *Producer) AddPartitions(ctx context.Context, tps []TP) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.transactional() {
		return nil
	}
	var fresh []TP
	for _, tp := range tps {
		if _, ok := p.added[tp]; !ok {
			fresh = append(fresh, tp)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	slices.SortFunc(fresh, compareTP)
	fresh = slices.Compact(fresh)
	req := &addpartitionstotxn.Request{TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch}
	for i, tp := range fresh {
		if i == 0 || tp.Topic != fresh[i-1].Topic {
			req.Topics = append(req.Topics, addpartitionstotxn.RequestTopic{Name: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	p.open()
	err := p.call(ctx, txnCoordinator, p.cfg.TransactionalID, req, func(m protocol.Message) error {
		var errs []error
		for _, t := range m.(*addpartitionstotxn.Response).Results {
			for _, r := range t.Results {
				if r.ErrorCode != 0 {
					errs = append(errs, partitionError{TP{t.Name, r.PartitionIndex}, kafkago.Error(r.ErrorCode)})
				}
			}
		}
		return worst(errs)
	})
	if err != nil {
		err = fmt.Errorf("kafka: add partitions to transaction of %q: %w", p.cfg.TransactionalID, err)
		if errors.Is(err, kafkago.TopicAuthorizationFailed) {
			err = fmt.Errorf("%w; the worker needs WRITE on the topic", err)
		}
		p.note(err, &p.outputs)
		return err
	}
	for _, tp := range fresh {
		p.added[tp] = struct{}{}
	}
	return nil
}

func (p *Producer) open() {
	p.mu.Lock()
	p.begun = true
	p.mu.Unlock()
}

// partitionError is a code for one partition of a request about several.
type partitionError struct {
	tp   TP
	code kafkago.Error
}

func (e partitionError) Error() string { return e.tp.String() + ": " + e.code.Error() }
func (e partitionError) Unwrap() error { return e.code }

// worst picks the error to act on from those of one request: the gravest, the
// first of those. One partition often explains the others
// (OPERATION_NOT_ATTEMPTED), so that code counts only if there is no other.
func worst(errs []error) error {
	var out error
	rank := -1
	for _, err := range errs {
		r := slices.Index(gravity, ClassOf(err)) * 2
		if errors.Is(err, codeOperationNotAttempted) {
			r = 0
		}
		if r > rank {
			out, rank = err, r
		}
	}
	return out
}

// call sends a request to a coordinator until it is answered with something
// other than "later". check turns a response into an error.
func (p *Producer) call(ctx context.Context, kind int8, key string, req protocol.Message, check func(protocol.Message) error) error {
	retry := newPatience(p.cfg.Timeout)
	for {
		node, err := p.findCoordinator(ctx, kind, key)
		if err == nil {
			var m protocol.Message
			if m, err = p.c.roundTrip(ctx, node, req); err != nil {
				p.c.forgetCoordinator(kind, key)
			} else if err = check(m); movedCoordinator(err) {
				p.c.forgetCoordinator(kind, key)
			}
		}
		if err == nil || ClassOf(err) != Retriable {
			return err
		}
		if err := retry.wait(ctx, err); err != nil {
			return &classed{Retriable, err}
		}
	}
}

// findCoordinator only asks a question: whatever goes wrong, nothing was done.
func (p *Producer) findCoordinator(ctx context.Context, kind int8, key string) (int32, error) {
	node, err := p.c.coordinator(ctx, kind, key)
	if err != nil && ClassOf(err) != Fatal {
		err = &classed{Retriable, err}
	}
	return node, err
}

func movedCoordinator(err error) bool {
	return errors.Is(err, kafkago.NotCoordinatorForGroup) || errors.Is(err, kafkago.GroupCoordinatorNotAvailable)
}

// patience bounds the retries of one operation.
type patience struct {
	limit       time.Duration // 0: as long as the context lasts
	end         time.Time
	slow, quick retryDelay
}

func newPatience(limit time.Duration) *patience {
	return &patience{
		limit: limit, end: time.Now().Add(limit),
		slow: retryDelay{first: 20 * time.Millisecond, max: time.Second},
		// A transaction whose markers are still being written is over in
		// milliseconds; coordinators and leaders take longer to move.
		quick: retryDelay{first: 2 * time.Millisecond, max: 10 * time.Millisecond},
	}
}

// wait waits before the next try after err, or returns err with why there is none.
func (w *patience) wait(ctx context.Context, err error) error {
	delay := &w.slow
	if errors.Is(err, kafkago.ConcurrentTransactions) {
		delay = &w.quick
	}
	if w.limit > 0 && time.Now().After(w.end) {
		return fmt.Errorf("%w; tried for %v", err, w.limit)
	}
	if end := delay.wait(ctx); end != nil {
		return fmt.Errorf("%w; gave up: %w", err, end)
	}
	return nil
}

// CommitOffsets makes offsets part of the transaction: they take effect when it
// commits. The generation fences off a member that has lost its partitions
// (KIP-447). An error of class Rebalance leaves the rest of the transaction as it
// is: where the partitions are still held, CommitOffsets may be called again with
// the newer generation. Offsets must be the same partitions each time.
func (p *Producer) CommitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.transactional() {
		return errors.New("kafka: a producer without a transactional id has no offsets; use Client.CommitOffsets")
	}
	if len(offsets) == 0 {
		return nil
	}
	err := p.commitOffsets(ctx, gen, group, offsets)
	p.note(err, &p.offsets)
	return err
}

func (p *Producer) commitOffsets(ctx context.Context, gen Generation, group string, offsets map[TP]Offset) error {
	if !p.group[group] {
		p.open()
		err := p.call(ctx, txnCoordinator, p.cfg.TransactionalID, &addoffsetstotxn.Request{
			TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch, GroupID: group,
		}, func(m protocol.Message) error { return codeError(m.(*addoffsetstotxn.Response).ErrorCode) })
		if err != nil {
			return fmt.Errorf("kafka: add offsets of group %q to transaction of %q: %w", group, p.cfg.TransactionalID, err)
		}
		p.group[group] = true
	}
	tps := make([]TP, 0, len(offsets))
	for tp := range offsets {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	req := &txnoffsetcommit.Request{
		TransactionalID: p.cfg.TransactionalID, GroupID: group, ProducerID: p.id, ProducerEpoch: p.epoch,
		GenerationID: gen.ID, MemberID: gen.MemberID, GroupInstanceID: gen.InstanceID,
	}
	for i, tp := range tps {
		if i == 0 || tp.Topic != tps[i-1].Topic {
			req.Topics = append(req.Topics, txnoffsetcommit.RequestTopic{Name: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		o := offsets[tp]
		t.Partitions = append(t.Partitions, txnoffsetcommit.RequestPartition{
			Partition: tp.Partition, CommittedOffset: o.Offset, CommittedLeaderEpoch: -1, CommittedMetadata: o.Metadata})
	}
	err := p.call(ctx, groupCoordinator, group, req, func(m protocol.Message) error {
		var errs []error
		for _, t := range m.(*txnoffsetcommit.Response).Topics {
			for _, r := range t.Partitions {
				if r.ErrorCode != 0 {
					errs = append(errs, &OffsetError{group, TP{t.Name, r.Partition}, kafkago.Error(r.ErrorCode)})
				}
			}
		}
		return worst(errs)
	})
	if err != nil {
		return fmt.Errorf("kafka: offsets in transaction of %q: %w", p.cfg.TransactionalID, err)
	}
	return nil
}

func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return kafkago.Error(code)
}

// End commits or aborts the transaction. Without one it does nothing. A commit
// is refused if something in the transaction has failed. An error of class
// Unknown leaves open which way the transaction went: after Init the committed
// offsets tell.
//
// When End returns, the outcome is decided and will become visible; the
// coordinator may still be telling the partitions.
func (p *Producer) End(ctx context.Context, commit bool) error {
	if err := p.usable(); err != nil {
		return err
	}
	if !p.begun {
		return nil
	}
	reason := p.outputs
	if reason == nil {
		reason = p.offsets
	}
	if commit && reason != nil {
		return &classed{ClassOf(reason), fmt.Errorf("kafka: transaction of %q cannot be committed: %w", p.cfg.TransactionalID, reason)}
	}
	err := p.call(ctx, txnCoordinator, p.cfg.TransactionalID, &endtxn.Request{
		TransactionalID: p.cfg.TransactionalID, ProducerID: p.id, ProducerEpoch: p.epoch, Committed: commit,
	}, func(m protocol.Message) error { return codeError(m.(*endtxn.Response).ErrorCode) })
	if err == nil {
		p.reset()
		return nil
	}
	what := "abort"
	if commit {
		what = "commit"
	}
	err = fmt.Errorf("kafka: %s transaction of %q: %w", what, p.cfg.TransactionalID, err)
	if ClassOf(err) == Retriable {
		// A coordinator that could not replicate its decision answers "not
		// available"; the decision may stand all the same.
		err = &classed{Unknown, err}
	}
	p.note(err, &p.outputs)
	return err
}

// Abort gives the transaction up and leaves the producer ready for the next one:
// by End where that is possible, else by Init. Not after an error of class Fenced,
// where Init would take the id back from the producer that has it now: then it
// returns that error.
func (p *Producer) Abort(ctx context.Context) error {
	err := p.usable()
	if err == nil {
		if err = p.End(ctx, false); err == nil {
			return nil
		}
	}
	if c := ClassOf(err); c == Fenced || c == Fatal {
		return err
	}
	return p.Init(ctx)
}

// Send does all of a transaction but its end: it adds the partitions, produces
// the batches and commits the offsets, in as few waits as the protocol has. The
// coordinator takes one change of a transaction at a time and answers a second
// one CONCURRENT_TRANSACTIONS, so the group is added behind the partitions,
// while the batches are on their way already:
//
//	AddPartitionsToTxn -> Produce to all leaders
//	                   -> AddOffsetsToTxn -> TxnOffsetCommit
//
// If the error is of class Rebalance, the batches were produced, and
// CommitOffsets may be tried again; see there.
func (p *Producer) Send(ctx context.Context, out map[TP]*Batches, gen Generation, group string, offsets map[TP]Offset) error {
	tps := make([]TP, 0, len(out))
	for tp, b := range out {
		if b.Count() > 0 {
			tps = append(tps, tp)
		}
	}
	if err := p.AddPartitions(ctx, tps); err != nil {
		return err
	}
	if len(tps) == 0 {
		return p.CommitOffsets(ctx, gen, group, offsets)
	}
	var committed chan error
	if len(offsets) > 0 {
		committed = make(chan error, 1)
		go func() { committed <- p.CommitOffsets(ctx, gen, group, offsets) }()
	}
	err := p.Produce(ctx, out)
	if committed != nil {
		err = gravest(err, <-committed)
	}
	return err
}

// outgoing is a partition's way through Produce.
type outgoing struct {
	tp      TP
	b       *Batches
	batch   int // the one to be sent
	batches int
	leader  int32
	sealed  []byte
	unknown int   // how often this batch's fate was unknown
	last    error // why it is being retried
}

// Produce sends the batches and returns when all in-sync replicas have them.
// Batches of a partition go one after the other, those of all partitions
// together: each round has one batch a partition, one request a leader, all
// leaders at the same time. What a broker cannot take at the moment (no leader,
// too few replicas, ...) is sent again with the same sequence number, so the log
// gets it once. An error about a batch is a *ProduceError. Batches are left as
// they are; a failed Produce may have written some of them.
func (p *Producer) Produce(ctx context.Context, out map[TP]*Batches) error {
	if err := p.usable(); err != nil {
		return err
	}
	var todo []*outgoing
	for tp, b := range out {
		if b.Count() == 0 {
			continue
		}
		if _, ok := p.added[tp]; !ok && p.transactional() {
			return fmt.Errorf("kafka: produce to %s, which AddPartitions has not made part of the transaction", tp)
		}
		todo = append(todo, &outgoing{tp: tp, b: b, batches: b.sealed()})
	}
	slices.SortFunc(todo, func(a, b *outgoing) int { return compareTP(a.tp, b.tp) })
	err := p.produce(ctx, todo)
	if err != nil {
		p.note(err, &p.outputs)
	}
	return err
}

func (p *Producer) produce(ctx context.Context, todo []*outgoing) error {
	retry := newPatience(p.cfg.Timeout)
	for len(todo) > 0 {
		p.seal(todo)
		failed := p.round(ctx, todo)

		// What went through advances, what failed for now stays.
		var stuck []*outgoing
		for _, o := range todo {
			if o.last != nil {
				stuck = append(stuck, o)
			}
		}
		if len(failed) > 0 {
			return gravest(append(failed, giveUp(stuck)...)...)
		}
		todo = slices.DeleteFunc(todo, func(o *outgoing) bool { return o.batch == o.batches })
		if len(stuck) == 0 {
			retry = newPatience(p.cfg.Timeout)
			continue
		}
		err := retry.wait(ctx, stuck[0].last)
		if err == nil {
			err = p.c.refresh(ctx, topicsOf(stuck)...)
			if ctx.Err() == nil {
				continue // without news the old leaders are asked again
			}
		}
		return gravest(append(giveUp(stuck), err)...)
	}
	return nil
}

// giveUp returns the errors of batches that are not retried any more. Where one
// may have been written its sequence number is used up, or is not: only Init
// makes that known again.
func giveUp(stuck []*outgoing) []error {
	var errs []error
	for _, o := range stuck {
		if mayBeWritten(o.last) {
			errs = append(errs, &classed{Unknown, o.last})
		} else {
			errs = append(errs, o.last)
		}
	}
	return errs
}

// mayBeWritten reports a retriable error after which the batch may be in the log.
func mayBeWritten(err error) bool {
	for _, code := range []kafkago.Error{kafkago.RequestTimedOut, kafkago.NotEnoughReplicasAfterAppend,
		kafkago.NetworkException, kafkago.KafkaStorageError} {
		if errors.Is(err, code) {
			return true
		}
	}
	return ClassOf(err) == Unknown
}

func topicsOf(todo []*outgoing) []string {
	var topics []string
	for _, o := range todo {
		topics = append(topics, o.tp.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// seal stamps each partition's current batch. The first time a batch is sealed
// it is compressed, which is worth several processors.
func (p *Producer) seal(todo []*outgoing) {
	one := func(o *outgoing) {
		o.sealed = o.b.seal(o.batch, p.id, p.epoch, p.next[o.tp], p.transactional())
	}
	workers := min(runtime.GOMAXPROCS(0), len(todo))
	size := 0
	for _, o := range todo {
		size += o.b.Bytes()
	}
	if workers < 2 || size < 128<<10 {
		for _, o := range todo {
			one(o)
		}
		return
	}
	var at atomic.Int32
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := at.Add(1) - 1; int(i) < len(todo); i = at.Add(1) - 1 {
				one(todo[i])
			}
		})
	}
	wg.Wait()
}

// round sends the current batch of every partition and takes in the answers. It
// returns the errors that end Produce; a batch to be sent again has its reason in
// last.
func (p *Producer) round(ctx context.Context, todo []*outgoing) (failed []error) {
	ready := p.route(ctx, todo, &failed)
	slices.SortFunc(ready, func(a, b *outgoing) int { // a topic may stand in a request once
		return cmp.Or(cmp.Compare(a.leader, b.leader), compareTP(a.tp, b.tp))
	})
	type answer struct {
		sent []*outgoing
		res  *produceResponse
		err  error
	}
	answers := make(chan answer)
	requests := 0
	for i := 0; i < len(ready); {
		j, size := i, 0
		for j < len(ready) && ready[j].leader == ready[i].leader && (j == i || size+len(ready[j].sealed) <= maxRequestBytes) {
			size += len(ready[j].sealed)
			j++
		}
		sent, req := ready[i:j], p.request(ready[i:j], size)
		requests++
		go func() {
			m, err := p.c.roundTripWithin(ctx, replicationTimeout+5*time.Second, sent[0].leader, req)
			a := answer{sent: sent, err: err}
			if err == nil {
				a.res = m.(*produceResponse)
				p.recycle(req.buf)
			} // else a connection may still be reading the buffer
			answers <- a
		}()
		i = j
	}
	for range requests {
		a := <-answers
		for _, o := range a.sent {
			if err := p.take(o, a.res, a.err); err != nil {
				failed = append(failed, err)
			}
		}
	}
	return failed
}

// route finds the leaders, asking for metadata once if some are not known.
func (p *Producer) route(ctx context.Context, todo []*outgoing, failed *[]error) (ready []*outgoing) {
	var unknown []*outgoing
	for _, o := range todo {
		var err error
		if o.leader, err = p.c.cachedLeader(o.tp); err != nil {
			unknown = append(unknown, o)
		} else {
			ready = append(ready, o)
		}
	}
	if len(unknown) == 0 {
		return ready
	}
	reason := p.c.refresh(ctx, topicsOf(unknown)...)
	for _, o := range unknown {
		var err error
		o.leader, err = p.c.cachedLeader(o.tp)
		if err == nil {
			ready = append(ready, o)
			continue
		}
		if reason != nil {
			err = reason
		}
		err = fmt.Errorf("kafka: produce to %s: no leader: %w", o.tp, err)
		if ClassOf(err) == Fatal {
			*failed = append(*failed, err)
		} else if !mayBeWritten(o.last) { // a fate still unknown stays so
			o.last = &classed{Retriable, err} // nothing was sent, whatever it was
		}
	}
	return ready
}

// request builds the request for some partitions of one leader.
func (p *Producer) request(parts []*outgoing, size int) *produceRequest {
	var buf []byte
	p.mu.Lock()
	if n := len(p.buffers); n > 0 {
		buf = p.buffers[n-1]
		p.buffers = p.buffers[:n-1]
	}
	p.mu.Unlock()
	topics := 0
	for i, o := range parts {
		size += len(o.tp.Topic) + 16
		if i == 0 || o.tp.Topic != parts[i-1].tp.Topic {
			topics++
		}
	}
	if cap(buf) < size+256 {
		buf = make([]byte, 0, size+size/8+256)
	}
	r := &produceRequest{}
	r.begin(buf, p.c.cfg.ClientID, p.cfg.TransactionalID, int32(replicationTimeout.Milliseconds()), topics)
	for i := 0; i < len(parts); {
		j := i
		for j < len(parts) && parts[j].tp.Topic == parts[i].tp.Topic {
			j++
		}
		r.topic(parts[i].tp.Topic, j-i)
		for ; i < j; i++ {
			r.partition(parts[i].tp.Partition, parts[i].sealed)
		}
	}
	return r
}

func (p *Producer) recycle(buf []byte) {
	p.mu.Lock()
	if len(p.buffers) < 16 {
		p.buffers = append(p.buffers, buf)
	}
	p.mu.Unlock()
}

// take applies the answer for one batch: the partition advances, or stays for
// another try, or has failed.
func (p *Producer) take(o *outgoing, res *produceResponse, err error) error {
	records := o.b.records(o.batch)
	if err != nil {
		err = fmt.Errorf("kafka: produce to %s: %w", o.tp, err)
	} else if i := slices.IndexFunc(res.results, func(r produceResult) bool { return r.tp == o.tp }); i < 0 {
		err = &classed{Unknown, fmt.Errorf("kafka: produce to %s: the answer does not name the partition", o.tp)}
	} else if r := &res.results[i]; r.code != 0 && r.code != kafkago.DuplicateSequenceNumber {
		err = &ProduceError{TP: o.tp, Code: r.code, Message: r.message, Batch: o.batch, Records: records, Bytes: len(o.sealed) - sizePrefix}
	} else {
		// A duplicate is a batch that an earlier try has written.
		p.next[o.tp] = int32(uint32(p.next[o.tp]+int32(records)) & 0x7fffffff)
		o.batch++
		o.unknown, o.last = 0, nil
		return nil
	}
	switch ClassOf(err) {
	case Retriable:
		// If an earlier try may have been written, this one's "no" does not undo it.
		if !mayBeWritten(o.last) {
			o.last = err
		}
		return nil
	case Unknown:
		o.last = err
		if !p.transactional() && o.unknown < unknownRetries {
			o.unknown++ // the same sequence again: the log takes it once
			return nil
		}
	}
	return err
}
