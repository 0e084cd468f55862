package processor

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// hanging ends hanging transactions of the group (KIP-664): they are open in a partition though their coordinator has decided and
// counts them as ended (see kafka.OpenTransaction). A producer, which starts again after all nodes have been killed, has its own ended
// before its next transaction. Those of workers that are gone are ended by a goroutine, which looks a few times after each start of
// the producer, and at nothing in between. What the brokers do not permit is left to kafka-transactions.sh.
type hanging struct {
	cfg     *Config
	log     *slog.Logger
	trouble *metrics.FailureLog
	topics  *cycle.Topics
	wake    chan struct{} // of capacity 1
}

// hangingLooks is how often hanging looks after a start of the producer.
const hangingLooks = 6

// look has run look again.
func (h *hanging) look() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx ends.
func (h *hanging) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		var before []kafka.OpenTransaction
		for range hangingLooks {
			open, err := h.open(ctx)
			if err == nil {
				err = h.end(ctx, both(open, before))
			}
			if ctx.Err() != nil {
				return
			}
			if kafka.ClassOf(err) == kafka.Fatal {
				h.log.Debug("hanging transactions cannot be looked for", "err", err)
				break
			}
			if err != nil {
				h.trouble.Warn(h.log, "hanging", "whether transactions hang is not known yet", "err", err)
			} else {
				h.trouble.Over(h.log, "hanging")
				before = open
			}
			if sleep(ctx, h.cfg.TransactionTimeout/4) != nil {
				return
			}
		}
	}
}

// settle ends what a producer has still open after it was initialised, which is hanging: brokers initialise a producer when its
// transactions have ended. It comes before the producer's next transaction, whose records the partition would add to the open one.
func (h *hanging) settle(ctx context.Context, p *kafka.Producer) {
	if h.cfg.Guarantee != ExactlyOnce {
		return
	}
	id, epoch := p.ID()
	began := time.Now()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		open, err := h.open(ctx)
		if err == nil {
			err = h.end(ctx, slices.DeleteFunc(open, func(o kafka.OpenTransaction) bool { return o.ProducerID != id || o.Epoch >= epoch }))
		}
		if err == nil || kafka.ClassOf(err) == kafka.Fatal || sleep(ctx, wait) != nil {
			break
		}
		if time.Since(began) > h.cfg.TransactionTimeout { // a partition without a leader is no reason to stand still for good
			h.trouble.Warn(h.log, "hanging", "whether transactions hang is not known yet", "err", err)
			break
		}
	}
	h.look()
}

// open returns what is open in the partitions that the group writes.
func (h *hanging) open(ctx context.Context) ([]kafka.OpenTransaction, error) {
	var tps []kafka.TP
	add := func(t *cycle.Topic) {
		for p := range int32(t.Partitions) {
			tps = append(tps, kafka.TP{Topic: t.Name, Partition: p})
		}
	}
	for i := range h.topics.Outputs {
		if t := &h.topics.Outputs[i]; t.Name != "" {
			add(t)
		}
	}
	for _, t := range h.topics.Changelogs() {
		add(t)
	}
	return h.cfg.Client.Cluster.OpenTransactions(ctx, h.cfg.Group, tps)
}

// end ends the hanging ones of some open transactions.
func (h *hanging) end(ctx context.Context, open []kafka.OpenTransaction) error {
	if len(open) == 0 {
		return nil
	}
	decided, err := kafka.Decisions(ctx, h.cfg.Client, h.cfg.Group+"-", open)
	if err != nil || len(decided) == 0 {
		return err
	}
	still, err := h.open(ctx) // an end that was under way when they were listed is there now
	if err != nil {
		return err
	}
	for _, o := range still {
		commit, ok := decided[o]
		if !ok {
			continue
		}
		if err := h.cfg.Client.Cluster.EndTransaction(ctx, o, commit); err != nil {
			return err
		}
		h.log.Warn("a hanging transaction was ended as its coordinator had decided", "topic", o.TP.Topic,
			"partition", o.TP.Partition, "producer", o.ProducerID, "offset", o.Start, "committed", commit)
	}
	return nil
}

// both returns what two lists have in common.
func both(a, b []kafka.OpenTransaction) (list []kafka.OpenTransaction) {
	for _, o := range a {
		if slices.Contains(b, o) {
			list = append(list, o)
		}
	}
	return list
}
