package discord

import (
	"math"
	"reflect"
	"testing"

	"odradek/detectors/seedtest"
)

func TestHeatmap(t *testing.T) {
	l := Lengths{Min: 10, Max: 30, Step: 5}
	h := NewHeatmap(109, l, 1<<18)
	if h.Starts != 100 || h.Columns != 100 || h.Rows != 5 {
		t.Fatalf("%d starts, %d columns, %d rows", h.Starts, h.Columns, h.Rows)
	}
	h.Add(99, 10, 2)
	h.Add(7, 30, 0)
	h.Add(7, 30, nan)
	h.AddDiscord(Discord{At: 20, Length: 15, Distance: math.Sqrt(2 * 15)}, 1)
	for _, c := range []struct {
		row, column int
		want        float64
	}{{0, 99, 2}, {4, 7, 0}, {4, 8, nan}, {1, 19, nan}, {1, 20, 1}, {1, 34, 1}, {1, 35, nan}} {
		if v := h.Value(c.row, c.column); v != c.want && (v == v || c.want == c.want) {
			t.Errorf("row %d, column %d: %v, want %v", c.row, c.column, v, c.want)
		}
	}
	b, _ := h.AppendBinary(nil)
	var back Heatmap
	if err := back.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(&back, h) {
		t.Errorf("read back: %v", err)
	}
	if back.UnmarshalBinary(b[:len(b)-1]) == nil || back.UnmarshalBinary(b[1:]) == nil {
		t.Error("no error of a part of the bytes")
	}
}

// A heatmap has no more cells than it may, and none is out of it.
func TestHeatmapOfManyLengths(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		l := Lengths{Min: 3 + rng.IntN(50), Step: 1 + rng.IntN(3)}
		l.Max = l.Min + rng.IntN(900)
		n, cells := 2*l.Max+rng.IntN(100_000), 1+rng.IntN(1<<18)
		h := NewHeatmap(n, l, cells)
		if len(h.Cells) > cells {
			t.Fatalf("%d cells of %d, of %d values and %+v", len(h.Cells), cells, n, l)
		}
		lengths := l.All()
		m := lengths[len(lengths)-1]
		h.Add(n-l.Min, l.Min, 1)
		h.Add(n-m, m, 1)
		h.AddDiscord(Discord{At: n - m, Length: m, Distance: 1}, 1)
		if v := h.Value(0, h.Columns-1); v != 1 {
			t.Fatalf("the last of the first row is %v, of %d values and %+v", v, n, l)
		}
	}
}
