package discord

import (
	"encoding/binary"
	"errors"
	"math"
)

// Heatmap is a grid of the normalised distances (see [Normalised]) of the subsequences of a
// series: where they begin from left to right, their lengths from the least, the first row,
// to the largest (Zymbler and Kraeva 2023, equation 11; there with discords alone). A
// cell has the largest of those in it.
type Heatmap struct {
	Lengths Lengths // of the series, as it was searched
	Starts  int     // subsequences of the least length
	Columns int     // cells of a length
	Rows    int     // of lengths
	Cells   []uint8 // by rows: 0 for none, else 1 to 255 for distances from 0 to 2
}

// NewHeatmap returns an empty heatmap of a series of n values, of at most the given cells: as many
// rows as there are lengths, up to the root of the cells or what columns leave, and as many
// columns as there are subsequences of the least length, or as fit.
func NewHeatmap(n int, l Lengths, cells int) *Heatmap {
	h := &Heatmap{Lengths: l, Starts: max(1, n-l.Min+1)}
	count := len(l.All())
	h.Rows = max(1, min(count, max(int(math.Sqrt(float64(cells))), cells/h.Starts)))
	h.Columns = max(1, min(h.Starts, cells/h.Rows))
	h.Cells = make([]uint8, h.Rows*h.Columns)
	return h
}

// cell returns the cell of the subsequence at a place, of a length.
func (h *Heatmap) cell(at, m int) *uint8 {
	count := (h.Lengths.Max-h.Lengths.Min)/max(1, h.Lengths.Step) + 1
	row := (m - h.Lengths.Min) / max(1, h.Lengths.Step) * h.Rows / count
	return &h.Cells[row*h.Columns+at*h.Columns/h.Starts]
}

// Add adds the subsequence at a place with its normalised distance; NaN adds nothing.
func (h *Heatmap) Add(at, m int, normalised float64) {
	if normalised != normalised {
		return
	}
	c := h.cell(at, m)
	*c = max(*c, uint8(1+math.Round(min(max(normalised, 0), 2)*127)))
}

// Value returns the normalised distance of a cell, NaN for none.
func (h *Heatmap) Value(row, column int) float64 {
	if c := h.Cells[row*h.Columns+column]; c > 0 {
		return float64(c-1) / 127
	}
	return math.NaN()
}

// AddDiscord adds a discord of distances to k neighbours, in all the columns that it covers.
func (h *Heatmap) AddDiscord(d Discord, k int) {
	for i := d.At; i < min(d.At+d.Length, h.Starts); i += max(1, h.Starts/h.Columns) {
		h.Add(i, d.Length, Normalised(d.Distance, d.Length, k))
	}
}

// heatmapMagic begins the bytes of a heatmap.
const heatmapMagic = "heatmap1"

// AppendBinary appends the heatmap as bytes: the magic number, six 32-bit numbers, the least first
// byte first (least length, largest length, step, starts, columns, rows), and the cells.
func (h *Heatmap) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, heatmapMagic...)
	for _, v := range []int{h.Lengths.Min, h.Lengths.Max, h.Lengths.Step, h.Starts, h.Columns, h.Rows} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return append(b, h.Cells...), nil
}

// UnmarshalBinary reads what AppendBinary wrote.
func (h *Heatmap) UnmarshalBinary(b []byte) error {
	const head = len(heatmapMagic) + 6*4
	if len(b) < head || string(b[:len(heatmapMagic)]) != heatmapMagic {
		return errors.New("discord: these bytes are no heatmap")
	}
	for i, v := range []*int{&h.Lengths.Min, &h.Lengths.Max, &h.Lengths.Step, &h.Starts, &h.Columns, &h.Rows} {
		*v = int(binary.LittleEndian.Uint32(b[len(heatmapMagic)+4*i:]))
	}
	h.Cells = append([]uint8(nil), b[head:]...)
	if len(h.Cells) != h.Columns*h.Rows || h.Lengths.Min < 1 || h.Lengths.Max < h.Lengths.Min || h.Starts < 1 {
		return errors.New("discord: the heatmap is cut off, or damaged")
	}
	return nil
}
