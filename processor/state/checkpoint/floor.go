package checkpoint

import (
	"encoding"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// This file encodes and decodes the replay floor of a partition, which the metadata
// of an offset commit carries.

// NoTime stands for the largest event time of a partition without a sample.
const NoTime = math.MinInt64

// Voters is the number of samples that vote on a suspect (a sample whose time may be wrong),
// and the largest number of suspects that are held at once.
const Voters = 3

// HeldSuspect is a suspect that is held at a mark: its offset, the votes so far, and
// how many of them are in its favour. Number is the number of its first sample in a record of several.
type HeldSuspect struct {
	Offset       int64
	Votes, Agree uint8
	Number       int
}

// Jump is the largest jump that a repair of the watermark has set for the records below Until, in place of their readings' largest
// jump: the record that had moved the watermark is read again, and must not move it as before.
type Jump struct{ Most, Until int64 }

// Floor is where a replay begins: the input offset, and what the state of no key says of the input
// before it: the largest event time, which determines the watermark, and the suspects.
type Floor struct {
	Offset   int64
	MaxTime  int64 // microseconds; NoTime if there was no sample
	Jump     Jump
	Suspects []HeldSuspect // in order of offset, at most Voters
	// Backfill is the end of the partition's backfill, the input whose results are not published. 0: there is none.
	Backfill int64
	// Bits number the samples of a record; 0: a record is one sample.
	Bits uint8
}

// Records returns a floor by the offsets of samples, of which the last bits are their numbers in their records,
// as one by the offsets of records.
func (f Floor) Records(bits uint8) Floor {
	if bits == 0 {
		return f
	}
	f.Bits = bits
	f.Offset, f.Backfill, f.Jump.Until = f.Offset>>bits, f.Backfill>>bits, f.Jump.Until>>bits
	f.Suspects = slices.Clone(f.Suspects)
	for i := range f.Suspects {
		m := &f.Suspects[i]
		m.Offset, m.Number = m.Offset>>bits, int(m.Offset&(1<<bits-1))
	}
	return f
}

// Samples reverses Records.
func (f Floor) Samples(bits uint8) Floor {
	if bits == 0 {
		return f
	}
	f.Offset, f.Backfill, f.Jump.Until = f.Offset<<bits, f.Backfill<<bits, f.Jump.Until<<bits
	f.Suspects = slices.Clone(f.Suspects)
	for i := range f.Suspects {
		m := &f.Suspects[i]
		m.Offset, m.Number = m.Offset<<bits|int64(m.Number), 0
	}
	return f
}

const (
	backfillField = "backfill="
	bitsField     = "sample_bits="
)

var (
	_ encoding.TextMarshaler   = Floor{}
	_ encoding.TextUnmarshaler = (*Floor)(nil)
)

// From returns the offset that the input is read from: the first suspect's, if
// there is one.
func (f *Floor) From() int64 {
	if len(f.Suspects) > 0 {
		return f.Suspects[0].Offset
	}
	return f.Offset
}

// Suspect reports whether the record at offset was a suspect.
func (f *Floor) Suspect(offset int64) bool {
	for i := range f.Suspects {
		if f.Suspects[i].Offset == offset {
			return true
		}
	}
	return false
}

// MarshalText returns the floor as the metadata of an offset commit has it:
// "1;offset;max time in us", with "-" for no time, and then, where there are any,
// "jump=us:below offset" of a repair, and "suspects=" with
// offset:votes:in favour for each, and :number where that is not 0, separated by commas,
// "backfill=offset" and "sample_bits=bits".
func (f Floor) MarshalText() ([]byte, error) {
	t := []byte("1;")
	t = strconv.AppendInt(t, f.Offset, 10)
	t = append(t, ';')
	if f.MaxTime == NoTime {
		t = append(t, '-')
	} else {
		t = strconv.AppendInt(t, f.MaxTime, 10)
	}
	if j := f.Jump; j.Until > f.Offset {
		t = fmt.Appendf(t, ";jump=%d:%d", j.Most, j.Until)
	}
	for i, m := range f.Suspects {
		if i == 0 {
			t = append(t, ";suspects="...)
		} else {
			t = append(t, ',')
		}
		t = fmt.Appendf(t, "%d:%d:%d", m.Offset, m.Votes, m.Agree)
		if m.Number > 0 {
			t = fmt.Appendf(t, ":%d", m.Number)
		}
	}
	if f.Backfill > 0 {
		t = fmt.Appendf(t, ";%s%d", backfillField, f.Backfill)
	}
	if f.Bits > 0 {
		t = fmt.Appendf(t, ";%s%d", bitsField, f.Bits)
	}
	return t, nil
}

// String returns the text of MarshalText.
func (f Floor) String() string {
	t, _ := f.MarshalText()
	return string(t)
}

// UnmarshalText reads the output of MarshalText. It ignores fields of other names. A field that occurs
// twice is an error, because its second value would replace or extend the first.
func (f *Floor) UnmarshalText(text []byte) error {
	p := strings.Split(string(text), ";")
	if len(p) < 3 || p[0] != "1" {
		return fmt.Errorf("checkpoint: %.40q is not a replay floor of version 1", text)
	}
	offset, err := strconv.ParseInt(p[1], 10, 64)
	if err != nil || offset < 0 {
		return fmt.Errorf("checkpoint: %.40q has no offset of a replay floor", text)
	}
	g := Floor{Offset: offset, MaxTime: NoTime}
	if p[2] != "-" {
		if g.MaxTime, err = strconv.ParseInt(p[2], 10, 64); err != nil {
			return fmt.Errorf("checkpoint: %.40q has no time of a replay floor", text)
		}
	}
	read := map[string]bool{}
	for _, field := range p[3:] {
		name, value, _ := strings.Cut(field, "=")
		var ok bool
		switch name {
		case "jump":
			var n []int64
			if n, ok = numbers(value, 2); ok {
				g.Jump = Jump{n[0], n[1]}
			}
		case "suspects":
			ok = g.parseSuspects(value)
		case "backfill":
			var n []int64
			if n, ok = numbers(value, 1); ok {
				g.Backfill = n[0]
				ok = g.Backfill > 0
			}
		case "sample_bits":
			var n []int64
			if n, ok = numbers(value, 1); ok {
				g.Bits = uint8(n[0])
				ok = n[0] < 32
			}
		default:
			continue
		}
		if !ok || read[name] {
			return fmt.Errorf("checkpoint: the field %s of the replay floor %.80q cannot be read, or occurs twice", name, text)
		}
		read[name] = true
	}
	*f = g
	return nil
}

// numbers reads n numbers that are not negative, separated by colons.
func numbers(text string, n int) (list []int64, ok bool) {
	for _, p := range strings.Split(text, ":") {
		v, err := strconv.ParseInt(p, 10, 64)
		if err != nil || v < 0 {
			return nil, false
		}
		list = append(list, v)
	}
	return list, len(list) == n
}

func (f *Floor) parseSuspects(text string) bool {
	last := int64(-1)
	for _, p := range strings.Split(text, ",") {
		n, ok := numbers(p, 3)
		if !ok {
			if n, ok = numbers(p, 4); ok && n[3] > math.MaxInt32 {
				ok = false
			}
		}
		if !ok || n[0] <= last || n[0] >= f.Offset || n[1] >= Voters || n[2] > n[1] || len(f.Suspects) == Voters {
			return false
		}
		last = n[0]
		m := HeldSuspect{Offset: n[0], Votes: uint8(n[1]), Agree: uint8(n[2])}
		if len(n) == 4 {
			m.Number = int(n[3])
		}
		f.Suspects = append(f.Suspects, m)
	}
	return true
}

// ParseFloor reads the output of MarshalText.
func ParseFloor(text string) (f Floor, err error) {
	err = f.UnmarshalText([]byte(text))
	return f, err
}

// Repaired returns the metadata text of an offset commit with another largest event time,
// for a partition whose watermark a wrong clock has moved. The replay judges by jump, so that
// the same clock does not move it again. Fields that are no part of the floor stay.
func Repaired(text string, maxTime int64, jump Jump) (string, error) {
	f, err := ParseFloor(text)
	if err != nil {
		return "", err
	}
	f.MaxTime, f.Jump = maxTime, jump
	repaired := f.String()
	for _, field := range strings.Split(text, ";")[3:] {
		if !strings.HasPrefix(field, "jump=") && !strings.HasPrefix(field, "suspects=") && !strings.HasPrefix(field, backfillField) &&
			!strings.HasPrefix(field, bitsField) {
			repaired += ";" + field
		}
	}
	return repaired, nil
}
