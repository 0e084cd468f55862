package processor

import (
	"context"
	"sync"
	"time"
)

// command is what the main goroutine asks a partition to do. A larger one includes the
// smaller ones.
type command int

const (
	goOn      command = iota // no change: check whether the start is committed
	goBack                   // roll back to the committed mark
	startOver                // restore from what is committed
	stopSoon                 // finish the chunk in hand, join it, end
)

// commands hands the commands of the main goroutine to a partition's.
type commands struct {
	ready chan struct{} // wakes the partition's goroutine; capacity 1

	mu   sync.Mutex
	next command
}

func newCommands() *commands { return &commands{ready: make(chan struct{}, 1)} }

// send gives a command; of several that have not been taken the largest stays.
func (c *commands) send(cmd command) {
	c.mu.Lock()
	c.next = max(c.next, cmd)
	c.mu.Unlock()
	c.wake()
}

func (c *commands) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// receive returns the command, after ready.
func (c *commands) receive() command {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.next
	c.next = goOn
	return cmd
}

// wait waits for d. stop reports that a command has come meanwhile: it is left for receive.
func (c *commands) wait(ctx context.Context, d time.Duration) (stop bool, err error) {
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-c.ready:
		c.mu.Lock()
		none := c.next == goOn // taken already, with an earlier wake-up
		c.mu.Unlock()
		if none {
			return false, nil
		}
		c.wake()
		return true, nil
	case <-time.After(d):
		return false, nil
	}
}
