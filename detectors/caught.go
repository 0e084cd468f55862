package detectors

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Caught carries a panic from the goroutines that run parts of a task to the one that waits for them, where its caller can
// recover: a panic in a goroutine of its own would end the process.
type Caught struct{ first atomic.Pointer[Panic] }

// Panic is the value of a panic in another goroutine, with that goroutine's stack.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// Run calls f and keeps its panic, the first of several.
func (c *Caught) Run(f func()) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panic: // of a part of f
			c.first.CompareAndSwap(nil, v)
		default:
			c.first.CompareAndSwap(nil, &Panic{v, debug.Stack()})
		}
	}()
	f()
}

// Any reports whether there is a panic.
func (c *Caught) Any() bool { return c.first.Load() != nil }

// Again panics with the *Panic that was kept, if there is one. All goroutines must have ended.
func (c *Caught) Again() {
	if p := c.first.Load(); p != nil {
		panic(p)
	}
}
