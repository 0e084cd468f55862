package plan

import (
	"cmp"
	"slices"

	"odradek/detectors"
)

// Constants of normalise.cu.
const (
	normaliseKernel  = "normalise"
	normaliseEach    = 1 << 10 // points of a block, at most
	normaliseThreads = 128
)

// Limits of normalised points, in words. The CPU scores a task with more of them than mostOfTask; no device has
// memory for a plan with more than mostOfPlan.
const (
	mostOfTask = 1 << 27
	mostOfPlan = 1 << 30
)

// normaliser plans the kernel that makes normalised points (opPlan.pointRows): where their memory lies, which is after
// all that is copied in, and which points each task reads. Tasks that share rows share the points of them.
type normaliser struct {
	base  int // word of In on the device where the points begin
	tiles int // word where the plan's tiles begin
	words int // of all points

	tasks  []int32 // of normalised points, by detector and offset of X
	runs   []pointRun
	points map[int32]taskPoints // by batch index
}

// pointRun is a run of successive points, which tasks with overlapping rows share.
type pointRun struct {
	params     detectors.Span  // of the tasks
	rowParams  detectors.Words // opPlan.rowParams of them, which the op's kernels get
	paramsTile int             // tile where rowParams begin
	x, end     uint32          // words of In where the rows begin and end
	dim, m     int             // numbers of a row, rows of a point
	to         int             // word where the points begin
}

// taskPoints are the points of a task: count points of a run, beginning with the point first.
type taskPoints struct{ run, first, count int }

// count returns how many points n words of rows make.
func (r *pointRun) count(n uint32) int { return int(n)/r.dim - r.m + 1 }

// kernelTask returns a task and its parameters as its op's kernels get them: with its normalised points as rows, if
// they read points. It returns false where the points are too many.
func (o *opPlan) kernelTask(t *detectors.Task, params detectors.Words) (*detectors.Task, detectors.Words, bool) {
	if o.pointRows == nil {
		return t, params, true
	}
	m := o.pointRows(params)
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
	return &u, o.rowParams(params), words <= mostOfTask
}

// launch finds the tasks in segments that read normalised points, and adds the launch that makes the points.
func (nr *normaliser) launch(b *detectors.Batch, segments *segments, classes []Class, p *builder) {
	nr.runs, nr.words = nr.runs[:0], 0
	for k := range segments.list {
		s := &segments.list[k]
		op := byOp[classes[s.class].Op]
		if op.pointRows == nil {
			continue
		}
		for i := s.head; i >= 0; i = segments.next[i] {
			if op.pointRows(paramsOf(b, i)) > 0 {
				nr.tasks = append(nr.tasks, i)
			}
		}
	}
	if len(nr.tasks) == 0 {
		return
	}
	slices.SortFunc(nr.tasks, func(i, j int32) int {
		t, u := &b.Tasks[i], &b.Tasks[j]
		return cmp.Or(cmp.Compare(t.Params.Off, u.Params.Off), cmp.Compare(t.Dim, u.Dim), cmp.Compare(t.X.Off, u.X.Off), cmp.Compare(i, j))
	})
	if nr.points == nil {
		nr.points = map[int32]taskPoints{}
	}
	clear(nr.points)
	for _, i := range nr.tasks {
		t := &b.Tasks[i]
		last := len(nr.runs) - 1
		if r := last; r < 0 || nr.runs[r].params != t.Params || nr.runs[r].dim != int(t.Dim) || t.X.Off >= nr.runs[r].end ||
			(t.X.Off-nr.runs[r].x)%t.Dim != 0 {
			op, params := byOp[t.Op], paramsOf(b, i)
			nr.runs = append(nr.runs, pointRun{params: t.Params, rowParams: op.rowParams(params), x: t.X.Off, dim: int(t.Dim),
				m: op.pointRows(params)})
			last++
		}
		r := &nr.runs[last]
		r.end = max(r.end, t.X.Off+t.X.Len)
		nr.points[i] = taskPoints{last, int(t.X.Off-r.x) / r.dim, r.count(t.X.Len)}
	}
	blocks := 0
	for i := range nr.runs {
		r := &nr.runs[i]
		r.to = nr.base + nr.words
		n, width := r.count(r.end-r.x), r.dim*r.m
		for at := 0; at < n; at += normaliseEach {
			p.tiles = append(p.tiles, Tile{r.x + uint32(at*r.dim), uint32(min(n-at, normaliseEach)), uint32(r.dim), uint32(r.m)})
			p.tiles = append(p.tiles, Tile{First: uint32(r.to + at*width)})
			blocks++
		}
		nr.words += (n*width + 3) &^ 3
	}
	for i := range nr.runs { // after the tiles of points, because block i reads tiles 2i and 2i+1
		r := &nr.runs[i]
		if r.paramsTile = len(p.tiles); i > 0 && nr.runs[i-1].params == r.params {
			r.paramsTile = nr.runs[i-1].paramsTile
			continue
		}
		for at := 0; at < len(r.rowParams); at += 4 {
			var four [4]uint32
			copy(four[:], r.rowParams[at:])
			p.tiles = append(p.tiles, Tile{four[0], four[1], four[2], four[3]})
		}
	}
	p.launch(normaliseKernel, blocks, normaliseThreads, 0)
}

// paramsOf returns the parameters of a task of a batch.
func paramsOf(b *detectors.Batch, i int32) detectors.Words {
	s := b.Tasks[i].Params
	return b.In[s.Off : s.Off+s.Len]
}

// setPoints sets a task of the plan, of this batch index, to read its points, if it reads points.
func (nr *normaliser) setPoints(i int32, t *Task) {
	at, ok := nr.points[i]
	if !ok {
		return
	}
	r := &nr.runs[at.run]
	width := r.dim * r.m
	t.X = detectors.Span{Off: uint32(r.to + at.first*width), Len: uint32(at.count * width)}
	t.Dim = uint32(width)
	t.Params = detectors.Span{Off: uint32(nr.tiles + 4*r.paramsTile), Len: uint32(len(r.rowParams))}
}

// room returns the size in bytes of the input on the device with the points after it.
func (nr *normaliser) room() uint64 {
	if nr.base+nr.words > mostOfPlan {
		return 1 << 50 // the device refuses the plan
	}
	return 4 * uint64(nr.base+nr.words)
}
