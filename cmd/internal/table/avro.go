package table

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"odradek/schemas"
	"odradek/schemas/avro"
)

type avroFile struct {
	f       *os.File
	o       *Options
	size    int64
	r       *avro.ContainerReader
	dec     *avro.RunDecoder
	labelAt int // index of the label among the values of a reading; -1: none
}

// openAvro opens an Avro object container file. Records are read through the same
// projection as a topic's.
func openAvro(path string, o *Options) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	a := &avroFile{f: f, o: o, labelAt: -1}
	if err := a.open(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

func (a *avroFile) open() error {
	info, err := a.f.Stat()
	if err != nil {
		return err
	}
	a.size = info.Size()
	if a.r, err = avro.NewContainerReader(a.f); err != nil {
		return err
	}
	m, have := a.o.Mapping, avro.TopFields(a.r.Schema)
	switch {
	case a.o.Plain:
		m.Key, m.Time = "@key", "@timestamp"
	case m.Key == "@partition":
		m.Key = "@key"
	case (m.Key == "" || m.Key == "@key") && slices.Contains(have, "key"):
		m.Key = "key"
	}
	if (m.Time == "" || m.Time == "@timestamp") && !a.o.Plain {
		for _, name := range []string{"timestamp", "time"} {
			if slices.Contains(have, name) {
				m.Time = name
				break
			}
		}
	}
	if a.o.Label != "" {
		a.labelAt = m.Width()
		m.Fields = append(slices.Clone(m.Fields), a.o.Label)
	}
	a.dec, err = avro.NewRunDecoder(m, a.r.Schema)
	return err
}

func (a *avroFile) Rows() int64    { return -1 }
func (a *avroFile) Bytes() int64   { return a.size }
func (a *avroFile) Labelled() bool { return a.labelAt >= 0 }
func (a *avroFile) Close() error   { return a.f.Close() }

// avroJob is a block of the file; row is the number of records before it.
type avroJob struct {
	avro.ContainerBlock
	row int64
}

func (a *avroFile) Read(ctx context.Context, emit func(*Batch) error) error {
	pool := &sync.Pool{New: func() any { return new(Batch) }}
	row := int64(0)
	next := func() (j avroJob, more bool, err error) {
		b, err := a.r.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return j, false, nil
		}
		j = avroJob{b, row}
		row += b.Count
		return j, true, err
	}
	work := func(j avroJob) (*Batch, error) {
		b := pool.Get().(*Batch)
		b.pool = pool
		return b, a.decode(b, &j)
	}
	if err := inOrder(ctx, a.o.Workers, next, work, emit); err != nil {
		return fmt.Errorf("table: %s: %w", a.f.Name(), err)
	}
	return nil
}

func (a *avroFile) decode(b *Batch, j *avroJob) error {
	data, err := a.r.Decompress(&j.ContainerBlock)
	if err != nil {
		return err
	}
	width := a.dec.Width()
	if a.labelAt >= 0 {
		width--
	}
	// More records than bytes: it is damaged.
	b.reset(int(min(j.Count, int64(len(data))+1)), width, a.labelAt >= 0)
	b.Bytes = j.End
	name := []byte(a.o.Name)
	index := map[string]uint32{}
	var r schemas.Reading
	n := 0
	for i := range j.Count {
		row := j.row + i
		size, err := a.dec.DecodeFirst(data, name, row*1000, &r)
		if err != nil {
			field := "?"
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Field != "" {
				field = de.Field
			}
			b.bad(row+1, field, err)
			if size == 0 {
				b.Bad += j.Count - i - 1 // their first bytes are unknown
				break
			}
			data = data[size:]
			continue
		}
		data = data[size:]
		if r.Skipped != schemas.NotSkipped {
			b.filter(row + 1)
			continue
		}
		at, ok := index[string(r.Key)]
		if !ok {
			at = uint32(len(b.Keys))
			key := slices.Clone(r.Key)
			b.Keys = append(b.Keys, key)
			index[string(key)] = at
		}
		b.Key[n], b.Times[n] = at, r.Time
		copy(b.Row(n), r.Values)
		if absent := r.Absent(); len(absent) > 0 {
			if len(b.Absent) == 0 {
				b.mayLack()
			}
			copy(b.RowAbsent(n), absent)
		}
		if a.labelAt >= 0 {
			v := r.Values[a.labelAt]
			b.Labels[n] = v == v && v != 0
		}
		n++
		if size == 0 && len(data) == 0 {
			break
		}
	}
	b.cut(n)
	return nil
}
