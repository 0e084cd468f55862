package scan

import "math/bits"

// philox is Philox4x32-10, a random function of a counter and a key (Salmon et al., Parallel
// random numbers: as easy as 1, 2, 3, SC 2011).
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, counter[0])
		h1, l1 := bits.Mul32(0xCD9E8D57, counter[2])
		counter = [4]uint32{h1 ^ counter[1] ^ key[0], l1, h0 ^ counter[3] ^ key[1], l0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return counter
}

// key returns the key of the random numbers of a grid's null maps. The cells count in any order, so that many may do it at once.
func (g *Grid) key(seed uint64) uint64 {
	sum := mix(seed)
	for i, c := range g.Count {
		sum += mix(mix(uint64(i)*0x9e3779b97f4a7c15+uint64(c)) + uint64(g.Baseline[i]))
	}
	return mix(sum)
}

// mix is the last step of SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, OOPSLA 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// random has the random numbers of one replicate. They depend on the key, the replicate and
// the number of the draw alone, not on the order in which they are drawn.
type random struct {
	key       [2]uint32
	replicate uint32
}

func newRandom(key uint64, replicate int) random {
	return random{[2]uint32{uint32(key), uint32(key >> 32)}, uint32(replicate)}
}

// draw returns two numbers, the i-th such pair.
func (r random) draw(i uint64) (x, y uint64) {
	v := philox([4]uint32{uint32(i), uint32(i >> 32), r.replicate, 0}, r.key)
	return uint64(v[1])<<32 | uint64(v[0]), uint64(v[3])<<32 | uint64(v[2])
}
