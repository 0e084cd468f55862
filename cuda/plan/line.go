package plan

import "math/bits"

// Limits of the sort in line.h.
const (
	lineMost = 1 << 12 // points of a window
	lineEach = 8       // of a thread, at most
)

// lineShape divides the points of a window of one coordinate among the threads of a block, as in
// line.h: a power of two of places, `each` of them a thread's.
type lineShape struct{ places, each int }

func lineShapeOf(n int) lineShape {
	places := max(32, 1<<bits.Len(uint(n-1)))
	return lineShape{places, min(places/32, lineEach)}
}

func (s lineShape) threads() int { return s.places / s.each }

// kernel returns the number of the kernel, by the points of a thread.
func (s lineShape) kernel() int { return bits.Len(uint(s.each)) - 1 }

// bytes returns the shared memory: keys, coordinates, numbers, and more bytes and bits for each
// place.
func (s lineShape) bytes(more, bits int) int { return s.places*(14+more) + s.places/8*bits }

// cost returns the device time of a sort and of the given steps for each point, in nanoseconds, on a full device.
func (s lineShape) cost(steps int) int {
	log := bits.Len(uint(s.places)) - 1
	return s.places*(log*(log+1)+steps)/2000 + 1
}
