package cycle

import (
	"math"
	"testing"

	"odradek/processor/kafka"
)

// TestBudgetShares: a partition may use what the others leave, but never less than its share.
func TestBudgetShares(t *testing.T) {
	tp := func(i int32) kafka.TP { return kafka.TP{Topic: "in", Partition: i} }
	b := Budget{Total: 1000}
	b.Join(tp(0))
	if got := b.Limit(tp(0), 900); got != 1000 {
		t.Errorf("alone: %d", got)
	}
	b.Join(tp(1))
	if got := b.Limit(tp(1), 0); got != 500 {
		t.Errorf("beside one that has nearly all: %d", got)
	}
	if got := b.Limit(tp(1), 400); got != 500 {
		t.Errorf("grown: %d", got)
	}
	if got := b.Limit(tp(0), 900); got != 600 {
		t.Errorf("the one that has nearly all: %d", got)
	}
	b.Limit(tp(0), 600)
	b.Leave(tp(1))
	if got := b.Limit(tp(0), 600); got != 1000 {
		t.Errorf("alone again: %d", got)
	}
	if got := b.Limit(tp(1), 700); got != math.MaxInt64 || b.sum != 600 {
		t.Errorf("one that has left: %d, sum %d", got, b.sum)
	}
	none := Budget{}
	none.Join(tp(0))
	if got := none.Limit(tp(0), 1<<40); got != math.MaxInt64 {
		t.Errorf("no budget: %d", got)
	}
}
