package child

import (
	"math/rand/v2"
	"testing"
)

// TestModels requires that models in use do not overlap and do not move, that a present model is not
// brought again, and that the model unused for longest is evicted.
func TestModels(t *testing.T) {
	m := &Models{bytes: 1024}
	sum := func(n int) (s [32]byte) { s[0] = byte(n); return s }
	use := func(n, bytes, at int, upload, ok bool) {
		t.Helper()
		if a, u, o := m.Use(sum(n), bytes); a != at || u != upload || o != ok {
			t.Fatalf("model %d is at %d, upload %v, %v; want %d, %v, %v", n, a, u, o, at, upload, ok)
		}
	}
	done := func(there bool, ns ...int) {
		for _, n := range ns {
			m.Done([][32]byte{sum(n)}, there)
		}
	}
	use(1, 300, 0, true, true)
	use(1, 300, 0, true, true) // not there yet
	use(2, 256, 512, true, true)
	use(3, 257, 0, false, false)
	use(4, 200, 768, true, true)
	done(true, 1, 1, 2, 4)
	use(2, 256, 512, false, true)
	use(4, 200, 768, false, true)
	use(3, 257, 0, true, true) // in the place of 1
	use(5, 1, 0, false, false)
	done(false, 3) // it never reached the device
	done(true, 2, 4)
	use(5, 1, 0, true, true)
}

// TestModelsRandom requires the same with random models.
func TestModelsRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const room = 40
	m := &Models{bytes: room * modelAlign}
	var where [room]int // number of the model that lies there, on the device
	type use struct{ n, at, units int }
	var uses []use
	hits := 0
	for range 20000 {
		if len(uses) > 0 && rng.IntN(2) == 0 {
			k := rng.IntN(len(uses))
			u := uses[k]
			uses[k] = uses[len(uses)-1]
			uses = uses[:len(uses)-1]
			for i := range u.units {
				if where[u.at+i] != u.n {
					t.Fatalf("model %d lies under model %d", u.n, where[u.at+i])
				}
			}
			m.Done([][32]byte{{byte(u.n)}}, true)
			continue
		}
		n := 1 + rng.IntN(30)
		units := 1 + n%7
		at, upload, ok := m.Use([32]byte{byte(n)}, units*modelAlign-rng.IntN(modelAlign))
		if !ok {
			continue
		}
		at /= modelAlign
		for i := range units {
			if upload {
				where[at+i] = n
			} else if where[at+i] != n {
				t.Fatalf("model %d is to be at %d, where model %d is", n, at, where[at+i])
			}
		}
		if !upload {
			hits++
		}
		uses = append(uses, use{n, at, units})
	}
	if hits < 1000 {
		t.Errorf("%d models were there", hits)
	}
}
