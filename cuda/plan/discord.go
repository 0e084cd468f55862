package plan

import (
	"odradek/detectors"
	"odradek/detectors/discord"
)

// Limits of the kernels in discord.cu.
const (
	discordLength  = 1 << 12   // numbers of a query
	discordShared  = 200 << 10 // bytes of a block
	discordSeveral = 163 << 10 // bytes of a block with several scores: as many as an A100 has, which could score one at a time
)

// Constants of discord.cu.
const (
	discordRun   = 7  // subsequences of a thread
	discordMost  = 16 // queries of a block
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

// discordKernels are the kernels, by Variant: with the queries that a thread correlates at once, and last the one for rows of several
// values and for several neighbours.
var discordKernels = []struct {
	name  string
	width int
}{{"discord_one", 1}, {"discord_two", 2}, {"discord_four", 4}, {"discord_any", 1}}

// discordShape has the sizes that follow from a task's parameters and rows.
type discordShape struct {
	rows, scores, every, points, dim, longest, shortest, lengths int
	values                                                       int // of a subsequence, in the products of all lengths
	any                                                          bool
	variant, each                                                int // of discordKernels; scores of a block
}

// discordShapeOf returns the shape of a task; false if the kernels do not take it, as one with a carry (EXACT_ABOVE).
func discordShapeOf(t *detectors.Task, params detectors.Words) (s discordShape, ok bool) {
	if len(params) <= discordParamM || t.Dim < 1 || t.Fresh < 1 || t.X.Len%t.Dim != 0 || t.Next.Len > 0 {
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
	before := 0
	for _, m := range lengths {
		if s.values += int(m); !s.any && before >= discordRun && int(m)-before >= discordRun {
			s.values -= before // the products of the shorter length
		}
		before = int(m)
	}
	if s.any {
		s.variant, s.each = len(discordKernels)-1, 1
		return s, s.shared() <= discordShared
	}
	best := discordShape{}
	for s.variant = range len(discordKernels) - 1 {
		width := discordKernels[s.variant].width
		for s.each = width; s.each < s.scores+width && s.each <= discordMost; s.each += width {
			if s.shared() > discordShared || s.each > 1 && (s.shared() > discordSeveral || s.each*s.longest > discordQuery/8) {
				break
			}
			if !ok || s.instructions() < best.instructions() {
				best, ok = s, true
			}
		}
	}
	return best, ok
}

// most is the largest number of rows of a block.
func (s *discordShape) most() int { return min(s.rows, s.points+(s.each-1)*s.every) }

// instructions is the number of float64 instructions of a task. For each subsequence and width queries these are, as discord.cu has them:
// a product a query and value, and 3/7 of an instruction a value; for each length 20 and 6 a query; and, once a block, 8 for a row's way
// to shared memory. So more scores of a block read its rows less often, but with a large EVERY compare each other's for nothing.
func (s *discordShape) instructions() int {
	width := discordKernels[s.variant].width
	widths, blocks := (s.scores+width-1)/width*s.dim, (s.scores+s.each-1)/s.each
	return s.most() * (widths*(s.values*(discordRun*width+3)/discordRun+s.lengths*(20+6*width)) + 8*blocks*s.dim)
}

// shared is the shared memory of a block, in bytes: its rows, queries with two numbers for each length, and the largest correlations of
// each warp or, of the kernel discord_any, all correlations.
func (s *discordShape) shared() int {
	n := (s.most()+2*discordRun)*s.dim + s.each*s.longest
	if s.any {
		return 8 * (n + 2 + s.most())
	}
	return 8 * (n + (2+s.threads()/32)*s.each*s.lengths)
}

// threads is the size of a block, such that its subsequences take the fewest rounds.
func (s *discordShape) threads() int {
	n := (s.most() - 2*s.shortest + discordRun) / discordRun
	rounds := (n + 32*discordWarps - 1) / (32 * discordWarps)
	return max(1, (n+32*rounds-1)/(32*rounds)) * 32
}

// discordClass returns a class of Discord: Variant is the index of the kernel; B the threads and, << 16, the scores of a block.
func discordClass(t *detectors.Task, params detectors.Words) (Class, int, bool) {
	s, ok := discordShapeOf(t, params)
	if !ok {
		return Class{}, 0, false
	}
	cost := 1 + s.instructions()/8000 // 8 a picosecond are half of an H200's rate
	return Class{Op: discord.Op, Variant: uint32(s.variant), B: uint32(s.threads() | s.each<<16), Shared: uint32(s.shared())}, cost, true
}

func discordLaunches(c Class, p *builder, chains []chain) {
	each := c.B >> 16
	for _, ch := range chains {
		for i := range ch.count {
			scores := p.tasks[ch.first+i].Scores.Len
			for first := uint32(0); first < scores; first += each {
				p.tiles = append(p.tiles, Tile{First: ch.first + i, Count: 1, Part: first | min(each, scores-first)<<16})
			}
		}
	}
	p.launch(discordKernels[c.Variant].name, blockATile, int(c.B&0xffff), int(c.Shared))
}

var discordPlan = opPlan{
	op:      discord.Op,
	kernels: []string{"discord_one", "discord_two", "discord_four", "discord_any"},
	class:   discordClass, launches: discordLaunches,
}
