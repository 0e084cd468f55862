package series

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
)

// aggregating returns a series of the fields a, b and c whose values are aggregated every 10 microseconds.
func aggregating(zero bool, entries ...string) *Key {
	sets := NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		[]DetectorConfig{{Name: "d", Detector: scorer{window: 3}, Stride: 1}}, 1<<10)
	sets.Prepare(&rules.Reading{Decoding: rules.Decoding{Fields: []string{"a", "b", "c"}},
		Order: rules.Order{Every: 10, Aggregates: entries, EmptyZero: zero}})
	return NewKey([]byte("k"), sets.For([]byte("k")))
}

// TestAggregates: what each aggregate makes of values.
func TestAggregates(t *testing.T) {
	none, inf := math.NaN(), math.Inf(1)
	twenty := make([]float64, 20)
	for i := range twenty {
		twenty[i] = float64((7 * i) % 20) // 0 to 19, in another order
	}
	for _, c := range []struct {
		name   string
		zero   bool
		values []float64
		want   float64
	}{
		{"mean", false, []float64{1, none, 2, 6}, 3}, {"mean", true, nil, none},
		{"sum", false, []float64{1, 2.5, none}, 3.5}, {"sum", false, []float64{none}, none}, {"sum", true, nil, 0},
		{"count", false, []float64{4, none, inf, 4}, 2}, {"count", false, nil, none}, {"count", true, []float64{none}, 0},
		{"min", false, []float64{3, -1, 2}, -1}, {"max", false, []float64{-3, -1, -2}, -1}, {"max", true, nil, none},
		{"last", false, []float64{3, 4, none}, 4},
		{"range", false, []float64{3, -1, 2}, 4}, {"range", false, []float64{3}, 0},
		{"stddev", false, []float64{2, 4, 4, 4, 5, 5, 7, 9}, math.Sqrt(32.0 / 7)}, {"stddev", false, []float64{2}, none}, // a textbook's values
		{"median", false, []float64{9, 1, 5}, 5}, {"median", false, []float64{9, 1, 5, 6}, 5.5},
		{"p95", false, twenty, 18}, {"p95", false, []float64{3}, 3}, {"p95", false, nil, none},
	} {
		k := aggregating(c.zero, c.name)
		k.OpenInterval(20)
		for _, v := range c.values {
			k.Aggregate(0, v)
		}
		k.Interval.Samples = int64(len(c.values))
		if got := k.CloseInterval(nil, false)[0]; fmt.Sprint(got) != fmt.Sprint(c.want) && math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s of %v is %v, want %v", c.name, c.values, got, c.want)
		}
		k.OpenInterval(40)
		if got := k.CloseInterval(nil, false)[0]; c.zero != (got == 0) && (c.name == "sum" || c.name == "count") {
			t.Errorf("%s of an interval after it is %v", c.name, got)
		}
	}
}

// TestManyValues: a median of more values than are kept is of every second, fourth and so on.
func TestManyValues(t *testing.T) {
	r := seedtest.New(t)
	for _, n := range []int{MostValues - 1, MostValues, MostValues + 1, 2*MostValues + 1, 5*MostValues + 3, 8 * MostValues} {
		k, all := aggregating(false, "median"), []float64(nil)
		k.OpenInterval(0)
		bytes := int64(0)
		for range n {
			v := r.Float64()
			all = append(all, v)
			bytes += k.Aggregate(0, v)
		}
		var some []float64
		every := 1
		for (n+every-1)/every > MostValues {
			every *= 2
		}
		for i := 0; i < n; i += every {
			some = append(some, all[i])
		}
		if got := k.Interval.values[0].kept; !slices.Equal(got, some) || len(some) != kept(int64(n)) || bytes != k.Interval.bytes() {
			t.Errorf("%d values: %d are kept in %d bytes, want %d in %d", n, len(got), bytes, len(some), k.Interval.bytes())
		}
		slices.Sort(some)
		want := (some[(len(some)-1)/2] + some[len(some)/2]) / 2
		if got := k.CloseInterval(nil, false)[0]; got != want {
			t.Errorf("the median of %d values is %v, want %v", n, got, want)
		}
	}
}

// TestStartOf compares the starts of intervals with the floor of a quotient, also before the epoch and at the ends of time.
func TestStartOf(t *testing.T) {
	set := &Set{Every: 10}
	for time, want := range map[int64]int64{0: 0, 9: 0, 10: 10, -1: -10, -10: -10, -11: -20, math.MaxInt64: math.MaxInt64 - 7,
		math.MinInt64 + 1: math.MinInt64 + 1} {
		if got := set.StartOf(time); got != want {
			t.Errorf("the interval of %d begins at %d, want %d", time, got, want)
		}
	}
	if a, b := set.EndOf(-20), set.EndOf(math.MaxInt64-7); a != -10 || b != math.MaxInt64 {
		t.Errorf("ends %d and %d", a, b)
	}
}

// TestIntervalSection writes, reads and restores open intervals. What another configuration has not is left out.
func TestIntervalSection(t *testing.T) {
	r := seedtest.New(t)
	entries := []string{"a=mean", "b=median", "c=stddev"}
	k := aggregating(true, entries...)
	if k.Interval.Any() {
		t.Fatal("an interval before the first sample")
	}
	k.OpenInterval(30)
	for range 1 + r.IntN(3000) {
		k.Interval.Samples++
		for c := range 3 {
			k.Aggregate(c, r.NormFloat64())
		}
	}
	k.Interval.Empty = 3
	section := func(k *Key) string {
		var e changelog.Encoder
		Writer{&e}.Interval(&k.Series)
		return string(e.B)
	}
	was := section(k)
	other := aggregating(true, entries...)
	d := Reader{Decoder: changelog.Decoder{B: []byte(was)}}
	if d.Interval(&other.Series); d.Bad || len(d.B) > 0 || section(other) != was {
		t.Fatal("the interval is not read as it was written", d.Bad, len(d.B))
	}
	places := k.AppendPlaces(nil)
	k.CloseInterval(nil, true)
	k.Aggregate(1, 5)
	if k.RestorePlaces(places); section(k) != was {
		t.Error("the interval is not restored")
	}
	some := aggregating(true, "a=mean", "b=p95", "c=max")
	d = Reader{Decoder: changelog.Decoder{B: []byte(was)}}
	if d.Interval(&some.Series); !some.Interval.Any() || some.Interval.values[1].n+some.Interval.values[2].n != 0 {
		t.Error("another aggregate has the values of one before")
	}
	foreign := aggregating(true, entries...)
	foreign.Set.Every = 20
	for _, foreign := range []*Key{aggregating(false, entries...), foreign} {
		d = Reader{Decoder: changelog.Decoder{B: []byte(was)}}
		if d.Interval(&foreign.Series); d.Bad || foreign.Interval.Any() {
			t.Error("the interval of other aggregates is taken")
		}
	}
	for n := range min(len(was), 200) {
		d := Reader{Decoder: changelog.Decoder{B: []byte(was[:n])}}
		if d.Interval(&other.Series); !d.Bad || other.Interval.Any() {
			t.Errorf("the first %d of %d bytes are taken", n, len(was))
		}
	}
	if k.ForgetAll([]uint64{k.Set.Aggregates[0].ID}, false); !k.Interval.Any() || k.Interval.values[0].n > 0 || k.Interval.values[1].n == 0 {
		t.Error("not the first aggregate alone is forgotten")
	}
	if k.ForgetAll(nil, true); k.Interval.Any() {
		t.Error("the interval is not forgotten")
	}
}

// TestAggregatesOfSets: with each field a series of its own, the key decides.
func TestAggregatesOfSets(t *testing.T) {
	sets := NewSets([]WindowConfig{{Columns: []int{0}, Fingerprint: 1}},
		[]DetectorConfig{{Name: "d", Detector: scorer{window: 3}, Stride: 1}}, 1<<10)
	sets.Prepare(&rules.Reading{Decoding: rules.Decoding{Fields: []string{"load", "bytes", "x[2]"}, Series: true},
		Order: rules.Order{Every: 5, Aggregates: []string{"max", "bytes=sum", "x=last"}}})
	for key, want := range map[string]string{"m/bytes": "sum", "m/load": "max", "m/x[1]": "last"} {
		if got := sets.For([]byte(key)).Aggregates; len(got) != 1 || got[0].String() != want {
			t.Errorf("%s: %v, want %s", key, got, want)
		}
	}
	if sets.For([]byte("m/bytes")) != sets.For([]byte("n/bytes")) || sets.For([]byte("m/bytes")) == sets.For([]byte("m/load")) {
		t.Error("sets are shared by other series than one aggregate's")
	}
}
