package series

import "math"

// pool hands out rings of the final size from large pieces of memory: an
// allocation each would be rounded up by up to an eighth.
type pool struct {
	words int
	piece []uint64
	free  [][]uint64
	given int
}

func (p *pool) get() []uint64 {
	if n := len(p.free); n > 0 {
		s := p.free[n-1]
		p.free = p.free[:n-1]
		return s
	}
	if len(p.piece) < p.words {
		// The first pieces are small, for partitions of few keys; no piece is
		// more than 512 KiB, unless one ring is. Pieces are whole pages: of up to
		// that many rings, take the number that leaves least of the last page.
		best, least := 1, 1.0
		for n, most := 1, min(max(1, p.given), max(1, 64<<10/p.words)); n <= most; n++ {
			pages := float64(n*p.words) / 1024
			if lost := math.Ceil(pages)/pages - 1; lost <= least {
				best, least = n, lost
			}
		}
		p.piece = make([]uint64, best*p.words)
	}
	p.given++
	s := p.piece[:p.words:p.words]
	p.piece = p.piece[p.words:]
	return s
}

func (p *pool) put(s []uint64) { p.free = append(p.free, s) }
