package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
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
	// requestBytes is about what a Produce request holds: a batch of the default
	// max.message.bytes, or several smaller ones.
	requestBytes = 1 << 20
	// leaderRequests is how many Produce requests a leader has at a time, of which
	// one may have first batches of a transaction (see gates). Brokers have eight
	// threads for requests by default.
	leaderRequests = 8
	// unknownRetries is how often an idempotent producer resends a batch of unknown outcome.
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
// which fences off what may still be in flight. For the same reason sequence numbers continue from one
// transaction to the next, and begin at 0 only after Init.
//
// One goroutine at a time.
type Producer struct {
	c   *Client
	cfg ProducerConfig

	id    int64 // producer id, -1 before Init
	epoch int16

	next  map[TP]int32    // the next sequence number, where it is not 0
	added map[TP]bool     // partitions in the open transaction; true: it has a batch there
	group map[string]bool // groups in the open transaction

	// Send runs Produce and CommitOffsets at the same time; what both write is here.
	mu      sync.Mutex
	begun   bool      // the coordinator may have a transaction open
	since   time.Time // when begun was set: the coordinator's time-out begins later
	outputs error     // why the open transaction must not be committed: its records
	offsets error     // ... its offsets; a later CommitOffsets may mend this one
	broken  error     // why Init has to come first

	buffers [][]byte // memory of requests that are over

	// Before a broker takes a transaction's first batch of a partition, or its
	// offsets, it asks the transaction's coordinator whether they are part of it
	// (KIP-890), for one request of a transaction at a time: while it asks for a
	// second, the first fails with NOT_ENOUGH_REPLICAS or COORDINATOR_LOAD_IN_PROGRESS,
	// and a retry is a wait of 20 ms and more. So a broker gets these one by one.
	gates map[int32]*sync.Mutex // by broker

	resent atomic.Int64
}

// Resent returns how many batches were sent again, because a broker could not take them
// when they came.
func (p *Producer) Resent() int64 { return p.resent.Load() }

// gate is held around a request that a broker verifies.
func (p *Producer) gate(broker int32) *sync.Mutex {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gates[broker]
	if g == nil {
		g = new(sync.Mutex)
		p.gates[broker] = g
	}
	return g
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
		next: map[TP]int32{}, added: map[TP]bool{}, group: map[string]bool{}, gates: map[int32]*sync.Mutex{},
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

// note stores what a failed operation means for those that follow.
func (p *Producer) note(err error, reason *error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*reason = err
	if err != nil && p.broken == nil && needsInit(err) {
		p.broken = err
	}
}

// needsInit reports whether the epoch, or the sequences, are of no use after an error.
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
