package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
)

// Producer sends record batches, in transactions if it has a transactional id.
// The life of a transaction:
//
//	Init                       once, and again where NeedsInit says so
//	AddPartitions              before records go to them
//	Produce, CommitOffsets     in any order, or at once (Send does)
//	End
//
// Init decides which version of the transactions' protocol it speaks (txnversion.go). In both, after any error of
// class Unknown the producer refuses everything until Init has raised the epoch, which fences off what may still be in
// flight. In version 1 nothing else raises it; in version 2 each End does.
//
// One goroutine at a time.
type Producer struct {
	identity *identity
	cfg      ProducerConfig
	txn      transaction // the open one
	calls    *calls      // of coordinators
	send     *sender     // of batches to leaders
}

// identity is what a producer's requests name it by.
type identity struct {
	transactionalID string // "": it has no transactions
	id              int64  // producer id, -1 before Init
	epoch           int16
	v2              bool // it speaks version 2 of the transactions' protocol
}

// ID returns the producer id and epoch, -1 before Init.
func (p *Producer) ID() (id int64, epoch int16) { return p.identity.id, p.identity.epoch }

// transactional reports whether the producer has transactions.
func (i *identity) transactional() bool { return i.transactionalID != "" }

// Resent returns how many batches were sent again, because a broker could not take them
// when they came.
func (p *Producer) Resent() int64 { return p.send.resent.Load() }

// NewProducer returns a producer that has to be initialised.
func (c *Client) NewProducer(cfg ProducerConfig) *Producer {
	if cfg.TransactionTimeout <= 0 {
		cfg.TransactionTimeout = 30 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	p := &Producer{cfg: cfg, identity: &identity{transactionalID: cfg.TransactionalID, id: -1, epoch: -1}}
	p.txn = transaction{added: map[TP]bool{}, group: map[string]bool{},
		broken: &classed{Abortable, errors.New("kafka: producer has not been initialised")}}
	g := &gates{byBroker: map[int32]*sync.Mutex{}}
	p.calls = &calls{identity: p.identity, cluster: c.Cluster, coordinators: c.coordinators, gates: g, timeout: cfg.Timeout}
	p.send = &sender{identity: p.identity, cluster: c.Cluster, txn: &p.txn, gates: g, timeout: cfg.Timeout, next: map[TP]int32{}}
	return p
}

// NeedsInit reports whether Init has to come before anything else: at the
// start, after an error of class Unknown or Fenced, and when the broker has lost
// count of the sequences.
func (p *Producer) NeedsInit() bool { return p.txn.failure() != nil }

// Init gets a producer id and, for a transactional id, an epoch that fences
// every earlier producer of that id; a transaction that one of them left open is
// aborted before Init returns. Sequences begin again. It retries for as long as
// the context lets it, since a fresh cluster has no coordinator for some
// seconds; only errors of class Fatal and Fenced end it earlier.
func (p *Producer) Init(ctx context.Context) error {
	req := &initproducerid.Request{
		TransactionalID:      p.identity.transactionalID,
		TransactionTimeoutMs: int32(p.cfg.TransactionTimeout.Milliseconds()),
		ProducerID:           -1, // the zero values would name producer 0
		ProducerEpoch:        -1,
	}
	retry := newPatience(0)
	var last error // that was not only the end of the context
	for {
		res, v2, err := p.calls.init(ctx, req)
		if err == nil {
			p.identity.v2 = v2
			p.renew(res.ProducerID, res.ProducerEpoch)
			p.txn.reset()
			p.txn.broken = nil
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

// renew makes the producer go on with an epoch that it has not used, in which sequence numbers begin again.
func (p *Producer) renew(id int64, epoch int16) {
	p.identity.id, p.identity.epoch = id, epoch
	clear(p.send.next)
}

func (p *Producer) initError(err error) error {
	hint := ""
	switch {
	case errors.Is(err, kafkago.InvalidTransactionTimeout):
		hint = fmt.Sprintf("; the transaction timeout, %v, must not be above the brokers' transaction.max.timeout.ms", p.cfg.TransactionTimeout)
	case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
		hint = fmt.Sprintf("; the worker needs WRITE and DESCRIBE on transactional id %q", p.identity.transactionalID)
	case errors.Is(err, kafkago.ClusterAuthorizationFailed):
		hint = "; the worker needs IDEMPOTENT_WRITE on the cluster"
	}
	return fmt.Errorf("kafka: init producer %q: %w%s", p.identity.transactionalID, err, hint)
}

// usable returns why the producer cannot be used at the moment.
func (p *Producer) usable() error {
	broken := p.txn.failure()
	if broken == nil || p.identity.id < 0 {
		return broken
	}
	return &classed{ClassOf(broken), fmt.Errorf("kafka: producer %q has to be initialised again: %w", p.identity.transactionalID, broken)}
}
