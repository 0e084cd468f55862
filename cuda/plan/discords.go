package plan

import (
	"odradek/detectors"
	"odradek/detectors/discord"
)

// Limits of the kernels in discords.cu.
const (
	discordsWindow = 4096    // values of a series in one block
	discordsLong   = 1 << 24 // values of a series that all blocks share
	discordsRanged = 512     // least values of a series with range discords, of which each length takes a dozen launches
	discordsTop    = 32
)

// Constants of discords.cu.
const (
	discordsThreads = 256
	discordsBand    = 8 * discordsThreads // diagonals of a block
	discordsChunk   = 256
	discordsChunk32 = 512
	discordsPadding = discordsBand + discordsChunk32 + 16
	discordsPick    = 1024
)

// The offsets of the parameters of a task, in words.
var (
	discordsParamMin   = discord.OpTop.Spec().Word("MIN_LENGTH")
	discordsParamMax   = discord.OpTop.Spec().Word("MAX_LENGTH")
	discordsParamStep  = discord.OpTop.Spec().Word("LENGTH_STEP")
	discordsParamTop   = discord.OpTop.Spec().Word("TOP")
	discordsParamK     = discord.OpTop.Spec().Word("K")
	discordsParamApart = discord.OpTop.Spec().Word("EXCLUSION")
	discordsParamRows  = discord.OpTop.Spec().Word("ROWS")
	discordsParamBits  = discord.OpTop.Spec().Word("PRECISION")
	discordsParamCount = len(discord.OpTop.Spec().Words()) // and with range discords two more, the radius
)

// discordsShape has the sizes that follow from a task's parameters and rows.
type discordsShape struct {
	n, dim                   int // values of a series, series
	least, most, step, apart int // lengths; the exclusion is a length divided by apart
	top, k                   int
	single                   bool    // all pairs are compared in float32
	radius                   float64 // of range discords; 0: none
}

// discordsShapeOf returns the shape of a task of dim values a row, by its parameters; false if the kernels do not take it.
func discordsShapeOf(dim, rows int, params detectors.Words) (s discordsShape, ok bool) {
	at := params.Int
	s = discordsShape{n: rows, dim: dim, least: at(discordsParamMin), most: at(discordsParamMax), step: at(discordsParamStep),
		apart: at(discordsParamApart), top: at(discordsParamTop), k: at(discordsParamK), single: at(discordsParamBits) == 32}
	if r := at(discordsParamRows); r > 0 {
		s.n = min(s.n, r)
	}
	if len(params) > discordsParamCount {
		s.radius = params.Float64(discordsParamCount)
	}
	if s.least < 3 || s.step < 1 || s.most < s.least || s.apart < 1 || s.top < 1 || s.top > discordsTop || s.k < 1 {
		return s, false
	}
	if s.radius != 0 {
		return s, s.dim == 1 && s.k == 1 && s.n >= discordsRanged && s.n <= discordsLong && s.most <= s.n
	}
	return s, s.n <= discordsWindow || s.dim == 1 && s.k == 1 && s.n <= discordsLong && s.most <= s.n
}

// lengths is the number of lengths.
func (s *discordsShape) lengths() int { return (s.most-s.least)/s.step + 1 }

// left is the number of diagonals of subsequences of length m.
func (s *discordsShape) left(m int) int { return max(0, s.n-m+1-max(1, m/s.apart)) }

// windowBytes is the shared memory of a series in one block: windowBytes in discords_window.h.
func (s *discordsShape) windowBytes() int { return (s.n+16)/8*9*48 + (s.n+63)/32*4 }

// arrays is the scratch memory of a long series: longOf in discords_long.h.
func (s *discordsShape) arrays() int {
	return Align((s.n + discordsPadding + 31) / 32 * 32 * (6*8 + 4))
}

// discordsScan returns the number of blocks that scan the left diagonals of a long series:
// rowsOf in discords_long.h.
func discordsScan(left int) int {
	rows, bands := 1<<13, (left+discordsBand-1)/discordsBand
	for rows > 1<<10 && bands*((left+rows-1)/rows) < 1<<12 {
		rows /= 2
	}
	return bands * ((left + rows - 1) / rows)
}

// The shared memory of the scan, in float64 and in float32: Block in discords_profile.h.
const (
	discordsScanBytes   = (discordsChunk+1)*32 + ((discordsBand+discordsChunk)/8*9+16)*(3*8+2*4)
	discordsScan32Bytes = (discordsChunk32+1)*16 + ((discordsBand+discordsChunk32)/8*9+16)*(3*4+2*4)
)

// Constants of discords_lengths.h.
const (
	discordsAnchorRows   = 1 << 11
	discordsLengthsLeast = 8         // fewest lengths that are distributed among blocks
	discordsLengthsMost  = 1 << 17   // most values of their series
	discordsSlots        = 264       // blocks
	discordsSlotsBytes   = 640 << 20 // bytes of all blocks' arrays
)

// anchors returns the numbers of the lengths at which all neighbours are found, including the first and
// the last; nil where each length has its own profile, with few lengths, or few between two anchors. At
// up to an eighth of the length apart, the neighbours at two anchors bound the distances between them
// so tightly that the largest bounds mostly belong to the discords: in a series of 35,040 values, about
// three subsequences a length are compared with all others.
func (s *discordsShape) anchors() []int {
	n := s.lengths()
	if n < discordsLengthsLeast || s.n > discordsLengthsMost || s.least < 8 || s.left(s.most) < 1 {
		return nil
	}
	all := []int{0}
	for at := 0; at < n-1; {
		m := s.least + at*s.step
		at = min(n-1, at+max(1, max(4, m/8)/s.step))
		all = append(all, at)
	}
	if 3*len(all) > n {
		return nil
	}
	return all
}

// Variants of a class.
const (
	discordsIsWindow = iota
	discordsIsLong
	discordsIsRanged
)

// discordsClass returns a class. A of a long series, and of one with range discords, is the number of values. The shared memory
// of a window is rounded up, so that growing windows have few classes.
func discordsClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	if extra := len(params) - discordsParamCount; extra != 0 && extra != 2 || t.Dim < 1 || t.Fresh < 1 || t.X.Len%t.Dim != 0 ||
		t.Scores.Len != t.Fresh {
		return Class{}, 0, false
	}
	s, ok := discordsShapeOf(int(t.Dim), int(t.X.Len/t.Dim), params)
	if !ok {
		return Class{}, 0, false
	}
	count := s.dim * s.lengths()
	if s.radius != 0 { // the number and the radius, and at least a discord
		cost := 0
		for m := s.least; m <= s.most; m += s.step {
			cost += s.left(m)*s.left(m)/4000 + 60_000
		}
		return Class{Op: discord.OpTop, Variant: discordsIsRanged, A: uint32(s.n), Shared: discordsScanBytes}, cost,
			int(t.Next.Len) == 2*count && int(t.Detail.Len)%(4*count) == 0 && int(t.Detail.Len) >= 8*count
	}
	if kept := int(t.Next.Len) - 2*count; int(t.Detail.Len) != 4*s.top*count || kept != 0 && kept != 4*s.top*count {
		return Class{}, 0, false
	}
	if s.n <= discordsWindow {
		kb := (s.windowBytes() + 1023) / 1024
		if kb <= 216 {
			kb = (kb + 7) / 8 * 8
		}
		cost := s.n*s.n/2000 + s.lengths()*s.n/16 + 100
		if s.k > 1 { // all pairs, each by its products
			cost = s.n * s.n / 4000 * (s.least + s.most) * s.lengths()
		}
		return Class{Op: discord.OpTop, Variant: discordsIsWindow, Shared: uint32(kb << 10)}, s.dim * cost, true
	}
	cost, anchors := 0, s.anchors()
	for m := s.least; m <= s.most; m += s.step {
		if anchors == nil {
			cost += s.left(m)*s.left(m)/4000 + 50_000
		} else {
			cost += s.n * m / 800
		}
	}
	for _, l := range anchors {
		left := s.left(s.least + l*s.step)
		cost += left * left / 4000
	}
	return Class{Op: discord.OpTop, Variant: discordsIsLong, A: uint32(s.n), Shared: discordsScanBytes}, cost, true
}

func discordsLaunches(c Class, p *builder, chains []chain) {
	if c.Variant == discordsIsWindow {
		for _, ch := range chains {
			p.tiles = append(p.tiles, Tile{First: ch.first, Count: ch.count})
		}
		p.launch("discords_window", blockATile, discordsThreads, int(c.Shared))
		return
	}
	// One after the other, all in the same scratch memory.
	all := discordsShape{n: int(c.A)}
	const none = ^uint32(0)
	arrays := none
	for _, ch := range chains {
		for task := ch.first; task < ch.first+ch.count; task++ {
			t := &p.tasks[task]
			s, _ := discordsShapeOf(1, int(t.X.Len), p.in[t.Params.Off:t.Params.Off+t.Params.Len])
			if anchors := s.anchors(); anchors != nil && s.radius == 0 {
				s.addLengths(p, task, anchors)
				continue
			}
			if arrays == none {
				arrays = p.scratch(all.arrays())
			}
			extremes := p.zeroed(s.lengths() * Alignment)
			for l := range s.lengths() {
				p.tiles = append(p.tiles, Tile{First: task, Count: extremes + uint32(l), Part: uint32(l), Scratch: arrays})
				m := s.least + l*s.step
				s.addDescribe(p, 1)
				if s.radius != 0 {
					s.addRanged(p, l, int(t.Detail.Len)/(4*s.lengths())-1)
					continue
				}
				if t.Carry.Len > 0 { // it has a radius
					s.addRadius(p, m)
				}
				if s.single {
					s.addSingle(p, m, t.Carry.Len > 0)
				}
				s.addProbe(p, 1, false)
				s.addProfile(p, m, false)
				p.again("discords_pick", 1, discordsPick, 0)
			}
		}
	}
}

// addDescribe launches the kernels that compute means, norms and steps of each tile.
func (s *discordsShape) addDescribe(p *builder, tiles int) {
	each := s.describing()
	p.launch("discords_describe", tiles*each, 256, 0)
	p.again("discords_step", tiles*each, 256, 0)
}

// describing is the number of blocks that describe the subsequences of a length.
func (s *discordsShape) describing() int { return (s.n - s.least + 1 + discordsPadding + 255) / 256 }

// addProbe launches the kernel that sets the first limits of each tile.
func (s *discordsShape) addProbe(p *builder, tiles int, single bool) {
	left := s.left(s.least)
	if left == 0 {
		return
	}
	name, rows, bytes := "discords_probe", discordsChunk, discordsScanBytes
	if single {
		name, rows, bytes = "discords_probe32", discordsChunk32, discordsScan32Bytes
	}
	p.again(name, tiles*((left+rows-1)/rows), discordsThreads, bytes)
}

// addProfile launches the scan of all pairs of a length, and the distances that follow.
func (s *discordsShape) addProfile(p *builder, m int, single bool) {
	if left := s.left(m); left > 0 {
		name, bytes := "discords_scan", discordsScanBytes
		if single {
			name, bytes = "discords_scan32", discordsScan32Bytes
		}
		p.again(name, discordsScan(left), discordsThreads, bytes)
	}
	p.again("discords_finish", (s.n-m+1+7)/8, 256, 0)
}

// addSingle launches the scan in float32, and the search in float64 for the discords among its
// candidates. If that succeeds, the launches of the profile in float64 return at once. Limits have one
// form in float32 and another in float64, so each scan begins without limits.
func (s *discordsShape) addSingle(p *builder, m int, begun bool) {
	if begun {
		p.again("discords_step", s.describing(), 256, 0)
	}
	s.addProbe(p, 1, true)
	s.addProfile(p, m, true)
	p.again("discords_candidates", 1, discordsPick, 0)
	p.again("discords_mark", (s.n-m+1+255)/256, 256, 0)
	s.addRadius(p, m)
	p.again("discords_step", s.describing(), 256, 0)
}

// addRadius launches the search for the discords of a length by a radius: the one in the task's
// carry, or the candidates' in float32. If it succeeds, the launches of the profile return at
// once.
func (s *discordsShape) addRadius(p *builder, m int) {
	count := s.n - m + 1
	p.again("discords_near", (count+discordsChunk-1)/discordsChunk, discordsThreads, discordsScanBytes)
	p.again("discords_rest", discordsSlots, discordsThreads, discordsScanBytes)
	p.again("discords_among", (count+7)/8, 256, 0)
	p.again("discords_choose", 1, discordsPick, 0)
}

// addRanged launches the search for the range discords of a length, by number, of which the detail has room for as many as are kept.
func (s *discordsShape) addRanged(p *builder, length, kept int) {
	m := s.least + length*s.step
	if s.radius > 0 || length > 0 { // the radius to begin with is known
		s.addRadius(p, m)
	}
	s.addProbe(p, 1, false)
	s.addProfile(p, m, false)
	p.again("discords_range", 1, discordsPick, 0)
	p.again("discords_rank", (kept+255)/256, 256, 0)
	if length == s.lengths()-1 {
		p.again("discords_close", 1, discordsPick, 0)
	}
}

// addLengths launches the lengths of a task by their anchors.
func (s *discordsShape) addLengths(p *builder, task uint32, anchors []int) {
	extremes, arrays := p.zeroed((len(anchors)+1)*Alignment), p.scratch(len(anchors)*s.arrays())
	each := uint32(s.arrays() / Alignment)
	anchor := func(k int) Tile {
		return Tile{First: task, Count: extremes + uint32(k), Part: uint32(anchors[k]), Scratch: arrays + uint32(k)*each}
	}
	for k := range anchors {
		p.tiles = append(p.tiles, anchor(k))
	}
	s.addDescribe(p, len(anchors))
	s.addProbe(p, len(anchors), s.single)
	left := s.left(s.least)
	blocks := (left + discordsBand - 1) / discordsBand * ((left + discordsAnchorRows - 1) / discordsAnchorRows)
	scan, bytes := "discords_anchors", discordsScanBytes
	if s.single {
		scan, bytes = "discords_anchors32", discordsScan32Bytes
	}
	p.again(scan, len(anchors)*blocks, discordsThreads, bytes)
	slots := max(1, min(discordsSlots, s.lengths(), discordsSlotsBytes/s.arrays()))
	p.tiles = append(p.tiles, Tile{First: task, Count: uint32(len(anchors)), Scratch: p.scratch(8 * (s.n + 1))})
	p.tiles = append(p.tiles, Tile{First: task, Count: each, Part: extremes + uint32(len(anchors)), Scratch: p.scratch(slots * s.arrays())})
	for k := range anchors {
		p.tiles = append(p.tiles, anchor(k))
	}
	p.launch("discords_count", 1, discordsPick, 0)
	p.again("discords_lengths", slots, discordsThreads, discordsScanBytes)
	p.again("discords_leave", 1, discordsPick, 0)
}

var discordsPlan = opPlan{
	op: discord.OpTop,
	kernels: []string{"discords_describe", "discords_step", "discords_probe",
		"discords_scan", "discords_finish", "discords_pick", "discords_window",
		"discords_near", "discords_rest", "discords_among", "discords_choose",
		"discords_count", "discords_anchors", "discords_lengths", "discords_leave",
		"discords_probe32", "discords_scan32", "discords_candidates", "discords_mark", "discords_anchors32",
		"discords_range", "discords_rank", "discords_close"},
	class: discordsClass, launches: discordsLaunches,
}
