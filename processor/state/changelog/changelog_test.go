package changelog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
)

// TestKeys splits the keys of records whose names have any bytes.
func TestKeys(t *testing.T) {
	rng := seedtest.New(t)
	for range 1000 {
		kind := "HPSEBD"[rng.IntN(6)]
		name := make([]byte, rng.IntN(20))
		for i := range name {
			name[i] = byte(rng.Uint32())
		}
		var suffix [2]uint64
		n := suffixes(kind)
		for i := range n {
			suffix[i] = rng.Uint64()
		}
		key := AppendKey(nil, kind, name, suffix[:n]...)
		gotKind, gotName, gotSuffix, err := SplitKey(key)
		if err != nil || gotKind != kind || !bytes.Equal(gotName, name) || gotSuffix != suffix {
			t.Fatalf("%c %x %v is read as %c %x %v, %v", kind, name, suffix, gotKind, gotName, gotSuffix, err)
		}
	}
	for _, key := range []string{"", "P1234567", "S123456781234567", "D"} {
		if _, _, _, err := SplitKey([]byte(key)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// TestValues reads what was written, and finds every truncation.
func TestValues(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		history := make([]float32, rng.IntN(40))
		for i := range history {
			if rng.IntN(3) == 0 {
				history[i] = rng.Float32()
			}
		}
		floats := make([]float32, rng.IntN(5))
		for i := range floats {
			floats[i] = rng.Float32()
		}
		number, signed, bits, text := rng.Uint64(), rng.Int64()-1<<62, rng.Uint64(), strconv.Itoa(rng.Int())
		small, offset, flag := rng.IntN(1<<31), rng.Int64N(1<<62), rng.IntN(2) == 1
		var e Encoder
		e.Byte(7)
		e.Reset()
		e.Byte(Version)
		e.Uint(number)
		e.Int(signed)
		e.Bits(bits)
		e.Uint(uint64(small))
		e.Uint(uint64(offset))
		e.String(text)
		e.Floats(floats)
		e.Sparse(history)
		e.Flag(flag)
		for end := range len(e.B) + 1 {
			d := Decoder{B: e.B[:end]}
			d.Version()
			got := d.Uint() == number && d.Int() == signed && d.Bits() == bits && d.Small() == small && d.Offset() == offset &&
				d.String() == text && slices.Equal(d.Floats(), floats) && slices.Equal(d.Sparse(), history) && (d.Byte() == 1) == flag
			switch whole := end == len(e.B); {
			case whole && (!got || d.Bad || len(d.B) != 0):
				t.Fatalf("% x is not what was written", e.B)
			case !whole && !d.Bad:
				t.Fatalf("% x is taken, %d bytes are missing", e.B[:end], len(e.B)-end)
			}
		}
	}
	for value, want := range map[string]error{
		string([]byte{Version}): nil, string([]byte{Version + 1}): ErrNewer, "\xff": ErrNewer,
		"\x01": ErrOlder, "\x00": ErrCorrupt, "": ErrCorrupt,
	} {
		d := Decoder{B: []byte(value)}
		if d.Version(); !errors.Is(d.Err(), want) || (want == nil) == d.Bad {
			t.Errorf("version %q: %v, want %v", value, d.Err(), want)
		}
	}
	if d := (Decoder{B: []byte("\xff\xff\xff\xff\x7f")}); d.Small() != 0 || !d.Bad {
		t.Error("a number that is not small is taken")
	}
	if d := (Decoder{B: []byte("\xff\xff\xff\xff\xff\xff\xff\xff\x7f")}); d.Offset() != 0 || !d.Bad {
		t.Error("a number that is no offset is taken")
	}
	if d := (Decoder{B: []byte("\xff\xff\xff\x7f")}); d.Sparse() != nil || !d.Bad {
		t.Error("a history without an end is taken")
	}
}

// TestSections: sections are read in order and whole. One of an odd kind that is not known is skipped, one of an even kind is a
// newer version's.
func TestSections(t *testing.T) {
	section := func(kind byte, content string) string {
		var e Encoder
		start := e.BeginSection(kind)
		e.B = append(e.B, content...)
		e.EndSection(start)
		return string(e.B)
	}
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		name, body, want string
		err              error
	}{
		{"none", "", "", nil},
		{"two", section(2, "ab") + section(4, long), "2=ab 4=" + long + " ", nil},
		{"an optional one", section(2, "") + section(3, "new") + section(4, "b"), "2= 4=b ", nil},
		{"one of a newer version", section(2, "a") + section(6, "new"), "2=a ", ErrNewer},
		{"the wrong order", section(4, "a") + section(2, "b"), "4=a ", ErrCorrupt},
		{"one twice", section(2, "a") + section(2, "b"), "2=a ", ErrCorrupt},
		{"cut off", section(2, "abc")[:3], "", ErrCorrupt},
		{"without a length", "\x02", "", ErrCorrupt},
		{"more than is read", section(2, "abc") + section(4, "-rest"), "2=abc 4=", ErrCorrupt},
	} {
		d, got := Decoder{B: []byte(c.body)}, ""
		err := d.Sections(func(kind byte) (bool, error) {
			if kind != 2 && kind != 4 {
				return false, nil
			}
			content := string(d.B)
			if !strings.HasPrefix(content, "-") {
				d.B = nil
			} else {
				content = ""
			}
			got += fmt.Sprintf("%d=%s", kind, content)
			if d.B == nil {
				got += " "
			}
			return true, nil
		})
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: read %q, %v; want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
}

// TestTimes reads times whose second differences take one byte, more, or some of both, and notices bytes that are missing.
func TestTimes(t *testing.T) {
	rng := seedtest.New(t)
	for range 2000 {
		n, cols := rng.IntN(100), 1+rng.IntN(3)
		var e Encoder
		e.Uint(uint64(n))
		want := make([]uint64, n)
		time, step := int64(rng.Uint64()), int64(0)
		for i := range want {
			jump := int64(rng.IntN(128) - 64)
			if rng.IntN(1+rng.IntN(50)) == 0 {
				jump = int64(rng.Uint64() >> rng.IntN(64))
			}
			if i == 0 {
				e.Int(time)
			} else {
				e.Int(jump)
				step += jump
				time += step
			}
			want[i] = uint64(time)
		}
		values := bytes.Repeat([]byte{0x81}, 8*cols*n)
		whole := append(slices.Clone(e.B), values...)
		before := []uint64{1, 2, 3}[:rng.IntN(4)]
		d := Decoder{B: whole}
		if got := d.Times(slices.Clone(before), cols); d.Bad || !slices.Equal(got, append(before, want...)) || !bytes.Equal(d.B, values) {
			t.Fatalf("times %v with %d bytes after them, want %v with %d", got, len(d.B), want, len(values))
		}
		if d := (Decoder{B: whole[:rng.IntN(len(whole))]}); len(d.B) > 0 && (len(d.Times(nil, cols)) > 0 || !d.Bad) {
			t.Fatalf("times from %d of %d bytes", len(d.B), len(whole))
		}
	}
}
