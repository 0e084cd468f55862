package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
)

// hanging ends hanging transactions of the group (KIP-664): they are open in a partition though their coordinator has decided and
// counts them as ended (see kafka.OpenTransaction). A producer, which starts again after all nodes have been killed, has its own ended
// before its next transaction. Those of workers that are gone are ended by a goroutine, which looks a few times after each start of
// the producer, and where a committed offset is held for long. What the brokers do not permit is left to kafka-transactions.sh.
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
	undecided := map[kafka.OpenTransaction]time.Time{} // when the coordinators' log said nothing of them
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		maps.DeleteFunc(undecided, func(_ kafka.OpenTransaction, at time.Time) bool {
			return time.Since(at) > 2*h.cfg.TransactionTimeout // the log is large
		})
		var before []kafka.OpenTransaction
		for range hangingLooks {
			open, err := h.open(ctx)
			if ctx.Err() != nil {
				return
			}
			if kafka.ClassOf(err) == kafka.Fatal {
				h.log.Debug("hanging transactions cannot be looked for", "err", err)
				break
			}
			if err == nil {
				var left, asked []kafka.OpenTransaction
				for _, o := range open {
					if slices.Contains(before, o) && undecided[o].IsZero() {
						asked = append(asked, o)
					}
				}
				left, err = h.end(ctx, asked, kafka.TransactionalIDs{Prefix: h.cfg.Group + "-"})
				if kafka.ClassOf(err) == kafka.Fatal {
					h.refused(left, err)
					break
				}
				if err == nil {
					before = open
					for _, o := range left {
						undecided[o] = time.Now()
					}
				}
			}
			if err != nil {
				h.unknown(err)
			} else {
				h.trouble.Over(h.log, "hanging")
			}
			if sleep(ctx, h.cfg.TransactionTimeout/4) != nil {
				return
			}
		}
	}
}

// settle ends what a producer has still open after it was initialised, which is hanging: brokers initialise a producer when its
// transactions have ended. It comes before the producer's next transaction, whose records the partition would add to the open one. It
// takes no longer than a transaction may: a partition without a leader is no reason to stand still for good.
func (h *hanging) settle(ctx context.Context, p *kafka.Producer) {
	if h.cfg.Guarantee != ExactlyOnce {
		return
	}
	limited, cancel := context.WithTimeout(ctx, h.cfg.TransactionTimeout)
	defer cancel()
	id, epoch := p.ID()
	ids := kafka.TransactionalIDs{ID: TransactionalID(h.cfg.Group, h.cfg.InstanceID)}
	began := time.Now()
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		own, err := h.open(limited)
		if own = slices.DeleteFunc(own, func(o kafka.OpenTransaction) bool { return o.ProducerID != id || o.Epoch >= epoch }); err == nil {
			own, err = h.end(limited, own, ids)
		}
		if ctx.Err() != nil || len(own) == 0 && (err == nil || kafka.ClassOf(err) == kafka.Fatal) { // run says what is fatal
			break
		}
		// Metadata of a broker that has just started may have no coordinators' log yet.
		if kafka.ClassOf(err) == kafka.Fatal || limited.Err() != nil || err == nil && time.Since(began) > undecidedPatience {
			if len(own) > 0 {
				h.refused(own, err)
			} else {
				h.unknown(err)
			}
			break
		}
		_ = sleep(limited, wait)
	}
	h.look()
}

// undecidedPatience is how long settle asks again about a transaction of which the coordinators' log says nothing.
const undecidedPatience = 5 * time.Second

// refused logs that transactions hang which cannot be ended; err is nil where the coordinators' log has no decision.
func (h *hanging) refused(open []kafka.OpenTransaction, err error) {
	var tps []string
	for _, o := range open {
		tps = append(tps, fmt.Sprintf("%s from offset %d", o.TP, o.Start))
	}
	if err == nil {
		err = errors.New("processor: the coordinators' log has no decision about them")
	}
	h.trouble.Warn(h.log, "hanging: refused", "transactions hang: readers of committed records stop there, and the next transaction of the "+
		"same worker joins them", "err", err, "open", tps,
		"fix", "allow ClusterAction on the cluster and Read on __transaction_state, or end them with kafka-transactions.sh; see "+
			"docs/operations/kafka.md")
}

func (h *hanging) unknown(err error) {
	h.trouble.Warn(h.log, "hanging", "whether transactions hang cannot be found out yet; where one does, readers of committed records stop",
		"err", err)
}

// open returns what is open in the topics that the group writes.
func (h *hanging) open(ctx context.Context) ([]kafka.OpenTransaction, error) {
	var topics []string
	for i := range h.topics.Outputs {
		if t := &h.topics.Outputs[i]; t.Name != "" {
			topics = append(topics, t.Name)
		}
	}
	for _, t := range h.topics.Changelogs() {
		topics = append(topics, t.Name)
	}
	slices.Sort(topics)
	return h.cfg.Client.Cluster.OpenTransactions(ctx, h.cfg.Group, slices.Compact(topics))
}

// end ends those of some open transactions about which the coordinators' log has a decision, and returns the others. Where it fails it
// returns all of them.
func (h *hanging) end(ctx context.Context, open []kafka.OpenTransaction, ids kafka.TransactionalIDs) ([]kafka.OpenTransaction, error) {
	if len(open) == 0 {
		return nil, nil
	}
	decided, err := kafka.Decisions(ctx, h.cfg.Client, ids, open)
	if err != nil {
		return open, err
	}
	still, err := h.open(ctx) // an end that was under way when they were listed is there now
	if err != nil {
		return open, err
	}
	var left []kafka.OpenTransaction
	var errs []error
	for _, o := range open {
		if !slices.Contains(still, o) {
			continue
		}
		commit, ok := decided[o]
		if !ok {
			left = append(left, o)
			continue
		}
		if err := h.cfg.Client.Cluster.EndTransaction(ctx, o, commit); err != nil {
			left, errs = append(left, o), append(errs, err)
			continue
		}
		h.log.Warn("a hanging transaction was ended as its coordinator had decided", "topic", o.TP.Topic,
			"partition", o.TP.Partition, "producer", o.ProducerID, "offset", o.Start, "committed", commit)
	}
	return left, errors.Join(errs...)
}
