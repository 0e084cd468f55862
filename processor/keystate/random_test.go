package keystate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
)

func randomLog(r *rand.Rand, cfg *Config, n int) []Sample {
	names := [][]byte{{}, {0}, {0, 0}, []byte("a"), []byte("ab"), bytes.Repeat([]byte{7}, 300)}
	for range r.IntN(30) {
		name := make([]byte, 1+r.IntN(20))
		for j := range name {
			name[j] = byte(r.Uint32())
		}
		if !slices.ContainsFunc(names, func(o []byte) bool { return bytes.Equal(o, name) }) {
			names = append(names, name)
		}
	}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	names = names[:1+r.IntN(len(names))]
	var (
		log    []Sample
		offset = int64(r.IntN(1000))
		now    = int64(r.IntN(5000)) - 2500
		few    = 1 + r.IntN(len(names))
		jitter = []int{1, 3, 50, 400}[r.IntN(4)]
		nan    = []float64{0, 0.02, 0.3}[r.IntN(3)]
	)
	for range n {
		switch r.IntN(200) {
		case 0:
			now += int64(r.IntN(4000)) // a gap
		case 1:
			few = 1 + r.IntN(len(names)) // other keys are busy
		case 2:
			offset += int64(r.IntN(50)) // dead letters
		}
		now += int64(r.IntN(4))
		name := names[r.IntN(few)]
		if r.IntN(10) == 0 {
			name = names[r.IntN(len(names))]
		}
		s := Sample{Key: name, Time: now - int64(r.IntN(jitter)), Offset: offset}
		for range cfg.Dim {
			v := 1e6 + r.NormFloat64()*10
			if r.Float64() < nan {
				v = math.NaN()
			}
			s.Values = append(s.Values, v)
		}
		log = append(log, s)
		offset += 1 + int64(r.IntN(2)*r.IntN(2))
	}
	return log
}
