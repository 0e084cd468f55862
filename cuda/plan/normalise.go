package plan

import (
	"cmp"
	"slices"

	"odradek/detectors"
)

// Constants of normalise.cu.
const (
	normaliseKernel  = "normalise"
	normaliseEach    = 1 << 10 // points of a block
	normaliseThreads = 128
)

// Limits of normalised points, in words: those of a task, beyond which the CPU has it, and those of a plan, which no
// device has memory for.
const (
	mostOfTask = 1 << 27
	mostOfPlan = 1 << 30
)

// normaliser has the tasks of a plan whose kernels read normalised points (opPlan.points). Their points are written after
// all that is copied, once for rows that several tasks share, and a task's X, Dim and Params on the device
// are those of rows that are these points.
type normaliser struct {
	base  int // word of In on the device where the points begin
	tiles int // word where the plan's tiles begin
	words int // of all points

	tasks []int32 // by detector and place of X
	runs  []pointRun
	read  map[int32]pointsOf // by batch index
}

// pointRun are successive points, which tasks with overlapping rows share: of m rows of dim numbers, from word x on. Kernels
// read them with the parameters read.
type pointRun struct {
	params     detectors.Span // of the tasks
	read       detectors.Words
	readAt     int // tile where read lies
	x, end     uint32
	dim, m, to int
}

// pointsOf are the points of a task: count of a run, from the first on.
type pointsOf struct{ run, first, count int }

// count returns the number of points of n words of rows.
func (r *pointRun) count(n uint32) int { return int(n)/r.dim - r.m + 1 }

// ofPoints returns a task as its op's kernels read it, with rows that are points where they take these. It returns false where
// there are too many.
func (o *opPlan) ofPoints(t *detectors.Task, params detectors.Words) (*detectors.Task, detectors.Words, bool) {
	if o.points == nil {
		return t, params, true
	}
	m := o.points(params)
	if m == 0 {
		return t, params, true
	}
	if t.Dim < 1 || t.X.Len%t.Dim != 0 || int(t.X.Len/t.Dim) < m {
		return t, params, false
	}
	u := *t
	u.Dim *= uint32(m)
	words := (int(t.X.Len/t.Dim) - m + 1) * int(t.Dim) * m
	u.X.Len = uint32(words)
	return &u, o.ofRows(params), words <= mostOfTask
}

// launch finds the tasks of segments, by their classes, that have normalised points, and adds the launch that makes these.
func (z *normaliser) launch(b *detectors.Batch, of *segments, classes []Class, p *builder) {
	z.tasks, z.runs, z.words = z.tasks[:0], z.runs[:0], 0
	for k := range of.list {
		s := &of.list[k]
		op := byOp[classes[s.class].Op]
		if op.points == nil {
			continue
		}
		for i := s.head; i >= 0; i = of.next[i] {
			if op.points(paramsOf(b, i)) > 0 {
				z.tasks = append(z.tasks, i)
			}
		}
	}
	if len(z.tasks) == 0 {
		return
	}
	slices.SortFunc(z.tasks, func(i, j int32) int {
		t, u := &b.Tasks[i], &b.Tasks[j]
		return cmp.Or(cmp.Compare(t.Params.Off, u.Params.Off), cmp.Compare(t.Dim, u.Dim), cmp.Compare(t.X.Off, u.X.Off), cmp.Compare(i, j))
	})
	if z.read == nil {
		z.read = map[int32]pointsOf{}
	}
	clear(z.read)
	for _, i := range z.tasks {
		t := &b.Tasks[i]
		last := len(z.runs) - 1
		if r := last; r < 0 || z.runs[r].params != t.Params || z.runs[r].dim != int(t.Dim) || t.X.Off >= z.runs[r].end ||
			(t.X.Off-z.runs[r].x)%t.Dim != 0 {
			op, params := byOp[t.Op], paramsOf(b, i)
			z.runs = append(z.runs, pointRun{params: t.Params, read: op.ofRows(params), x: t.X.Off, dim: int(t.Dim), m: op.points(params)})
			last++
		}
		r := &z.runs[last]
		r.end = max(r.end, t.X.Off+t.X.Len)
		z.read[i] = pointsOf{last, int(t.X.Off-r.x) / r.dim, r.count(t.X.Len)}
	}
	blocks := 0
	for i := range z.runs {
		r := &z.runs[i]
		r.to = z.base + z.words
		n, width := r.count(r.end-r.x), r.dim*r.m
		for at := 0; at < n; at += normaliseEach {
			p.tile(Tile{r.x + uint32(at*r.dim), uint32(min(n-at, normaliseEach)), uint32(r.dim), uint32(r.m)})
			p.tile(Tile{First: uint32(r.to + at*width)})
			blocks++
		}
		z.words += (n*width + 3) &^ 3
	}
	for i := range z.runs { // after the points: blocks find theirs by number
		r := &z.runs[i]
		if r.readAt = len(p.tiles); i > 0 && z.runs[i-1].params == r.params {
			r.readAt = z.runs[i-1].readAt
			continue
		}
		for at := 0; at < len(r.read); at += 4 {
			var four [4]uint32
			copy(four[:], r.read[at:])
			p.tile(Tile{four[0], four[1], four[2], four[3]})
		}
	}
	p.launchGrid(kernel(normaliseKernel), blocks, normaliseThreads, 0)
}

func paramsOf(b *detectors.Batch, i int32) detectors.Words {
	s := b.Tasks[i].Params
	return b.In[s.Off : s.Off+s.Len]
}

// take gives a task of the plan its points. It returns false for a task of rows.
func (z *normaliser) take(i int32, t *Task) bool {
	if len(z.tasks) == 0 {
		return false
	}
	at, ok := z.read[i]
	if !ok {
		return false
	}
	r := &z.runs[at.run]
	width := r.dim * r.m
	t.X = detectors.Span{Off: uint32(r.to + at.first*width), Len: uint32(at.count * width)}
	t.Dim = uint32(width)
	t.Params = detectors.Span{Off: uint32(z.tiles + 4*r.readAt), Len: uint32(len(r.read))}
	return true
}

// room returns the bytes of the input on the device that the points need, 0 without any.
func (z *normaliser) room() uint64 {
	switch {
	case len(z.tasks) == 0:
		return 0
	case z.base+z.words > mostOfPlan:
		return 1 << 50 // the device refuses the plan
	}
	return 4 * uint64(z.base+z.words)
}
