package rules

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
)

func TestCovers(t *testing.T) {
	side := func(by float64) func() (a, b, c []float64) {
		return func() (a, b, c []float64) { return []float64{0}, []float64{by}, []float64{1} }
	}
	unknown := func() (a, b, c []float64) { return nil, nil, nil }
	r := MuteRule{Detector: "d", Keys: "pump-*", From: 100, To: 200}
	above := r
	above.Direction = Above
	type judged struct { // a score, or an anomaly from its first sample on
		detector, key string
		about, until  int64
	}
	at := func(about, until int64) judged { return judged{"d", "pump-1", about, until} }
	for _, c := range []struct {
		name      string
		list      MuteList
		score     judged
		explained func() (a, b, c []float64)
		want      bool
	}{
		{"in it", MuteList{r}, at(150, 150), unknown, true},
		{"the first microsecond", MuteList{r}, at(100, 100), unknown, true},
		{"before it", MuteList{r}, at(99, 99), unknown, false},
		{"the last microsecond", MuteList{r}, at(199, 199), unknown, true},
		{"after it", MuteList{r}, at(200, 200), unknown, false},
		{"reaches into it", MuteList{r}, at(50, 100), unknown, true},
		{"reaches back into it", MuteList{r}, at(199, 900), unknown, true},
		{"another detector", MuteList{r}, judged{"e", "pump-1", 150, 150}, unknown, false},
		{"another series", MuteList{r}, judged{"d", "fan-1", 150, 150}, unknown, false},
		{"all", MuteList{{From: 0, To: Forever}}, judged{"e", "", 150, 150}, unknown, true},
		{"the second rule", MuteList{r, {Keys: "fan-?", From: 0, To: Forever}}, judged{"e", "fan-1", 150, 150}, unknown, true},
		{"above", MuteList{above}, at(150, 150), side(1), true},
		{"not above", MuteList{above}, at(150, 150), side(-1), false},
		{"not known", MuteList{above}, at(150, 150), unknown, false},
	} {
		if got := c.list.Covers(c.score.detector, []byte(c.score.key), c.score.about, c.score.until, c.explained); got != c.want {
			t.Errorf("%s: the list mutes %+v: %t, want %t", c.name, c.score, got, c.want)
		}
	}
	if to, ok := (MuteList{r, {From: 0, To: 300}, above}).Silences("d", []byte("pump-1"), 150); !ok || to != 300 {
		t.Errorf("silent until %d, %t", to, ok)
	}
	if _, ok := (MuteList{above}).Silences("d", []byte("pump-1"), 150); ok {
		t.Error("a rule with a direction mutes a silence")
	}
}

func randomList(rng *rand.Rand) (l MuteList) {
	for range rng.IntN(5) {
		from := rng.Int64N(1000)
		l = append(l, MuteRule{Detector: "ab"[:rng.IntN(3)], Keys: "x*y"[:rng.IntN(4)], From: from - 500, To: from + 1 + rng.Int64N(100),
			Direction: Direction(rng.IntN(3))})
	}
	return l
}

func TestEncode(t *testing.T) {
	rng := seedtest.New(t)
	for range 200 {
		l := randomList(rng)
		b := l.Encode()
		got, err := DecodeMutes(b)
		if err != nil || !reflect.DeepEqual(got, l) {
			t.Fatalf("%v %v, want %v", got, err, l)
		}
		for n := 1; n < len(b); n++ {
			if _, err := DecodeMutes(b[:n]); err == nil {
				t.Fatalf("%d of %d bytes are a list", n, len(b))
			}
		}
		if len(b) > 0 {
			b[0]++
			if _, err := DecodeMutes(b); err == nil {
				t.Fatal("a newer format is read")
			}
		}
		other := slices.Clone(append(l, l...))
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		if !slices.Equal(other.Sorted(), l.Sorted()) {
			t.Fatalf("%v and %v sort differently", other, l)
		}
	}
}

func FuzzDecodeMutes(f *testing.F) {
	f.Add(MuteList{{Detector: "d", Keys: "k*", From: 1, To: Forever}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := DecodeMutes(b); err == nil && len(l) > 0 {
			if _, err := DecodeMutes(l.Encode()); err != nil {
				t.Fatal(err)
			}
		}
	})
}
