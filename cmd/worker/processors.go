package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"odradek/processor"
	"odradek/processor/metrics"
)

// processors are the processors of a worker, as admin.ProcessorConfigs lists them.
type processors []*processor.Processor

// Run runs all of them until ctx ends and each has drained. If one fails, the others drain, too.
func (ps processors) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(ps))
	var running sync.WaitGroup
	for i, p := range ps {
		running.Go(func() {
			if errs[i] = p.Run(ctx); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// Status lists the partitions of all.
func (ps processors) Status() (list []metrics.PartitionStatus) {
	for _, p := range ps {
		list = append(list, p.Status()...)
	}
	return list
}

// NotReady returns why one of them does not do its work.
func (ps processors) NotReady() error {
	return ps.first((*processor.Processor).NotReady)
}

// Stalled names a partition that has had input for longer than limit without committing any.
func (ps processors) Stalled(limit time.Duration) error {
	return ps.first(func(p *processor.Processor) error { return p.Stalled(limit) })
}

func (ps processors) first(f func(*processor.Processor) error) error {
	for _, p := range ps {
		if err := f(p); err != nil {
			return err
		}
	}
	return nil
}
