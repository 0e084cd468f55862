package backtest

import (
	"context"
	"fmt"
	"math"

	"odradek/detectors"
	"odradek/processor/state"
)

// This file runs recorded samples through the state of a partition, the executor,
// the thresholds and the anomalies of the worker.

// laneSamples is the most samples that a Lane scores together. Results do not depend on it.
const laneSamples = 4096

// Lane folds the samples of one input partition as the worker does: state, executor,
// thresholds and anomalies are the same code. It publishes and stores nothing. A Lane is for one goroutine at a time.
type Lane struct {
	// TellBlocks takes the blocks of tasks before tell takes their rows, with
	// state.Config.Blocks; nil: they are dropped.
	TellBlocks func(rows []state.BlockRow) error
	// TellRefused takes the samples whose event times are refused (ODRADEK_MAX_JUMP); nil: they are dropped.
	TellRefused func(*state.Refusal)

	cfg    *state.Config
	state  *state.State
	exec   detectors.Executor
	batch  *detectors.Batch
	tell   func(rows []state.Row, events []state.EventRow) error
	next   int64 // records with offsets below are folded
	most   int   // samples to score together
	folded int   // since the last were scored
}

// NewLane returns a Lane that begins at offset first of a partition. Topic and partition are
// part of the ids of anomalies. Rows and changes of anomalies are passed to tell in the order of the
// samples; both slices are valid until it returns. The Lane must be closed.
func NewLane(cfg *state.Config, exec detectors.Executor, topic string, partition int32, first int64,
	tell func(rows []state.Row, events []state.EventRow) error) *Lane {
	l := beginLane(cfg, exec, topic, partition, first, tell)
	l.state.Mark(first)
	l.state.Committed(first)
	return l
}

// NewLaneAt is NewLane of a partition that has samples before, of no series, whose newest event time is given.
func NewLaneAt(cfg *state.Config, exec detectors.Executor, topic string, partition int32, first, newest int64,
	tell func(rows []state.Row, events []state.EventRow) error) (*Lane, error) {
	l := beginLane(cfg, exec, topic, partition, first, tell)
	if err := l.state.BeginReplay(state.Floor{Offset: first, MaxTime: newest}, first, false); err != nil {
		l.Close()
		return nil, fmt.Errorf("backtest: %w", err)
	}
	l.state.EndInput(l.batch)
	l.state.Fits(l.batch)
	l.state.EndReplay()
	l.state.Committed(first)
	return l, nil
}

func beginLane(cfg *state.Config, exec detectors.Executor, topic string, partition int32, first int64,
	tell func(rows []state.Row, events []state.EventRow) error) *Lane {
	l := &Lane{cfg: cfg, state: state.New(cfg), exec: exec, batch: exec.Batch(), tell: tell, next: first, most: laneSamples}
	l.state.SetSource(topic, partition)
	return l
}

// Close frees the memory of the executor.
func (l *Lane) Close() {
	l.exec.Release(l.batch)
}

// Counts returns the samples folded so far by outcome, and those still held for
// ODRADEK_LATENESS or as suspects.
func (l *Lane) Counts() (counts state.Counts, held int) { return l.state.Tally.Counts, l.state.Held() }

// Suspects returns how many samples are held because their event times may be wrong (ODRADEK_MAX_JUMP).
func (l *Lane) Suspects() int { return l.state.Suspects.Len() }

// Release takes what is held for order up to an event time, as where the partition is idle (ODRADEK_IDLE_AFTER).
func (l *Lane) Release(ctx context.Context, to int64) error {
	if err := l.Finish(ctx); err != nil {
		return err
	}
	for at := l.state.NextAdvance(); at <= to; at = l.state.NextAdvance() {
		// Where each series has its own order, what waits may be due before the largest event time.
		if !l.state.DecideAdvance(min(to, max(at, l.state.MaxTime()+1))) {
			break
		}
		if err := l.Finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Bytes returns the memory that the state takes.
func (l *Lane) Bytes() int64 { return l.state.Bytes() }

// Misplaced returns why a grid of its series cannot count a sample; nil if all can. For the worker such a sample is a dead
// letter; the caller must not fold it.
func (l *Lane) Misplaced(sm *state.Sample) error {
	if e := l.state.Misplaced(sm.Key, sm.Values); e != nil {
		return e
	}
	return nil
}

// Fold takes the next sample. Its offset is not below those before it.
func (l *Lane) Fold(ctx context.Context, sm *state.Sample) (state.Outcome, error) {
	if l.folded >= l.most && l.cfg.Number(sm.Offset) == 0 {
		if err := l.Finish(ctx); err != nil {
			return 0, err
		}
	}
	if err := l.makeRoom(ctx); err != nil {
		return 0, err
	}
	out := l.state.Fold(sm, l.batch)
	l.next = l.cfg.Record(sm.Offset) + 1
	l.folded++
	if len(l.state.Suspects.Refused) > 0 {
		for i := range l.state.Suspects.Refused {
			if l.TellRefused != nil {
				l.TellRefused(&l.state.Suspects.Refused[i])
			}
		}
		clear(l.state.Suspects.Refused)
		l.state.Suspects.Refused = l.state.Suspects.Refused[:0]
	}
	return out, nil
}

func (l *Lane) makeRoom(ctx context.Context) error {
	for !l.state.Fits(l.batch) {
		if err := l.score(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Finish scores the folded samples and passes them to tell.
func (l *Lane) Finish(ctx context.Context) error {
	if err := l.makeRoom(ctx); err != nil {
		return err
	}
	if err := l.score(ctx); err != nil {
		return err
	}
	l.folded = 0
	l.state.Mark(l.next)
	// Decisions and keys with changed anomalies have to be in the cycle's snapshot.
	if err := l.state.Snapshot(math.MinInt64, -1, func(_, _ []byte) error { return nil }); err != nil {
		return fmt.Errorf("backtest: %w", err)
	}
	l.state.Committed(l.next)
	return nil
}

// score executes the packed tasks, applies their results and passes them to tell.
func (l *Lane) score(ctx context.Context) error {
	if len(l.batch.Tasks) > 0 {
		if err := l.exec.Execute(ctx, l.batch); err != nil {
			return fmt.Errorf("backtest: score: %w", err)
		}
	}
	l.state.Apply(l.batch)
	l.batch.Reset()
	if blocks := l.state.Blocks; len(blocks) > 0 {
		var err error
		if l.TellBlocks != nil {
			err = l.TellBlocks(blocks)
		}
		clear(blocks)
		if l.state.Blocks = blocks[:0]; err != nil {
			return err
		}
	}
	if len(l.state.Rows)+len(l.state.Events) == 0 {
		return nil
	}
	err := l.tell(l.state.Rows, l.state.Events)
	l.state.Rows, l.state.Events, l.state.Rises = l.state.Rows[:0], l.state.Events[:0], l.state.Rises[:0]
	return err
}
