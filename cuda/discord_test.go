//go:build linux

package cuda

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/quality"
	"odradek/detectors/seedtest"
)

// TestDiscordEmulated scores random shapes, alone and among others, and one of a large window whose
// block has two scores of 64 fresh rows.
func TestDiscordEmulated(t *testing.T) { discordOn(t, emulated(t), 300, 6000) }

// TestDiscordDevice is TestDiscordEmulated on a device, with more and larger tasks.
func TestDiscordDevice(t *testing.T) { discordOn(t, deviceOptions(t), 600, 20000) }

func discordOn(t *testing.T, o Options, shapes, window int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	large := discord.Params{Window: window, Length: 50, MaxLength: 200, Lengths: 3, Every: 32}
	runs := []*discordRun{newDiscordRun(rng, large, 1, 32), newDiscordRun(rng, large, 1, 64)}
	for range shapes {
		p := discord.Params{Length: 3 + int(math.Exp2(6*rng.Float64())), Every: 1 + rng.IntN(2)*rng.IntN(40), ExcludeFlat: rng.IntN(2) == 0}
		if p.MaxLength = p.Length; rng.IntN(2) == 0 { // lengths that share sums, and such as are too close for that
			p.MaxLength += 1 + rng.IntN(3*p.Length)
		}
		p.Window = 2*p.MaxLength + rng.IntN(600)
		p.MinPoints = 2 * p.MaxLength
		dim := 1 + rng.IntN(5)/4
		if rng.IntN(4) == 0 {
			p.K = 1 + rng.IntN(3)
		}
		runs = append(runs, newDiscordRun(rng, p, dim, 1+rng.IntN(1+rng.IntN(80))))
	}
	for range 4 {
		m := 300 + rng.IntN(700)
		runs = append(runs, newDiscordRun(rng, discord.Params{Window: 3*m + rng.IntN(m), Length: m, MinPoints: 2 * m}, 1, 1+rng.IntN(4)))
	}
	worst := 0.0
	var alone []detectors.Result
	for _, r := range runs {
		alone = append(alone, discordExecute(t, e, r)...)
		for i, score := range alone[len(alone)-1].Scores {
			if d := math.Abs(float64(score - r.want.Scores[i])); d > worst { // not NaN
				worst = d
			}
		}
	}
	for i, got := range discordExecute(t, e, runs...) {
		if !slices.Equal(detectors.WordsOf(got.Scores), detectors.WordsOf(alone[i].Scores)) || !slices.Equal(got.Detail, alone[i].Detail) {
			t.Errorf("%s: the result among others is not the one it has alone", runs[i].name)
		}
	}
	t.Logf("scores differ from the definition's by at most %.2g", worst)
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, 0)
}

// discordRun is a task.
type discordRun struct {
	name       string
	d          detectors.Detector
	dim, fresh int
	x          []float64
	want       detectors.Result
}

// newDiscordRun is a task on a series with some of: steps, a level far from zero, rests, spikes, values that are not numbers; and
// copies of the last rows on other scales, whose score is 0 to a millionth.
func newDiscordRun(rng *rand.Rand, p discord.Params, dim, fresh int) *discordRun {
	d, err := discord.New(p)
	if err != nil {
		panic(err)
	}
	rows, longest := p.Window+fresh-1, max(p.Length, p.MaxLength)
	if p.MinPoints > 0 && rng.IntN(3) == 0 {
		rows -= rng.IntN(p.Window - p.MinPoints + 1) // a window that is not full yet
	}
	r := &discordRun{d: d, dim: dim, fresh: fresh, x: make([]float64, rows*dim)}
	r.name = fmt.Sprintf("%+v, %d rows of %d, %d fresh", p, rows, dim, fresh)
	some := func(what string, oneIn int) bool {
		if rng.IntN(oneIn) > 0 {
			return false
		}
		r.name += ", " + what
		return true
	}
	turn, walk, steps, far := 0.05+0.5*rng.Float64(), some("walk", 2), some("steps", 3), some("far", 4)
	rests, spikes, holes := some("rests", 3), some("spikes", 3), some("holes", 3)
	level, still := 0.0, 0
	if far {
		level = 1e9
	}
	for i := range rows {
		if walk {
			level += rng.NormFloat64()
		}
		if steps && rng.IntN(rows) < 3 {
			level = math.Pow(10, 9*rng.Float64()) * rng.NormFloat64()
		}
		if rests && rng.IntN(rows) < 4 {
			still = rng.IntN(3 * longest)
		}
		for c := range dim {
			at := i*dim + c
			switch r.x[at] = level + math.Sin(turn*float64(i)) + 0.1*rng.NormFloat64(); {
			case still > 0 && i > 0:
				r.x[at] = r.x[at-dim]
			case spikes && rng.IntN(rows) < 5:
				r.x[at] += math.Pow(10, 9*rng.Float64()) * rng.NormFloat64()
			case holes && rng.IntN(rows) < 2:
				r.x[at] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[rng.IntN(3)]
			}
		}
		still--
	}
	if p.ExcludeFlat && some("tiny", 8) { // their squares are 0, yet the values are not equal
		for i := range r.x {
			r.x[i] *= 1e-250
		}
	}
	if m := longest; rows >= 4*m+fresh && some("copies", 2) {
		for range 1 + rng.IntN(3) {
			to, from := rng.IntN(rows-3*m-fresh+1), rows-m-rng.IntN(fresh)
			scale := math.Exp2(8*rng.Float64() - 4)
			for i := range m * dim {
				r.x[to*dim+i] = 3 + scale*(r.x[from*dim+i]-r.x[from*dim])
			}
		}
	}
	return r
}

// discordExecute executes the runs as one batch; one alone is compared with the definition.
func discordExecute(t *testing.T, e *Executor, runs ...*discordRun) (results []detectors.Result) {
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		n, ok := r.d.Size(detectors.View{Dim: r.dim, Rows: len(r.x) / r.dim, Fresh: r.fresh})
		if !ok {
			t.Fatalf("%s: no task", r.name)
		}
		task := detectors.Task{Op: discord.Op, Dim: uint32(r.dim), Fresh: uint32(r.fresh), Params: b.Put(r.d.Params())}
		span, x := b.GrowF64(len(r.x))
		copy(x, r.x)
		task.X = span
		b.GrowOutputs(&task, n)
		b.Tasks = append(b.Tasks, task)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		rows := b.Rows(i)
		got := detectors.Result{Scores: slices.Clone(rows.Scores), Detail: slices.Clone(rows.Detail)}
		if len(runs) == 1 {
			r.want = detectors.Result{Scores: make([]float32, len(got.Scores)), Detail: make(detectors.Words, len(got.Detail))}
			rows.Scores, rows.Detail = r.want.Scores, r.want.Detail
			discord.Op.Spec().Score(rows)
			if err := discord.Op.Spec().Compare(&rows, got, r.want); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
		}
		results = append(results, got)
	}
	return results
}

// readUCR reads the series of the UCR Anomaly Archive in the folder that ODRADEK_TEST_UCR
// names, or in ../shared.
func readUCR(t *testing.T) []quality.Series {
	dir := cmp.Or(os.Getenv("ODRADEK_TEST_UCR"), "../../shared/data/ucr/dev")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no series of the UCR archive: ", err, ": set ODRADEK_TEST_UCR")
	}
	_, set, err := quality.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// ucrPeak returns the row of the highest score of op Discord after the training part, with tasks of 64
// fresh rows.
func ucrPeak(t *testing.T, e detectors.Executor, d detectors.Detector, longest int, s *quality.Series) int {
	const fresh = 64
	b := e.Batch()
	defer e.Release(b)
	params := b.Put(d.Params())
	x, dst := b.GrowF64(len(s.Values))
	copy(dst, s.Values)
	var ends []int
	for end := s.Train + longest - 1 + fresh; end <= len(s.Values); end += fresh {
		rows := min(end, d.Window()+fresh-1)
		n, ok := d.Size(detectors.View{Dim: 1, Rows: rows, Fresh: fresh})
		if !ok {
			continue // a short training part
		}
		task := detectors.Task{Op: discord.Op, Dim: 1, Fresh: fresh, Params: params,
			X: detectors.Span{Off: x.Off + uint32(end-rows), Len: uint32(rows)}}
		b.GrowOutputs(&task, n)
		b.Tasks, ends = append(b.Tasks, task), append(ends, end)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	best, at := float32(-1), 0
	for i, end := range ends {
		for k, score := range b.Rows(i).Scores {
			if score > best {
				best, at = score, end-fresh+k
			}
		}
	}
	return at
}

// TestDeviceDiscordUCR finds the anomalies of 79 series of the UCR archive online: the middle of the
// rows that the highest score covers must be within the anomaly or within its length, at least 100
// rows, on either side of it. An independent program, a recurrence along diagonals, gives the number to
// find.
func TestDeviceDiscordUCR(t *testing.T) {
	o := deviceOptions(t)
	o.Memory, o.Deadline = 4<<30, time.Minute
	all := readUCR(t)
	e := open(t, o)
	defer e.Close()
	for _, c := range []struct {
		p     discord.Params
		found int // of 79
	}{
		{discord.Params{Window: 20000, Length: 64}, 35},
		{discord.Params{Window: 20000, Length: 100}, 40},
		{discord.Params{Window: 20000, Length: 150}, 47},
		{discord.Params{Window: 20000, Length: 100, MaxLength: 150, Lengths: 2}, 46},
	} {
		t.Run(fmt.Sprintf("%d to %d", c.p.Length, max(c.p.Length, c.p.MaxLength)), func(t *testing.T) {
			longest := max(c.p.Length, c.p.MaxLength)
			c.p.MinPoints = 2 * longest // the training part precedes it
			d, err := discord.New(c.p)
			if err != nil {
				t.Fatal(err)
			}
			began, found, short, missed := time.Now(), 0, 0, []string(nil)
			for k := range all {
				s := &all[k]
				middle := ucrPeak(t, e, d, longest, s) - (longest-1)/2
				if !s.UCRFinds(middle) {
					missed = append(missed, s.Name[:3])
				} else if found++; len(s.Values) <= 100000 {
					short++
				}
			}
			t.Logf("%d of %d found, %d among 100,000 samples or fewer, in %v; missed %v", found, len(all), short,
				time.Since(began).Round(time.Millisecond), missed)
			if len(all) != 79 {
				t.Skipf("%d series, not the 79 that there is a figure of", len(all))
			}
			if found != c.found {
				t.Errorf("%d of %d anomalies are found, want %d", found, len(all), c.found)
			}
		})
	}
}
