//go:build linux

package cuda

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/seedtest"
)

// TestDiscordsEmulated scores random shapes on kernels on the CPU, alone and among others:
// windows around the limits of a block's parts, and one that is too long for a block.
func TestDiscordsEmulated(t *testing.T) {
	discordsOn(t, emulated(t), []int{255, 257}, 4, !testing.Short(), 0.22) // four of the six long series
}

// TestDiscordsDevice is TestDiscordsEmulated on a device, with larger tasks.
func TestDiscordsDevice(t *testing.T) {
	discordsOn(t, deviceOptions(t), []int{255, 256, 257, 511, 513, 1000, 2048, 2049, 4095, 4096}, 100, true, 0.03)
}

// discordsOn scores tasks of windows, more small ones, and long series where long says so. A share of
// them may be left to the CPU: long series with jumps, and in float32 series of much noise.
func discordsOn(t *testing.T, o Options, windows []int, more int, long bool, declined float64, others ...*discordsRun) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	var runs []*discordsRun
	for _, n := range windows {
		runs = append(runs, newDiscordsRun(rng, n, 1, 3+rng.IntN(min(40, n/4))))
	}
	for range more {
		runs = append(runs, newDiscordsRun(rng, 10+rng.IntN(140), 1+rng.IntN(2), 3+rng.IntN(3)))
	}
	for range 3 {
		runs = append(runs, newDiscordsSpikes(rng))
	}
	if long { // one length, and with eight or more, lengths between anchors
		for _, p := range []discord.TopParams{{Precision: 64}, {Precision: 32}} {
			runs = append(runs, newDiscordsLong(rng, 4097, 20+rng.IntN(300), 1, p), newDiscordsLong(rng, 4097+rng.IntN(100), 64+rng.IntN(30), 8, p))
		}
		// More discords than exist, and values beyond the range of float32: the profile is in float64.
		runs = append(runs, newDiscordsLong(rng, 4097, 300, 1, discord.TopParams{Precision: 32, Top: 20}))
		huge := newDiscordsLong(rng, 4097, 20+rng.IntN(300), 1, discord.TopParams{Precision: 32})
		for i := range huge.x {
			huge.x[i] *= 0x1p100
			if i >= 1000 && i < 2000 {
				huge.x[i] = 0 // and with flat subsequences, while the others have no known neighbour
			}
		}
		runs = append(runs, huge)
	}
	runs = append(runs, others...)
	if long {
		for _, p := range []discord.TopParams{{Precision: 64}, {Precision: 32}} {
			discordsAgain(t, e, newDiscordsLong(rng, 4200+rng.IntN(300), 20+rng.IntN(100), 1, p))
		}
	}
	var alone []detectors.Result
	for _, r := range runs {
		alone = append(alone, discordsExecute(t, e, true, r)...)
	}
	for i, got := range discordsExecute(t, e, false, runs...) {
		if !slices.Equal(detectors.WordsOf(got.Scores), detectors.WordsOf(alone[i].Scores)) || !slices.Equal(got.Next, alone[i].Next) ||
			!slices.Equal(got.Detail, alone[i].Detail) {
			t.Errorf("%s: the result among others is not the one it has alone", runs[i].name)
		}
	}
	s := e.Stats()
	noFault(t, s)
	byKernels(t, s, declined)
}

// TestDiscordsRangedEmulated scores range discords among tasks of other kernels: with ties, flat parts and missing values, fewer and
// more than the detail has room for, and in windows that are too short for the kernels.
func TestDiscordsRangedEmulated(t *testing.T) { discordsRanged(t, emulated(t), 8, 1) }

// TestDiscordsRangedDevice is TestDiscordsRangedEmulated on a device.
func TestDiscordsRangedDevice(t *testing.T) { discordsRanged(t, deviceOptions(t), 100, 12) }

// discordsRanged scores a number of windows, and of long series, in which more than a few segments may have candidates.
func discordsRanged(t *testing.T, o Options, windows, long int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	left, device := 0, 0
	var runs []*discordsRun
	add := func(n, i int) {
		m := 5 + rng.IntN(min(30, n/2-4)) // no length is above n/2
		r := newDiscordsRun(rng, n, 1, m)
		if i%5 == 4 { // ties
			for k := range r.x {
				r.x[k] = math.Round(r.x[k] / 2)
			}
		}
		p := discord.TopParams{Window: n, MinLength: m, MaxLength: min(n/2, m+rng.IntN(7)), Step: 1 + rng.IntN(3), Top: 1 + rng.IntN(3),
			Exclusion: 1 + 3*rng.IntN(2), ExcludeFlat: rng.IntN(2) == 0, Precision: 32 << rng.IntN(2), Radius: discord.Auto}
		if i%2 == 0 {
			p.Radius = (0.05 + 0.7*rng.Float64()) * math.Sqrt(2*float64(m))
		}
		if i%3 == 1 {
			r.kept = 1 + rng.IntN(40)
		}
		if r.d, r.fresh = detectors.Must(discord.NewTop(p)), 1+rng.IntN(n/2); i%4 == 3 { // not a key's first task
			r.carry = make(detectors.Words, 2*((p.MaxLength-p.MinLength)/p.Step+1))
		}
		// A row more for each fresh one after the first.
		for range r.fresh - 1 {
			r.x = append(r.x, r.x[rng.IntN(n)]+rng.NormFloat64())
		}
		r.name += fmt.Sprintf(", but %+v, %d fresh, room for %d", p, r.fresh, r.kept)
		runs = append(runs, r, newDiscordsRun(rng, 60+rng.IntN(60), 1, 5))
	}
	for i := range windows {
		add(512+rng.IntN(100), i)
		device++
	}
	for i := range long {
		add(4097+rng.IntN(300), 2*i)
		device++
	}
	for i := range 4 {
		add(60+rng.IntN(300), i)
		left++
	}
	discordsExecute(t, e, true, runs...)
	s := e.Stats()
	noFault(t, s)
	if p := placedBy(s); int(p.CPU) < left || int(p.CPU) > left+(device+4)/5 {
		t.Errorf("%d tasks on the device and %d on the CPU: of those with range discords %d are too short and %d are not", p.Device, p.CPU,
			left, device)
	}
}

// TestDiscordsTwinsEmulated requires of two subsequences that are each other's nearest neighbour, and so are equally far, the first.
func TestDiscordsTwinsEmulated(t *testing.T) {
	if os.Getenv("ODRADEK_LONG") != "" {
		discordsTwins(t, emulated(t), 40, 4)
		return
	}
	discordsTwins(t, emulated(t), 16, 2)
}

// TestDiscordsTwinsDevice is TestDiscordsTwinsEmulated on a device.
func TestDiscordsTwinsDevice(t *testing.T) { discordsTwins(t, deviceOptions(t), 400, 40) }

// discordsTwins scores series with an anomaly that occurs twice: windows of a block, and long series of one and of many lengths.
func discordsTwins(t *testing.T, o Options, windows, long int) {
	rng := seedtest.New(t)
	e := open(t, o)
	defer e.Close()
	var runs []*discordsRun
	for range windows {
		runs = append(runs, newDiscordsTwins(rng, 200+rng.IntN(300), 5+rng.IntN(8)))
	}
	for range long {
		runs = append(runs, newDiscordsTwins(rng, 4097+rng.IntN(100), 1), newDiscordsTwins(rng, 4097+rng.IntN(100), 8+rng.IntN(3)))
	}
	results := discordsExecute(t, e, false, runs...)
	twins := 0
	for i, r := range runs {
		p := r.d.Params()
		least, most := p.Int(0), p.Int(1)
		for m := least; m <= most; m++ {
			// The words of a discord: distance, place, neighbour.
			words := results[i].Detail[(m-least)*4:]
			at, near := int(words[2]), int(words[3])
			if first, ok := twinsOf(r.x, m, at, near); ok {
				twins++
				if at != first {
					t.Errorf("%s: the discord of length %d is %d, equally far is %d, its neighbour", r.name, m, at, first)
				}
			}
		}
	}
	if twins < 3 { // of 20 series mostly 8 and more, but the lengths of a series have them together
		t.Errorf("only %d pairs in %d series", twins, len(runs))
	}
	noFault(t, e.Stats())
}

// twinsOf returns the first of two subsequences if each is the nearest of the other.
func twinsOf(x []float64, m, i, j int) (first int, ok bool) {
	normal := func(i int) []float64 {
		z, mean, squares := slices.Clone(x[i:i+m]), 0.0, 0.0
		for _, v := range z {
			mean += v / float64(m)
		}
		for _, v := range z {
			squares += (v - mean) * (v - mean)
		}
		for k, v := range z {
			z[k] = (v - mean) / math.Sqrt(squares)
		}
		return z
	}
	nearest := func(i int) (at int) {
		own, least := normal(i), math.Inf(1)
		for j := range len(x) - m + 1 {
			if j > i-m && j < i+m {
				continue
			}
			square := 0.0
			for k, v := range normal(j) {
				square += (v - own[k]) * (v - own[k])
			}
			if square < least {
				at, least = j, square
			}
		}
		return at
	}
	return min(i, j), nearest(i) == j && nearest(j) == i
}

// newDiscordsTwins is a task on a wave with an anomaly that occurs twice, with noise.
func newDiscordsTwins(rng *rand.Rand, n, lengths int) *discordsRun {
	m := 12 + rng.IntN(16)
	p := discord.TopParams{Window: n, MinLength: m, MaxLength: m + lengths - 1, Top: 1, Precision: 32 << rng.IntN(2)}
	r := &discordsRun{name: fmt.Sprintf("%d rows, %+v", n, p), d: detectors.Must(discord.NewTop(p)), dim: 1, fresh: 1, x: make([]float64, n)}
	scale, turn := math.Pow(10, 20*rng.Float64()-10), 0.3+0.4*rng.Float64()
	for i := range r.x {
		r.x[i] = scale * (math.Sin(turn*float64(i)) + 0.01*rng.NormFloat64())
	}
	wide := m + lengths
	first := rng.IntN(n/2 - wide)
	for _, at := range []int{first, n/2 + rng.IntN(n/2-wide)} {
		for k := range wide {
			r.x[at+k] = scale * (float64(k*k%7) + 0.3*rng.NormFloat64())
		}
	}
	return r
}

// discordsRun is a task.
type discordsRun struct {
	name       string
	d          detectors.Detector
	dim, fresh int
	x          []float64
	carry      detectors.Words
	kept       int // range discords of a length for which there is room; 0: as many as the detector takes
}

// newDiscordsRun is a task on n rows with subsequences of length m and more.
func newDiscordsRun(rng *rand.Rand, n, dim, m int) *discordsRun {
	p := discord.TopParams{Window: n, MinLength: m, MaxLength: min(n/2, m+rng.IntN(4)), Step: 1 + rng.IntN(2), Top: 1 + rng.IntN(4),
		Exclusion: 1 + rng.IntN(4)*rng.IntN(2), ExcludeFlat: rng.IntN(2) == 0, Tumbling: rng.IntN(3) == 0, Precision: 32 << rng.IntN(2)}
	if n < 100 {
		p.K = 1 + rng.IntN(2)
	}
	d, err := discord.NewTop(p)
	if err != nil {
		panic(err)
	}
	r := &discordsRun{d: d, dim: dim, fresh: 1 + rng.IntN(n), x: make([]float64, n*dim)}
	if p.Tumbling {
		r.fresh = n
	}
	turn, noise, level := 0.05+0.5*rng.Float64(), []float64{0.01, 0.3, 3}[rng.IntN(3)], 0.0
	walks, missing, still := float64(rng.IntN(2)), rng.IntN(4) == 0, rng.IntN(4) == 0
	for i := range r.x {
		level += walks * rng.NormFloat64()
		r.x[i] = math.Sin(turn*float64(i/dim)) + noise*rng.NormFloat64() + level
		if missing && rng.IntN(n) == 0 {
			r.x[i] = math.NaN()
		}
		if still && i >= n/2 && i < n/2+4*m && i > 0 {
			r.x[i] = r.x[i-1]
		}
	}
	r.name = fmt.Sprintf("%d rows of %d, %+v, noise %v, walks %v, missing %v, still %v", n, dim, p, noise, walks, missing, still)
	return r
}

// newDiscordsSpikes is a task on noise far from 0, with spikes in pairs: of the first value, the middle
// and the last of some subsequences two are spikes.
func newDiscordsSpikes(rng *rand.Rand) *discordsRun {
	m := 4 + rng.IntN(20)
	r := newDiscordsRun(rng, 100+rng.IntN(140), 1, m)
	n := len(r.x)
	p := discord.TopParams{Window: n, MinLength: m, MaxLength: m, Step: 1, Top: 4, ExcludeFlat: true, Precision: 64}
	d, err := discord.NewTop(p)
	if err != nil {
		panic(err)
	}
	r.d, r.fresh = d, 1
	for i := range r.x {
		r.x[i] = 1.6e7 + 0.1*rng.NormFloat64()
	}
	for range 3 {
		at := 8 * rng.IntN((n-m)/8)
		for _, i := range []int{at + m/2, at + m - 1} {
			r.x[i] = -1e9 * (1 + rng.Float64())
		}
	}
	r.name = fmt.Sprintf("spikes, %d rows, %+v", n, p)
	return r
}

// newDiscordsLong is a task on a series that is too long for a block, of count lengths from m on, with
// the precision of p and its number of discords, if it has one.
func newDiscordsLong(rng *rand.Rand, n, m, count int, p discord.TopParams) *discordsRun {
	r := newDiscordsRun(rng, n, 1, m)
	p.Window, p.MinLength, p.MaxLength, p.Exclusion, p.ExcludeFlat = n, m, m+count-1, 1+3*rng.IntN(2), rng.IntN(2) == 0
	if p.Top == 0 {
		p.Top = 1 + rng.IntN(3)
	}
	d, err := discord.NewTop(p)
	if err != nil {
		panic(err)
	}
	r.d, r.fresh = d, 1
	r.name += fmt.Sprintf(", but %+v", p)
	return r
}

// discordsAgain compares a run with a radius, the distance of the last discord or another one, with one
// without.
func discordsAgain(t *testing.T, e *Executor, r *discordsRun) {
	t.Helper()
	want := discordsExecute(t, e, true, r)[0]
	distance := want.Next.Float64(0)
	for _, radius := range []float64{1, 0.5, 1.2} {
		again := *r
		again.name += fmt.Sprintf(", %v times the radius", radius)
		again.carry = make(detectors.Words, len(want.Next))
		again.carry.SetFloat64(0, radius*distance)
		if got := discordsExecute(t, e, false, &again)[0]; !slices.Equal(got.Detail, want.Detail) {
			t.Errorf("%s: the discords are %v, without a radius %v", again.name, got.Detail, want.Detail)
		}
	}
}

// discordsExecute executes the runs as one batch, and with compare compares them with the definition.
func discordsExecute(t *testing.T, e *Executor, compare bool, runs ...*discordsRun) (results []detectors.Result) {
	t.Helper()
	b := e.Batch()
	defer e.Release(b)
	for _, r := range runs {
		task := detectors.Task{Op: discord.OpTop, Dim: uint32(r.dim), Fresh: uint32(r.fresh), Params: b.Put(r.d.Params())}
		span, x := b.GrowF64(len(r.x))
		copy(x, r.x)
		task.X = span
		if r.carry != nil {
			task.Carry = b.Put(r.carry)
		}
		size, ok := r.d.Size(detectors.View{Dim: r.dim, Rows: len(r.x) / r.dim, Fresh: r.fresh})
		if !ok {
			// More fresh rows than the window leaves: as many as it does.
			task.Fresh = 1
			size, _ = r.d.Size(detectors.View{Dim: r.dim, Rows: len(r.x) / r.dim, Fresh: 1})
		}
		if r.kept > 0 {
			size.Detail = 2 * size.Carry * (1 + r.kept) // four words each where the carry has two a length
		}
		b.GrowOutputs(&task, size)
		b.Tasks = append(b.Tasks, task)
	}
	if err := e.Execute(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		rows := b.Rows(i)
		got := detectors.Result{Scores: slices.Clone(rows.Scores), Next: slices.Clone(rows.Next), Detail: slices.Clone(rows.Detail)}
		results = append(results, got)
		if !compare {
			continue
		}
		want := detectors.Result{
			Scores: make([]float32, len(got.Scores)), Next: make(detectors.Words, len(got.Next)), Detail: make(detectors.Words, len(got.Detail)),
		}
		rows.Scores, rows.Next, rows.Detail = want.Scores, want.Next, want.Detail
		if len(r.x) <= 4096 {
			discord.OpTop.Spec().Score(rows)
		} else { // the definition would take minutes; the conformance suite covers this case
			discord.OpTop.Spec().CPU(context.Background(), &rows, detectors.Sequential)
		}
		if err := discord.OpTop.Spec().Compare(&rows, got, want); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	return results
}
