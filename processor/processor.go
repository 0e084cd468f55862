package processor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"odradek/detectors"
	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/processor/state/series"
)

// Guarantee is what a consumer of the outputs can rely on.
type Guarantee int

const (
	// ExactlyOnce puts outputs, state and offsets of a cycle into one
	// transaction: a read_committed consumer sees every record once.
	ExactlyOnce Guarantee = iota
	// AtLeastOnce writes outputs, then state, then offsets: after a crash
	// outputs may come twice, with the same source coordinates and values.
	AtLeastOnce
)

// Config is what a Processor needs; cmd/worker fills it from the environment.
type Config struct {
	Client     *kafka.Client
	Group      string
	InstanceID string // group.instance.id; empty: dynamic membership
	// Predecessor is a group that read the topics before: a partition without a committed offset begins with its one; "": none.
	Predecessor string
	Topics      []string
	// FindTopics returns the input topics that there are now, of which those that are new have a changelog; nil: they stay
	// Topics. The group subscribes to what it returns. Another goroutine calls it, every 30 s.
	FindTopics func(context.Context) ([]string, error)

	// Start is where a partition without a committed offset begins:
	// StartEarliest, StartLatest or a Kafka timestamp in milliseconds.
	Start int64
	// Backfill is how far before its start, by Kafka timestamps, a partition without a committed offset and
	// without state reads input to fill windows and histories; 0: not at all. See backfill.go.
	Backfill   time.Duration
	OffsetLost OnLoss // a committed offset that is not in the log, or follows records that are not: FailOnLoss, Earliest or Latest
	StateLost  OnLoss // state that cannot be rebuilt: FailOnLoss or Reset

	ConsumerProtocol              bool // the coordinator assigns partitions (KIP-848)
	Session, Rebalance, Heartbeat time.Duration
	Drain                         time.Duration // how long a drain may take; 0: as long as a rebalance

	Mappings MappingSet // how the records of each input topic become samples

	// Numbered says that records of some topic are arrays of readings: scores and anomalies have the number of their sample.
	Numbered bool
	Executor detectors.Executor
	// StateBytes is what the states of all partitions may take, by State.Bytes;
	// 0: no limit.
	StateBytes int64
	// SchemaGrace is how long a record waits for a schema that the registry says it
	// does not have: registry.Config.Grace of the decoder's registry.
	SchemaGrace time.Duration
	// Rules returns the mute rules and learned rules of now, nil while they are not known; nil: there are none.
	Rules func() *feedback.Rules
	// Resume returns what an operator said last of a paused partition; nil: there is nothing.
	Resume func(kafka.TP) (feedback.Resume, bool)
	// Changeable returns what has been changed since the start, another pointer after each change, nil before the
	// first; nil: nothing changes.
	Changeable func() *Changeable

	Guarantee          Guarantee
	TransactionTimeout time.Duration
	CommitInterval     time.Duration // least time from one commit's begin to the next, unless there is much to commit
	ReplayLimit        time.Duration // input that a restore may have to replay, in time of arrival

	Scores  cycle.ScoresMode
	Outputs cycle.TopicNames // "" for topics that are not written
	// CreateOutput creates the topic of an output that was deleted while the worker runs; nil: that is not allowed.
	CreateOutput func(ctx context.Context, output cycle.Output, partitions int) error
	SchemaIDs    cycle.SchemaIDs
	ScoreRuns    bool // the scores are written as runs, whose schema SchemaIDs then has
	// Traced is called with every cycle after its commit, by the goroutine that commits; nil: with none.
	Traced func(*cycle.Trace)
	// CarryHeaders names the headers of input records that scores and anomalies have, too.
	CarryHeaders []string
	Changelog    func(topic string) string // of an input topic; nil: there is no state to write
	Codec        record.Codec
	// MaxMessageBytes bounds a batch, also below a topic's max.message.bytes.
	MaxMessageBytes int

	Fetch kafka.FetchConfig

	Metrics *metrics.Metrics
	Log     *slog.Logger

	Hooks Hooks // for tests

	// export is shown the state of a partition after a restore and at a
	// hand-over, for the tests that hold the two equal.
	export func(tp kafka.TP, restored bool, offset int64, state []byte)
}

// Changeable is what may change while a Processor runs. A partition takes it up between two chunks of input.
type Changeable struct {
	// State is a configuration of the same detectors as at the start, for the topics without a mapping in ByName. Its
	// thresholds, guards and policies of anomalies replace those in force: each partition decides on that at its own
	// offset (State.Rulings.Reconfigure of package state).
	State  *state.Config
	ByName map[string]*state.Config // the same by the mappings' names
	Scores cycle.ScoresMode
}

// detectors returns the detectors of a mapping.
func (c *Changeable) detectors(mapping string) []series.DetectorConfig {
	return cmp.Or(c.ByName[mapping], c.State).Detectors
}

// The special values of Config.Start.
const (
	StartLatest   = -1
	StartEarliest = -2
)

// ErrInstanceFenced says that another live worker has the same instance_id.
var ErrInstanceFenced = errors.New("processor: another running worker has this instance_id; give each worker its own")

// Processor runs one worker of the group. Its main goroutine (Run) owns the
// producer and is the only one that commits; each partition has a goroutine
// that owns the partition's state.
type Processor struct {
	cfg Config
	log *slog.Logger

	session  *session
	assigned *assignment
	commits  *commits
	missing  *missing
	host     *host // of the partitions; its fetcher is set by Run
	trouble  metrics.FailureLog
}

// New checks the topics and extends changelogs that are too small. Nothing is consumed yet.
func New(ctx context.Context, cfg Config) (*Processor, error) {
	p := &Processor{cfg: cfg, log: cfg.Log}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	budget := &cycle.Budget{Total: cfg.StateBytes}
	p.assigned = newAssignment(budget, cfg.Metrics)
	p.session = &session{cfg: &p.cfg, log: p.log, trouble: &p.trouble, fatal: make(fatal, 1)}
	topics, err := cycle.OpenTopics(ctx, cfg.Client.Admin, &cfg.Outputs, cfg.MaxMessageBytes)
	logs := &changelogs{cfg: &p.cfg, log: p.log, topics: topics, assigned: p.assigned, session: p.session}
	if err = errors.Join(err, logs.open(ctx)); err != nil {
		return nil, err
	}
	p.cfg.Mappings.EditStates(func(st *state.Config) {
		st.Blocks = cfg.Outputs[cycle.Blocks] != ""
		for _, t := range topics.Changelogs() {
			st.MaxRecord = min(cmp.Or(st.MaxRecord, state.MaxRecord), max(t.BatchBytes-256, cycle.LeastBatch/2))
		}
	})
	p.commits = &commits{cfg: &p.cfg, log: p.log, trouble: &p.trouble, session: p.session, pace: cycle.NewPace(cfg.TransactionTimeout),
		outputs: topics, changelogs: logs, assigned: p.assigned, committer: newCommitter(cfg.Guarantee, p.session)}
	newBatches := func(maxBytes int) *record.Batches { return p.commits.committer.newBatches(maxBytes, cfg.Codec) }
	newCycle := func() *cycle.Cycle[*partition] { return cycle.New[*partition](topics, newBatches) }
	p.commits.cycles = cycle.NewCurrent(newCycle, p.commits.pace.Room(1))
	p.missing = &missing{cfg: &p.cfg, log: p.log, trouble: &p.trouble, topics: topics, assigned: p.assigned}
	p.session.hanging = &hanging{cfg: &p.cfg, log: p.log, trouble: &p.trouble, topics: topics, wake: make(chan struct{}, 1)}
	p.host = newHost(&p.cfg, p.log, topics, p.commits.cycles, budget, p.session)
	return p, nil
}

// newHost returns the partitions' view of the worker, without a fetcher.
func newHost(cfg *Config, log *slog.Logger, topics *cycle.Topics, cs *cycle.Current[*partition], budget *cycle.Budget,
	s *session) *host {
	return &host{cfg: cfg, log: log, outputs: topics, cycles: cs, budget: budget, warned: new(sync.Map),
		committed: s.committedOffsets, fail: s.fatal.fail, refused: make(chan struct{}, 1),
		gone: func(ctx context.Context, topic string) bool { return s.finder.gone(ctx, topic) }}
}

// Run joins the group and processes until ctx ends, then drains: it stops
// fetching, commits what is in hand and hands its partitions over. It returns
// nil after a clean drain.
func (p *Processor) Run(ctx context.Context) error {
	// Work outlives ctx: the drain after it still commits.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	pc := kafka.ProducerConfig{TransactionTimeout: p.cfg.TransactionTimeout, Timeout: p.cfg.TransactionTimeout}
	if p.cfg.Guarantee == ExactlyOnce {
		pc.TransactionalID = TransactionalID(p.cfg.Group, p.cfg.InstanceID)
	}
	p.session.producer = p.cfg.Client.NewProducer(pc)
	if err := p.session.producer.Init(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("processor: start the producer %q: %w", pc.TransactionalID, err)
	}
	p.session.hanging.settle(ctx, p.session.producer)
	p.host.fetcher = kafka.NewFetcher(p.cfg.Client, p.cfg.Fetch)
	defer p.host.fetcher.Close()

	find := &finder{cfg: &p.cfg, log: p.log, changelogs: p.commits.changelogs}
	p.session.finder = find
	member := kafka.GroupConfig{
		Group: p.cfg.Group, InstanceID: p.cfg.InstanceID, Topics: p.cfg.Topics, MetadataInterval: p.cfg.Hooks.MetadataInterval,
		Consumer:       p.cfg.ConsumerProtocol,
		SessionTimeout: p.cfg.Session, RebalanceTimeout: p.cfg.Rebalance, HeartbeatInterval: p.cfg.Heartbeat,
		Log: p.log,
	}
	if p.cfg.FindTopics != nil {
		member.Find = find.find
	}
	p.session.member.Store(kafka.JoinGroup(work, p.cfg.Client, member))
	var looks sync.WaitGroup
	looks.Go(func() { p.missing.run(work) })
	looks.Go(func() { p.session.hanging.run(work) })
	err := p.loop(ctx, work)
	if err != nil {
		p.leave(work, err)
	}
	cancel()
	looks.Wait()
	for _, pt := range p.assigned.partitions {
		pt.wait()
	}
	return err
}

// leave aborts the transaction and leaves the group after an error: other workers, and
// an operator whose command needs a group without members, need not wait for the
// time-outs of the transaction and the session. Nothing is committed, and what does not
// work within a few seconds is left to those time-outs.
func (p *Processor) leave(work context.Context, cause error) {
	ctx, cancel := context.WithTimeout(work, 3*time.Second)
	defer cancel()
	p.assigned.dropAll()
	if !errors.Is(cause, ErrInstanceFenced) && !p.session.producer.NeedsInit() {
		if err := p.commits.committer.abort(ctx); err != nil {
			p.log.Warn("abort failed, the transaction is left to its timeout", "err", err)
		}
	}
	member := p.session.member.Load()
	if member.Err() != nil {
		return
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		now, stop := context.WithCancel(work)
		stop()
		_ = member.Leave(now) // says that nothing was handed over
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
}

// loop does the work of the main goroutine: rebalances, commits and the drain, one at a time.
func (p *Processor) loop(ctx, work context.Context) error {
	var (
		timer    = time.NewTimer(time.Hour)
		due      <-chan time.Time // the open cycle may be committed at this time
		left     chan error       // Leave has returned
		stopping = ctx.Done()
	)
	defer timer.Stop()
	member := p.session.member.Load()
	events := member.Events()
	commits := p.commits
	rebalances := &rebalancer{cfg: &p.cfg, session: p.session, assigned: p.assigned, commits: commits, host: p.host}
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				events = nil
				if left == nil {
					p.assigned.dropAll()
					return p.session.memberEnded()
				}
				continue
			}
			if err := rebalances.rebalance(work, ev); err != nil {
				return err
			}
		case <-commits.cycles.Ready():
			if wait := p.cfg.CommitInterval - time.Since(commits.last); wait > 0 && left == nil && !commits.cycles.Prompt() {
				timer.Reset(wait)
				due = timer.C
				continue
			}
			due = nil
			if err := commits.commitOpen(work); err != nil {
				return err
			}
		case <-due:
			due = nil
			if err := commits.commitOpen(work); err != nil {
				return err
			}
		case err := <-commits.committer.offsets():
			if err := commits.offsetsAnswered(work, err); err != nil {
				return err
			}
		case err := <-p.session.fatal:
			return err
		case <-p.host.refused:
			if all := p.assigned.undecided(); all != nil {
				return all
			}
		case <-stopping:
			// Leave hands every partition back as a Revoked event first, which
			// drains and commits it while heartbeats go on.
			stopping = nil
			if p.cfg.Drain > 0 {
				rebalances.drainEnd = time.Now().Add(p.cfg.Drain)
			}
			p.log.Info("draining")
			left = make(chan error, 1)
			go func() { left <- member.Leave(work) }()
		case err := <-left:
			p.log.Info("drained")
			return err
		}
	}
}
