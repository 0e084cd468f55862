package processor

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/processor/kafka"
)

// handovers records the states, with their offsets, that partitions hand over and restore, run after run.
type handovers struct {
	mu               sync.Mutex
	handed, restored map[kafka.TP][]byte
	refused          int // commits
}

// record has a processor of a configuration say what it hands over and restores.
func (h *handovers) record(cfg *Config) {
	cfg.export = func(tp kafka.TP, was bool, offset int64, state []byte) {
		h.mu.Lock()
		defer h.mu.Unlock()
		state = fmt.Appendf(state, " at %d", offset)
		if was {
			h.restored[tp] = state
		} else {
			h.handed[tp] = state
		}
	}
}

// refuse has the broker refuse every third commit, 15 of them at most, so that work is rolled back.
func (h *handovers) refuse(b *bench) {
	requests := 0
	b.c.Fake.ControlKey(int16(kmsg.EndTxn), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.c.Fake.KeepControl()
		h.mu.Lock()
		defer h.mu.Unlock()
		r := req.(*kmsg.EndTxnRequest)
		if requests++; !r.Commit || requests%3 != 0 || h.refused == 15 {
			return nil, nil, false
		}
		h.refused++
		resp := r.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode = kerr.InvalidTxnState.Code
		return resp, nil, true
	})
}

// run runs a processor and compares what it restores with what the run before it has handed over, of which it holds
// that it is of as many partitions as are named.
func (h *handovers) run(t *testing.T, partitions int, run func()) {
	t.Helper()
	last := h.handed
	h.handed, h.restored = map[kafka.TP][]byte{}, map[kafka.TP][]byte{}
	run()
	for tp, state := range last {
		if !bytes.Equal(state, h.restored[tp]) {
			t.Errorf("%v: the state of %d bytes that was handed over is not the restored one of %d", tp, len(state), len(h.restored[tp]))
		}
	}
	if len(h.handed) != partitions {
		t.Errorf("%d partitions were handed over", len(h.handed))
	}
}
