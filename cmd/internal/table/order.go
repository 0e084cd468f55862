package table

import (
	"context"
	"sync"
)

// inOrder runs the jobs of next, up to workers of them at once, until it has no more, and
// passes the results to emit in the order of the jobs. It ends at the first error, also
// ctx's, and drops the remaining results.
func inOrder[J, R any](ctx context.Context, workers int, next func() (J, bool, error), work func(J) (R, error), emit func(R) error) error {
	type slot struct {
		job  J
		r    R
		err  error
		done chan struct{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	todo := make(chan *slot)
	queue := make(chan *slot, 2*workers) // in order
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range workers {
		wg.Go(func() {
			for s := range todo {
				s.r, s.err = work(s.job)
				close(s.done)
			}
		})
	}
	wg.Go(func() {
		defer close(queue)
		defer close(todo)
		for ctx.Err() == nil {
			job, more, err := next()
			if err == nil && !more {
				return
			}
			s := &slot{job: job, err: err, done: make(chan struct{})}
			if err != nil {
				close(s.done)
			}
			select {
			case queue <- s:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
			select {
			case todo <- s:
			case <-ctx.Done():
				s.err = ctx.Err()
				close(s.done)
				return
			}
		}
	})
	for s := range queue {
		<-s.done
		err := s.err
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = emit(s.r)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
