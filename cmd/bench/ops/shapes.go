package ops

import (
	"fmt"
	"math/rand/v2"

	"odradek/cuda/plan"
	"odradek/detectors"
	"odradek/detectors/discord"
	"odradek/detectors/ops"
	"odradek/detectors/scan"
)

// shape is a shape of an op with the options of its measurement: one row of ops, or two.
type shape struct {
	op        detectors.Op
	name      string
	unit      string
	det       func() (detectors.Detector, error)
	dim       int
	fresh     int
	chain     int         // consecutive tasks of a key in a batch; 0 for 1
	apart     bool        // consecutive tasks do not share their common rows
	long      bool        // a CPU takes minutes
	first     bool        // tasks have no carry, as a new key's tasks have none
	asked     bool        // measured only where -shapes names it
	recording string      // the file of a recorded series
	tables    string      // the folder of the tables
	fewest    float64     // least count of a cell
	series    string      // what the values are: see wave and place; "" for two sines with noise, of several a row normal ones
	tasks     int         // of all batches together
	kernel    float64     // target of the launches alone; 0: none
	whole     float64     // target of Execute; 0: none
	floor     func() work // the least known work of a task
}

// target is the required rate of a row; 0 for none.
type target struct{ kernel, whole float64 }

// targets has the target rates of shapes, by name.
var targets = map[string]target{
	"ikasst w=100, 16 fresh":                                      {120e6, 80e6},
	"ikasst w=100, 1 fresh":                                       {0, 12e6},
	"ikasst w=100, 1 fresh, 16 tasks a key":                       {0, 60e6},
	"ikasst w=320, 16 fresh":                                      {12e6, 8e6},
	"svdsst w=320 r=12, 16 fresh":                                 {0.8e6, 0.6e6},
	"lof N=1024 d=8 k=20":                                         {340e6, 250e6},
	"lof N=4096 d=8 k=20":                                         {100e6, 0},
	"lof N=1024 d=8 k=20, stride 1":                               {0, 250e3},
	"lof N=1024 d=1 k=20":                                         {5e9, 2e9},
	"lof N=1024 d=1 k=20, recording":                              {5e9, 2e9},
	"lof N=1024 d=1 k=20, stride 1, 16 tasks a key":               {0, 20e6},
	"lof N=1024 d=1 k=20, stride 1, 16 tasks a key, recording":    {0, 20e6},
	"knn N=1024 d=8 k=20":                                         {340e6, 250e6},
	"knn N=1024 d=1 k=20":                                         {5e9, 2e9},
	"knn N=1024 d=1 k=20, recording":                              {5e9, 2e9},
	"knn N=1024 d=1 k=20, stride 1, 16 tasks a key":               {0, 20e6},
	"knn N=1024 d=1 k=20, stride 1, 16 tasks a key, recording":    {0, 20e6},
	"knn N=1000000 d=2 k=50":                                      {1_000_000 / 0.0025, 1_000_000 / 0.005},
	"knn N=1000000 d=2 k=50, 100 blobs":                           {1_000_000 / 0.0025, 0},
	"knn N=1000000 d=2 k=50, 100 far outliers":                    {1_000_000 / 0.005, 0},
	"knn N=1600000 d=3 k=50":                                      {1_600_000 / 0.012, 0},
	"knn N=581012 d=10 k=50":                                      {581_012 / 0.12, 0},
	"knn N=16384 d=8 k=20":                                        {60e6, 0},
	"lof N=100000 d=16 k=20":                                      {0, 100_000 / 0.02},
	"topn N=1000000 d=2 k=10, top 10":                             {1_000_000 / 0.002, 0},
	"topn N=1000000 d=2 k=50, top 10":                             {1_000_000 / 0.002, 0},
	"topn N=286048 d=10 k=10, top 10, cover":                      {286_048 / 0.02, 0},
	"topn N=286048 d=10 k=50, top 10, cover":                      {286_048 / 0.02, 0},
	"topn N=567498 d=3 k=10, top 10, http":                        {567_498 / 0.01, 0},
	"topn N=567498 d=3 k=50, top 10, http":                        {567_498 / 0.01, 0},
	"discord window=2048 m=64, 1 fresh":                           {0, 1.5e6},
	"discord window=2048 m=64, 1 fresh, 16 tasks a key":           {0, 3e6},
	"discord window=2048 m=64, 16 fresh":                          {0, 10e6},
	"ar order=32, 1 fresh":                                        {500e6, 20e6},
	"discords N=1000000 m=512 to 512":                             {1_000_000 / 0.22, 0},
	"discords N=1000000 m=512 to 512, with a radius":              {1_000_000 / 0.015, 0},
	"discords N=1000000 m=512 to 512, random walk, with a radius": {1_000_000 / 0.015, 0},
	"discords N=1000000 m=512 to 512, float32":                    {1_000_000 / 0.14, 0},
	"discords N=10000000 m=512 to 512":                            {10_000_000.0 / 23, 0},
	"discords N=100000 m=512 to 512":                              {100_000 / 0.004, 0},
	"discords N=35040 m=48 to 672":                                {35_040 / 0.06, 0},
	"discords N=35040 m=48 to 672, recording":                     {35_040 / 0.06, 0},
	"discords N=2048 m=64 to 79 by 1":                             {60e3, 0},
	"discords N=2048 m=64 to 79 by 1, random walk":                {60e3, 0},
	"discords N=2048 m=64 to 79 by 1, noise":                      {60e3, 0},
	"discords N=2048 m=64 to 184 by 8":                            {60e3, 0},
	"scan n=128":                                                  {1 / 0.025e-3, 0},
	"scan n=128, one map":                                         {1 / 0.08e-3, 0},
	"scan n=128, 999 replicates, one map":                         {1 / 25e-3, 0},
	"scan n=128, 999 replicates, one map, cluster":                {1 / 60e-3, 0},
	"scan n=128, 999 replicates, one map, zero baselines":         {1 / 60e-3, 0},
	"scan n=256, one map":                                         {1 / 0.45e-3, 0},
	"scan n=512, one map":                                         {1 / 3.5e-3, 0},
	"scan n=1024, up to 128 x 128, one map":                       {1 / 6e-3, 0},
}

// variant is a way to measure a shape.
type variant struct {
	series string // see shape
	radius bool   // with a radius in the carry, from a task of the same series
	apart  bool   // see shape
	asked  bool   // see shape
}

// variants has the shapes with further variants.
var variants = map[string][]variant{
	"ikasst w=100, 1 fresh, 16 tasks a key":         {{}, {apart: true}},
	"lof N=1024 d=1 k=20":                           {{}, {series: recorded}},
	"lof N=1024 d=1 k=20, stride 1, 16 tasks a key": {{}, {series: recorded}},
	"knn N=1024 d=1 k=20":                           {{}, {series: recorded}},
	"knn N=1024 d=1 k=20, stride 1, 16 tasks a key": {{}, {series: recorded}},
	"knn N=1000000 d=2 k=50":                        {{}, {series: blobs}, {series: outliers}},
	"topn N=1000000 d=2 k=50, top 10":               {{}, {series: blobs}, {series: outliers}},
	"topn N=286048 d=10 k=10, top 10":               {{}, {series: cover}},
	"topn N=286048 d=10 k=50, top 10":               {{}, {series: cover}},
	"topn N=567498 d=3 k=10, top 10":                {{}, {series: http}},
	"topn N=567498 d=3 k=50, top 10":                {{}, {series: http}},
	"discords N=1000000 m=512 to 512":               {{}, {radius: true}, {series: walks, radius: true}},
	"discords N=10000000 m=512 to 512":              {{asked: true}},
	"discords N=100000 m=512 to 512":                {{}, {radius: true}},
	"discords N=35040 m=48 to 672":                  {{}, {series: recorded}, {series: walks}, {series: noise}},
	"discords N=2048 m=64 to 79 by 1":               {{}, {series: walks}, {series: noise}},
	"scan n=128, 999 replicates, one map":           {{}, {series: cluster}, {series: zeros}},
}

// apply returns the variant of a shape.
func (v variant) apply(s shape) shape {
	if v.series != "" {
		s.series = v.series
		s.name += ", " + v.series
	}
	if v.radius {
		s.first = false
		s.name += ", with a radius"
	}
	if v.apart {
		s.apart = true
		s.name += " with rows of their own"
		s.tasks /= 2 // they fill the largest input arena
	}
	s.asked = v.asked
	return s
}

// allShapes returns the shapes of all ops with a kernel, in all their variants.
func allShapes() []shape {
	var shapes []shape
	for _, op := range detectors.Ops() {
		if !plan.Has(op) {
			continue
		}
		own := ops.Shapes(op)
		if own == nil {
			shapes = append(shapes, caseShapes(op)...)
		}
		for _, shape := range own {
			s := newShape(op, &shape)
			ways := variants[s.name]
			if ways == nil {
				ways = []variant{{}}
			}
			for _, v := range ways {
				s := v.apply(s)
				s.kernel, s.whole = targets[s.name].kernel, targets[s.name].whole
				shapes = append(shapes, s)
			}
		}
	}
	return shapes
}

func newShape(op detectors.Op, s *detectors.Shape) shape {
	profile := op == discord.OpTop && s.Fresh > 1 // of one long series
	nulls, fewest := op == scan.Op && s.Values.Int("REPLICATES") > 0, 0.0
	if op == scan.Op && s.Values["MODEL"] == scan.Models[scan.ModelExponential] {
		fewest = 1 // a sum of times is above 0
	}
	return shape{
		fewest: fewest,
		op:     op, name: fmt.Sprintf("%v %s", op, s.Name), unit: s.Unit, dim: s.Dim, fresh: s.Fresh, chain: s.Chain, tasks: s.Tasks,
		long: profile || nulls, first: profile,
		det: func() (detectors.Detector, error) {
			if s.Reference > 0 {
				return op.Spec().BuildReferred(s.Values, s.Dim, referenceRows((s.Reference+s.Values.Int("EMBED")-1)*s.Dim, s.Dim))
			}
			return op.Spec().Build(s.Values, s.Dim)
		},
		floor: func() work {
			if floor := floors[op]; floor != nil {
				return floor(s)
			}
			return work{by: "its input"}
		},
	}
}

// referenceRows returns the n values of a reference set's rows, of the kind that windows have, but others.
func referenceRows(n, dim int) []float64 {
	rng := rand.New(rand.NewPCG(7, 8))
	x := make([]float64, n)
	for i := range x {
		if x[i] = rng.NormFloat64(); dim == 1 {
			x[i] = (&shape{}).wave(x, i, 0)
		}
	}
	return x
}

// caseShapes returns the op's cases with Case.Bench: the last task of each, as many times as
// have a million rows to score, without a target.
func caseShapes(op detectors.Op) []shape {
	var shapes []shape
	for _, c := range op.Spec().Cases(rand.New(rand.NewPCG(7, 8))) {
		if !c.Bench {
			continue
		}
		fresh := c.Fresh[len(c.Fresh)-1]
		rows := c.Detector.Window() + fresh - 1
		shapes = append(shapes, shape{
			op: op, name: fmt.Sprintf("%v %s", op, c.Name), unit: "scores/s", dim: c.Dim, fresh: fresh,
			tasks: max(1, min(1<<16, 1<<28/(rows*c.Dim*(fresh+16)))),
			det:   func() (detectors.Detector, error) { return c.Detector, nil },
			floor: func() work { return work{by: "its input"} },
		})
	}
	return shapes
}

// shapeNamed returns the shape of a name without its targets. It panics if there is none.
func shapeNamed(name string) shape {
	for _, s := range allShapes() {
		if s.name == name {
			s.kernel, s.whole = 0, 0
			return s
		}
	}
	panic("ops: no shape is named " + name)
}

// latencyShape is IKA-SST of every sample.
const latencyShape = "ikasst w=100, 1 fresh"
