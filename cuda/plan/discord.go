package plan

import (
	"odradek/detectors"
	"odradek/detectors/ops/discord"
)

// Limits of the kernels in discord.cu.
const (
	discordLength = 1 << 12   // numbers of a query
	discordShared = 200 << 10 // bytes of a block
)

// Constants of discord.cu.
const (
	discordRun   = 7  // subsequences of a thread
	discordMost  = 16 // queries of a block
	discordFour  = 4  // queries that a thread correlates at once
	discordWarps = 12
	discordQuery = 32 << 10 // bytes of a block's queries, where it has several
)

// The offsets of the parameters of a task, in words.
var (
	discordParamK      = discord.Op.Spec().Word("K")
	discordParamPoints = discord.Op.Spec().Word("POINTS")
	discordParamEvery  = discord.Op.Spec().Word("EVERY")
	discordParamM      = discord.Op.Spec().Word("M")
)

// discordShape has the sizes that follow from a task's parameters and rows.
type discordShape struct {
	rows, scores, every, points, dim, longest, shortest, lengths int
	any                                                          bool // rows of several values, or several neighbours
	each                                                         int  // scores of a block
}

// discordShapeOf returns the shape of a task; false if the kernels do not take it.
func discordShapeOf(t *detectors.Task, params detectors.Words) (s discordShape, ok bool) {
	if len(params) <= discordParamM || t.Dim < 1 || t.Fresh < 1 || t.X.Len%t.Dim != 0 {
		return s, false
	}
	lengths, fresh := params[discordParamM:], int(t.Fresh)
	s.rows, s.scores, s.dim, s.lengths = int(t.X.Len/t.Dim), int(t.Scores.Len), int(t.Dim), len(lengths)
	s.points, s.shortest, s.longest = params.Int(discordParamPoints), lengths.Int(0), lengths.Int(len(lengths)-1)
	s.every = params.Int(discordParamEvery)
	if s.every < 1 || s.scores != (fresh-1)/s.every+1 || s.scores > 1<<16-1 || s.rows < fresh || s.shortest < 3 || s.longest > discordLength ||
		s.points < 2*s.longest || s.rows-fresh+1 < 2*s.longest || s.lengths > 1 && int(t.Detail.Len) != s.scores*s.lengths {
		return s, false
	}
	s.any = s.dim > 1 || params.Int(discordParamK) != 1
	s.each = 1
	if s.any {
		return s, s.shared() <= discordShared
	}
	// More scores of a block share its passes over the rows, but with a large EVERY compare each other's rows for nothing.
	best := s
	for s.each = discordFour; s.each <= min(s.scores, discordMost, discordQuery/8/s.longest); s.each += discordFour {
		if s.shared() <= discordShared && s.pairs() <= best.pairs() {
			best = s
		}
	}
	return best, best.shared() <= discordShared
}

// most is the largest number of rows of a block.
func (s *discordShape) most() int { return min(s.rows, s.points+(s.each-1)*s.every) }

// pairs is the number of float64 instructions of a task, for each value of a subsequence: one for each query, and, once for all
// queries of a block, one each for the mean, the difference and the square.
func (s *discordShape) pairs() int {
	return s.most() * (s.scores + 3*((s.scores+s.each-1)/s.each)) * s.dim
}

// shared is the shared memory of a block, in bytes: its rows, queries and, of the kernel
// discord_any, correlations.
func (s *discordShape) shared() int {
	n := (s.most()+2*discordRun)*s.dim + s.each*s.longest
	if s.any {
		n += s.most()
	}
	return 8 * n
}

// threads is the size of a block, such that its subsequences take the fewest rounds.
func (s *discordShape) threads() int {
	n := (s.most() - 2*s.shortest + discordRun) / discordRun
	rounds := (n + 32*discordWarps - 1) / (32 * discordWarps)
	return max(1, (n+32*rounds-1)/(32*rounds)) * 32
}

// discordClass returns a class of Discord: Variant is 0 for discord_one, 1 for discord_four, 2 for
// discord_any; A the bytes of shared memory; B the threads and, << 16, the scores of a block.
func discordClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	s, ok := discordShapeOf(t, params)
	if !ok {
		return Class{}, 0, false
	}
	variant := uint32(0)
	switch {
	case s.any:
		variant = 2
	case s.each > 1:
		variant = 1
	}
	cost := 0
	for _, m := range params[discordParamM:] {
		cost += s.pairs() * int(m) / 8000 // 8 a picosecond are half of an H200's rate
	}
	return Class{Op: discord.Op, Variant: variant, A: uint32(s.shared()), B: uint32(s.threads() | s.each<<16)}, cost + 1, true
}

func discordLaunches(c Class, p *builder, chains []chain) {
	each := c.B >> 16
	for _, ch := range chains {
		for i := range ch.count {
			scores := p.tasks[ch.first+i].Scores.Len
			for first := uint32(0); first < scores; first += each {
				p.tile(Tile{First: ch.first + i, Count: 1, Part: first | min(each, scores-first)<<16})
			}
		}
	}
	name := [...]string{"discord_one", "discord_four", "discord_any"}[c.Variant]
	p.launch(kernel(name), int(c.B&0xffff), int(c.A))
}

var discordPlan = opPlan{
	op:      discord.Op,
	kernels: []string{"discord_one", "discord_four", "discord_any"},
	class:   discordClass, launches: discordLaunches,
	shared: func(c Class) int { return int(c.A) },
}
