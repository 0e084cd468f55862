package backtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"odradek/cmd/internal/table"
	"odradek/processor/kafka"
	"odradek/processor/state"
	"odradek/schemas"
)

// files is a Source of files, one after the other.
type files struct {
	paths      []string
	o          table.Options
	wide       []string               // names of the values of a row that are series of their own; nil: a row is one sample
	state      *state.Config          // that numbers the samples of a row
	screen     func(values []float64) // values that the mapping does not take are missing; nil: it takes all
	partitions []Partition
	next       []int64      // offset of the next row, by partition
	total      int64        // bytes of all files
	bad        atomic.Int64 // rows that were left out

	filtered atomic.Int64 // rows for which the condition of the mapping is false

	mu      sync.Mutex
	reasons []string // why rows were left out, the first mostReasons
}

// NewFiles returns a Source of the rows of files, as if they had been produced, file by file
// and row by row, to a topic of the given partitions by their series keys: a worker that
// read that topic would have the same results, to the bit. With wide, the names of the values of a row, each of them is
// a series of its own, and state numbers the samples of a row. The error is of a file that cannot be opened, or lacks a column.
func NewFiles(paths []string, o table.Options, wide []string, state *state.Config, topic string, partitions int) (Source, error) {
	f := &files{paths: paths, wide: wide, state: state, screen: o.Mapping.Screen(), next: make([]int64, partitions)}
	for i := range partitions {
		f.partitions = append(f.partitions, Partition{Topic: topic, Number: int32(i)})
	}
	f.o = o
	f.o.Note = f.note
	for _, p := range paths {
		t, err := table.Open(p, o)
		if err != nil {
			return nil, err
		}
		f.total += t.Bytes()
		if err := t.Close(); err != nil {
			return nil, fmt.Errorf("backtest: %w", err)
		}
	}
	return f, nil
}

func (f *files) Partitions() []Partition { return f.partitions }
func (f *files) Total() int64            { return f.total }

func (f *files) Troubles() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.reasons)
	if n := f.bad.Load(); n > int64(len(f.reasons)) {
		list = append(list, fmt.Sprintf("%d rows were left out in all", n))
	}
	if n := f.filtered.Load(); n > 0 {
		list = append(list, fmt.Sprintf("%d rows for which ODRADEK_ONLY_IF is false", n))
	}
	return list
}

// mostReasons is the number of rows that were left out whose reason is reported.
const mostReasons = 20

func (f *files) Read(ctx context.Context, send func(int, *Share) error) error {
	done := int64(0)
	for _, p := range f.paths {
		t, err := table.Open(p, f.o)
		if err != nil {
			return err
		}
		err = t.Read(ctx, func(b *table.Batch) error { return f.distribute(b, p, done, send) })
		done += t.Bytes()
		if err := errors.Join(err, t.Close()); err != nil {
			return err
		}
	}
	return nil
}

// note takes what a file's reader assumes.
func (f *files) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.reasons, text) && len(f.reasons) < mostReasons {
		f.reasons = append(f.reasons, text)
	}
}

// distribute sends each partition its rows of the batch.
func (f *files) distribute(b *table.Batch, path string, before int64, send func(int, *Share) error) error {
	defer b.Release()
	if screen := f.screen; screen != nil {
		for i := range b.Len() {
			screen(b.Row(i))
		}
	}
	f.filtered.Add(b.Filtered)
	if b.Bad > 0 {
		f.bad.Add(b.Bad)
		f.mu.Lock()
		for _, w := range b.Why {
			if len(f.reasons) < mostReasons {
				f.reasons = append(f.reasons, path+": "+w)
			}
		}
		f.mu.Unlock()
	}
	n := len(f.partitions)
	partition, size := make([]int32, len(b.Keys)), make([]int, n+1)
	for i, k := range b.Keys {
		partition[i] = kafka.Partition(k, n)
	}
	for _, k := range b.Key {
		size[partition[k]+1]++
	}
	for p := range n {
		size[p+1] += size[p]
	}
	rows, at := make([]uint32, b.Len()), append([]int(nil), size[:n]...)
	for i, k := range b.Key {
		p := partition[k]
		rows[at[p]] = uint32(i)
		at[p]++
	}
	for p := range n {
		mine := rows[size[p]:size[p+1]]
		if len(mine) == 0 {
			continue
		}
		var s *Share
		if f.wide != nil {
			s = f.split(b, mine, f.next[p])
		} else {
			b.Retain(1)
			s = &Share{Batch: b, Rows: mine, First: f.next[p]}
		}
		s.Done = before + b.Bytes
		f.next[p] += int64(len(mine))
		if err := send(p, s); err != nil {
			return err
		}
	}
	return nil
}

// split returns a share of the samples of rows, the first of which has the offset first: one for each value, in a batch of
// their own.
func (f *files) split(b *table.Batch, rows []uint32, first int64) *Share {
	n := len(f.wide)
	out := &table.Batch{Width: 1, Keys: make([][]byte, 0, n*len(b.Keys))}
	s := &Share{Batch: out, Offsets: make([]int64, 0, n*len(rows))}
	at := make(map[uint32]uint32, len(b.Keys)) // key -> the first of its series
	split := schemas.NewSplitter(f.wide)
	for i, row := range rows {
		k := b.Key[row]
		base, ok := at[k]
		if !ok {
			base = uint32(len(out.Keys))
			at[k] = base
			one := schemas.RowReading(b.Keys[k], b.Times[row], b.Row(int(row)), nil)
			for v := range n {
				key, _, _ := split.Sample(&one, v)
				out.Keys = append(out.Keys, bytes.Clone(key))
			}
		}
		absent, at := b.RowAbsent(int(row)), 0
		for v, value := range b.Row(int(row)) {
			if len(absent) > 0 && absent[v] {
				continue
			}
			out.Key, out.Times, out.Values = append(out.Key, base+uint32(v)), append(out.Times, b.Times[row]), append(out.Values, value)
			s.Offsets = append(s.Offsets, f.state.Place(first+int64(i), at))
			at++
			if len(b.Labels) > 0 {
				out.Labels = append(out.Labels, b.Labels[row])
			}
		}
	}
	return s
}
