package undo

import "odradek/processor/keystate/floor"

// Kind says what an operation changes. The owner of a Log defines the kinds.
type Kind uint8

// Floats is set in kinds whose numbers are on the stack Unit.Floats, not on Unit.Words.
const Floats Kind = 1 << 7

// Released is set in kinds whose operations Owner.Release is called for.
const Released Kind = 1 << 6

// Op is a change that can be undone.
type Op[K any] struct {
	Key    K
	Kind   Kind
	values uint8  // on the stack of values
	What   uint16 // which field of the key, or as the kind defines
	n      uint32 // numbers on their stack
}

// Operands are what an operation needs to be undone: numbers on the stack of its kind, and the
// values that it was pushed with. The others are undefined.
type Operands struct {
	Words  []uint64
	Floats []float32
	Values []any
}

// Unit is what it takes to undo the changes between two marks. Operations are
// undone last first; what they need lies on stacks, and is popped.
type Unit[K, S any] struct {
	// Words and Floats are where the numbers of an operation are appended before Push.
	Words  []uint64
	Floats []float32

	start, end int64
	floor      floor.Floor // if the cycle that ends here is committed
	saved      S           // of the owner, as of start
	ops        []Op[K]
	values     []any

	// The operations of a snapshot are the last of the unit whose mark it follows.
	// Without a new mark, they are the first ones of the open unit, prefix in
	// number; once that is committed, the first ones, final in number, are not undone.
	snapped       bool
	prefix, final int
	prefixFloor   int64
	prefixSaved   S // of the owner, as of the end of the prefix
}

// Start returns the offset of the mark where the unit begins.
func (u *Unit[K, S]) Start() int64 { return u.start }

// Push adds an operation, whose n numbers are the last of Words or Floats.
func (u *Unit[K, S]) Push(kind Kind, k K, what int, n int) {
	// Filled in place: a literal is built on the stack in small stores and copied in
	// large loads, which have to wait for them.
	u.ops = append(u.ops, Op[K]{})
	o := &u.ops[len(u.ops)-1]
	o.Key, o.Kind, o.What, o.n = k, kind, uint16(what), uint32(n)
}

// PushValues is Push for an operation that needs values, too.
func (u *Unit[K, S]) PushValues(kind Kind, k K, what int, n int, values ...any) {
	u.values = append(u.values, values...)
	u.Push(kind, k, what, n)
	u.ops[len(u.ops)-1].values = uint8(len(values))
}

// Each visits the operations, first to last, with their words.
func (u *Unit[K, S]) Each(visit func(o *Op[K], words []uint64)) {
	at := 0
	for i := range u.ops {
		o := &u.ops[i]
		if o.Kind&Floats != 0 {
			visit(o, nil)
			continue
		}
		visit(o, u.Words[at:at+int(o.n)])
		at += int(o.n)
	}
}

// undo reverts the operations that are not final.
func (u *Unit[K, S]) undo(revert func(*Op[K], *Operands)) {
	with := new(Operands)
	for i := len(u.ops) - 1; i >= u.final; i-- {
		o := &u.ops[i]
		if o.Kind&Floats != 0 {
			with.Floats = pop(&u.Floats, int(o.n))
		} else {
			with.Words = pop(&u.Words, int(o.n))
		}
		if o.values == 0 {
			revert(o, with)
			continue
		}
		with.Values = pop(&u.values, int(o.values))
		revert(o, with)
		clear(with.Values)
	}
}

func pop[T any](stack *[]T, n int) []T {
	at := len(*stack) - n
	top := (*stack)[at:]
	*stack = (*stack)[:at]
	return top
}

// commit releases what only an undo of the operations up to n would need.
func (u *Unit[K, S]) commit(n int, release func(o *Op[K], values []any)) {
	at := 0
	for i := range u.ops[:n] {
		o := &u.ops[i]
		if o.Kind&Released != 0 && i >= u.final {
			release(o, u.values[at:at+int(o.values)])
		}
		at += int(o.values)
	}
}

// reset empties the unit for what follows a mark.
func (u *Unit[K, S]) reset(start int64, saved S) {
	*u = Unit[K, S]{
		start: start, saved: saved,
		Words: trim(u.Words, false), Floats: trim(u.Floats, false), ops: trim(u.ops, true), values: trim(u.values, true),
	}
}

// trim empties a stack and clears its pointers. It releases the memory of a burst.
func trim[T any](a []T, pointers bool) []T {
	if cap(a) > 1<<16 && len(a) < cap(a)/2 {
		return nil
	}
	if pointers {
		clear(a)
	}
	return a[:0]
}
