//go:build linux

package cuda

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/seedtest"
	"odradek/detectors/sst"
)

// svdsstMaxRank is the largest rank of a kernel.
const svdsstMaxRank = 16

// TestSVDSSTEmulated scores random shapes, for every kernel: alone and among others.
func TestSVDSSTEmulated(t *testing.T) {
	windows := []int{2, 3, 20, 64, 65, 128, 129, 200}
	if !testing.Short() {
		windows = append(windows, 224, 320, 400, 512)
	}
	svdsstOn(t, emulated(t), windows, 20, false)
}

// TestSVDSSTDevice is TestSVDSSTEmulated on a device.
func TestSVDSSTDevice(t *testing.T) {
	windows := []int{2, 3, 20, 63, 64, 65, 128, 129, 224, 225, 320, 321, 416, 417, 500, 512}
	svdsstOn(t, deviceOptions(t), windows, 300, true)
}

func svdsstOn(t *testing.T, o Options, windows []int, more int, device bool) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	var runs []*svdsstRun
	for _, w := range windows {
		runs = append(runs, newSVDSSTRun(rng, w, device))
	}
	for range more {
		runs = append(runs, newSVDSSTRun(rng, 2+int(math.Exp2(7*rng.Float64())), device))
	}
	runs = append(runs, onBound())
	runs = append(runs, clusters()...)
	worst := 0.0
	for _, r := range runs {
		worst = max(worst, svdsstExecute(t, e, r))
	}
	t.Logf("the largest difference to the definition is %.1e", worst)
	// In one batch: the same to the bit.
	alone := make([][]float32, len(runs))
	for i, r := range runs {
		alone[i] = r.scores
	}
	rng.Shuffle(len(runs), func(i, k int) { runs[i], runs[k], alone[i], alone[k] = runs[k], runs[i], alone[k], alone[i] })
	svdsstExecute(t, e, runs...)
	for i, r := range runs {
		if !slices.Equal(r.scores, alone[i]) {
			t.Errorf("%s: the result among others is not the one it has alone", r.name)
		}
	}
	byKernels(t, e.Stats(), 0)
}

// svdsstRun is a task.
type svdsstRun struct {
	name       string
	d          detectors.Detector
	dim, fresh int
	x, scores  []float32
}

//go:embed testdata/svdsst/*.txt
var clusterFiles embed.FS

// clusters returns pasts with eight singular values within 1e-5 of the largest from each other,
// including the rank's. In w50 a Krylov space of 17 vectors showed four, with small residuals. In w20
// more pairs than are refined exchange the error of float32. In hidden-w50 the third direction is
// almost orthogonal to the first vector of the basis. A file has the window, the rank and the values.
func clusters() (runs []*svdsstRun) {
	names, err := fs.Glob(clusterFiles, "testdata/svdsst/*")
	for _, name := range names {
		var file []byte
		if file, err = clusterFiles.ReadFile(name); err != nil {
			break
		}
		words := strings.Fields(string(file))
		r := &svdsstRun{name: name, dim: 1, fresh: 1}
		var p sst.SVDOpParams
		if _, err = fmt.Sscan(words[0]+" "+words[1], &p.Window, &p.Rank); err != nil {
			break
		}
		if r.d, err = sst.NewSVD(p); err != nil {
			break
		}
		for _, word := range words[2:] {
			v, err := strconv.ParseFloat(word, 32)
			if err != nil {
				panic(err)
			}
			r.x = append(r.x, float32(v))
		}
		runs = append(runs, r)
	}
	if err != nil || len(runs) == 0 {
		panic(fmt.Sprint("no clusters: ", err))
	}
	return runs
}

// onBound returns noise with a singular value on a bound of the kernel's bisection up to rounding: a
// count there took it for one of the other sign.
func onBound() *svdsstRun {
	d, err := sst.NewSVD(sst.SVDOpParams{Window: 31, Rank: 6})
	if err != nil {
		panic(err)
	}
	r := &svdsstRun{name: "a value on a bound", d: d, dim: 1, fresh: 1}
	for _, v := range boundNoise {
		r.x = append(r.x, float32(v)*0x1p-23)
	}
	return r
}

var boundNoise = []int32{
	555, 1499, 811, 4241, 1519, -3856, -12688, 13553, -8793, 3160, -3261, 16665, 7421, -8300, -9951, 20838, -2127, -5413, 16338, 5751,
	798, -948, 12327, 2337, 3433, -5689, -5244, 2371, -2100, -6769, -783, 1192, -18030, 15931, -12492, 5223, 3305, -1813, 13222, 3314,
	-1857, 12046, 10284, -9957, -13347, 402, 571, -8888, 2477, -11576, -2784, 10173, 9088, -13678, 251, -8851, -14403, 8673, -5729,
	6395, 3217, -4851, -6616, -10182, -15366, 10929, 8678, -1768, -11005, -285, 1476, 16015, -3464, -4995, 917, -4478, -732, 3952,
	-6055, 10282, 6138, 1553, 17166, -5255, 4531, 723, -506, -1505, -459, 8919, -9355, -7664, 3534, -1937, -4335, -10228, -1128, -6983,
	1244, -3464, 13528, 6210, -6468, -1204, -8045, 3689, -2373, 14180, -4271, 10527, 1036, 6711, -635, 270, 9467, 1940, 3787, -7975,
	-12418, 5131, 6102, -12745, 19526, -7797, 5962, 7801, -11511, -603, 4616, 6613,
}

func newSVDSSTRun(rng *rand.Rand, w int, device bool) *svdsstRun {
	p := sst.SVDOpParams{Window: w, Rank: 1 + rng.IntN(min(w-1, svdsstMaxRank)), Negligible: []float64{0, 1e-3, 0.01}[rng.IntN(3)]}
	if rng.IntN(2) == 0 {
		p.Gamma = 1 + rng.IntN(3*w)
	}
	d, err := sst.NewSVD(p)
	if err != nil {
		panic(err)
	}
	r := &svdsstRun{d: d, dim: 1 + rng.IntN(3)*rng.IntN(2), fresh: 1 + rng.IntN(6)}
	if w > 100 && !device {
		r.dim, r.fresh = 1, 1
	}
	n := d.Window() + r.fresh - 1
	r.x = make([]float32, n*r.dim)
	turn, noise, walk, size := 0.05+rng.Float64(), []float64{0, 0.01, 0.3, 3}[rng.IntN(4)], 0.0, math.Ldexp(1, rng.IntN(160)-80)
	walks := float64(rng.IntN(2))
	for i := range r.x {
		walk += walks * rng.NormFloat64()
		r.x[i] = float32(size * (5 + math.Sin(turn*float64(i/r.dim)) + 0.5*math.Sin(2.3*turn*float64(i/r.dim)) + noise*rng.NormFloat64() + walk))
	}
	r.name = fmt.Sprintf("%+v, dim %d, fresh %d, noise %v, walk %v", p, r.dim, r.fresh, noise, walks)
	return r
}

// svdsstExecute executes the runs as one batch; it compares a single one with the definition. It
// returns the largest difference.
func svdsstExecute(t *testing.T, e *Executor, runs ...*svdsstRun) (worst float64) {
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		params := b.Put(r.d.Params())
		task := detectors.Task{Op: sst.OpSVD, Dim: uint32(r.dim), Fresh: uint32(r.fresh), Params: params}
		span, x := b.GrowF32(len(r.x))
		copy(x, r.x)
		task.X, task.Scores = span, b.GrowOut(r.fresh)
		b.Tasks = append(b.Tasks, task)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		rows := b.Rows(i)
		r.scores = slices.Clone(rows.Scores)
		if len(runs) > 1 {
			continue
		}
		got := detectors.Result{Scores: r.scores}
		want := detectors.Result{Scores: make([]float32, r.fresh)}
		rows.Scores = want.Scores
		sst.OpSVD.Spec().Score(rows)
		if err := sst.OpSVD.Spec().Compare(&rows, got, want); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		for k, s := range got.Scores {
			worst = max(worst, math.Abs(float64(s-want.Scores[k])))
		}
	}
	return worst
}

// TestSVDSSTRoundsEmulated has float32 leave scores open in some of the columns.
func TestSVDSSTRoundsEmulated(t *testing.T) { svdsstRoundsOn(t, emulated(t), 20) }

// TestSVDSSTRoundsDevice is TestSVDSSTRoundsEmulated on a device, with matrices in shared memory and,
// for windows from about 170, in scratch memory.
func TestSVDSSTRoundsDevice(t *testing.T) {
	o := deviceOptions(t)
	for _, w := range []int{20, 50, 100, 128, 200} {
		t.Run(fmt.Sprint("w=", w), func(t *testing.T) { svdsstRoundsOn(t, o, w) })
	}
}

// svdsstRoundsOn requires that a batch takes a second round where a score is open, and only there, and
// that the score of a row is the largest of its columns', each scored alone, to the bit.
func svdsstRoundsOn(t *testing.T, o Options, w int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	d, err := sst.NewSVD(sst.SVDOpParams{Window: w})
	if err != nil {
		t.Fatal(err)
	}
	kinds := []struct {
		name  string
		value func(i int) float64
	}{
		{"noise", func(int) float64 { return rng.NormFloat64() }},
		{"ramp", func(i int) float64 { return float64(i) }}, // a past of two directions, with rank 3
		{"gap", func(i int) float64 { return math.NaN() }},
	}
	const noise, ramp, gap, fresh = 0, 1, 2, 6
	column := func(kind int) []float32 {
		x := make([]float32, d.Window()+fresh-1)
		for i := range x {
			x[i] = float32(kinds[kind].value(i))
		}
		return x
	}
	rounds := func(runs ...*svdsstRun) uint64 {
		before := e.Stats().Devices[0].Batches
		svdsstExecute(t, e, runs...)
		return e.Stats().Devices[0].Batches - before
	}
	tasks := 0
	for _, columns := range [][]int{
		{noise}, {ramp}, {gap}, {noise, noise}, {noise, ramp}, {ramp, noise, ramp}, {noise, ramp, gap}, {gap, ramp}, {ramp, ramp, ramp, ramp},
	} {
		whole := &svdsstRun{d: d, dim: len(columns), fresh: fresh, x: make([]float32, len(columns)*(d.Window()+fresh-1))}
		most := make([]float32, fresh)
		for c, kind := range columns {
			whole.name += kinds[kind].name + " "
			one := &svdsstRun{name: kinds[kind].name, d: d, dim: 1, fresh: fresh, x: column(kind)}
			want := uint64(1)
			if kind == ramp {
				want = 2
			}
			if got := rounds(one); got != want {
				t.Errorf("%s takes %d rounds, want %d", one.name, got, want)
			}
			for i, s := range one.scores {
				if s > most[i] || s != s {
					most[i] = s
				}
			}
			for i, v := range one.x {
				whole.x[i*len(columns)+c] = v
			}
			tasks++
		}
		want := uint64(1)
		if slices.Contains(columns, ramp) && !slices.Contains(columns, gap) {
			want = 2
		}
		if got := rounds(whole); got != want {
			t.Errorf("%stakes %d rounds, want %d", whole.name, got, want)
		}
		tasks++
		for i, s := range whole.scores {
			if math.Float32bits(s) != math.Float32bits(most[i]) && !(s != s && most[i] != most[i]) {
				t.Errorf("%sscore %d is %v, the largest of the columns' %v", whole.name, i, s, most[i])
			}
		}
	}
	if s := e.Stats(); s.Devices[0].Tasks != uint64(tasks) || s.Declined != 0 || s.CPUTasks != 0 {
		t.Errorf("%+v, want %d tasks on the device and none on the CPU", s, tasks)
	}
}
