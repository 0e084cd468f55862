package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/metrics"
	"odradek/processor/state"
)

// Examined is what a worker would do with one partition.
type Examined struct {
	TP kafka.TP
	// Err is why the worker would end (RefusedError), or pause the partition
	// (Quarantines), or why the partition could not be examined.
	Err error
	// Notes are the warnings that the worker would log: state that a policy empties.
	Notes []string
	// From and Start are the bounds of the backfill of a new partition: offsets at which it begins to read, and to
	// publish. They are equal where there is none.
	From, Start int64
}

// Quarantines reports whether err pauses one partition and leaves the others running.
func Quarantines(err error) bool {
	var stuck *QuarantineError
	return errors.As(err, &stuck)
}

// Examine reports what a worker with this configuration would do with the committed
// offsets and the stored state of input partitions, by the same code that restores a
// partition, up to the replay. It joins no group and writes nothing. A changelog that
// does not exist yet counts as empty. report is called for each partition; cfg needs no
// outputs.
func Examine(ctx context.Context, cfg Config, tps []kafka.TP, report func(Examined)) error {
	if cfg.Metrics == nil {
		cfg.Metrics = cycle.NewMetrics()
	}
	topics := cycle.NewTopics()
	for _, tp := range tps {
		if cfg.Changelog == nil || topics.Changelog(tp.Topic) != nil {
			continue
		}
		name := cfg.Changelog(tp.Topic)
		infos, err := cfg.Client.Admin.Topics(ctx, name)
		if err != nil {
			return fmt.Errorf("processor: examine: %w", err)
		}
		topics.SetChangelog(tp.Topic, &cycle.Topic{Name: name, Partitions: infos[name].Partitions})
	}
	log := slog.New(slog.DiscardHandler)
	s := &session{cfg: &cfg, log: log, trouble: new(metrics.FailureLog), fatal: make(fatal, 1),
		hanging: &hanging{wake: make(chan struct{}, 1)}}
	h := newHost(&cfg, log, topics, nil, &cycle.Budget{Total: cfg.StateBytes}, s)
	h.fetcher = kafka.NewFetcher(cfg.Client, cfg.Fetch)
	defer h.fetcher.Close()
	for _, tp := range tps {
		x, err := h.examine(ctx, tp)
		if err != nil {
			return fmt.Errorf("processor: examine %s: %w", tp, err)
		}
		report(x)
	}
	return nil
}

// examineTries is how often a partition is examined that a running worker commits
// meanwhile.
const examineTries = 5

// examine reports what a worker would do with one partition.
func (h *host) examine(ctx context.Context, tp kafka.TP) (Examined, error) {
	x := Examined{TP: tp}
	for try := range examineTries {
		offs, err := h.committed(ctx, []kafka.TP{tp})
		if err != nil {
			return x, err
		}
		var notes notes
		h.budget.Join(tp)
		noting := *h
		noting.log = slog.New(&notes)
		pt := newPartition(&noting, tp)
		x.From, x.Start, x.Err = pt.work.examine(ctx, offs[tp])
		h.budget.Leave(tp)
		if ctx.Err() != nil {
			return x, ctx.Err()
		}
		x.Notes = notes.lines
		if !errors.Is(x.Err, state.ErrAhead) && !kafka.OffsetLost(x.Err) {
			return x, nil
		}
		if err := sleep(ctx, time.Duration(try+1)*100*time.Millisecond); err != nil {
			return x, err
		}
	}
	return x, nil
}

// notes is a log handler that collects warnings and errors as texts.
type notes struct {
	mu    sync.Mutex
	lines []string
}

func (n *notes) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (n *notes) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("; %s: %v", strings.ReplaceAll(a.Key, "_", " "), a.Value)
		return true
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, text)
	return nil
}

func (n *notes) WithAttrs([]slog.Attr) slog.Handler { return n }

func (n *notes) WithGroup(string) slog.Handler { return n }
