package vec

import "math"

func dotGo(x, y []float32) float32 {
	var s [4]float32
	for len(x) >= 4 {
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, a := range x {
		s[0] += a * y[i]
	}
	return (s[0] + s[1]) + (s[2] + s[3])
}

func sumGo(x []float32) float64 {
	s := 0.0
	for _, a := range x {
		s += float64(a)
	}
	return s
}

func axpyGo(a float32, x, y []float32) {
	for i, b := range x {
		y[i] += a * b
	}
}

func scaleGo(a float32, x []float32) {
	for i := range x {
		x[i] *= a
	}
}

func centreGo(dst, x []float32, mean float64) (peak float32) {
	for i, a := range x {
		dst[i] = float32(float64(a) - mean)
		peak = max(peak, float32(math.Abs(float64(dst[i]))))
	}
	return peak
}

func narrowGo(dst []float32, x []uint64, center float64) {
	for i, v := range x {
		dst[i] = float32(math.Float64frombits(v) - center)
	}
}

func hankelGo(y, x, v []float32) {
	for i := range y {
		y[i] = dotGo(x[i:i+len(v)], v)
	}
}

func hankel64Go(y, x, v []float64) {
	for i := range y {
		y[i] = 0
		for j, b := range v {
			y[i] += x[i+j] * b
		}
	}
}

func slideGo(dst []float64, low []float32, src, in, out []float64, p, q float64) {
	for i, g := range src {
		g += p*in[i] - q*out[i]
		dst[i], low[i] = g, float32(g)
	}
}

func laneMulGo(y, m []float32, stride int, v []float32) {
	clear(y)
	for b := 0; b*Lanes < len(v); b++ {
		row := (*[Lanes]float32)(v[b*Lanes:])
		for a := 0; a*Lanes < len(y); a++ {
			c := m[b*stride+a]
			to := (*[Lanes]float32)(y[a*Lanes:])
			for l, w := range row {
				to[l] += c * w
			}
		}
	}
}

func laneDotGo(h *[Lanes]float32, x, y []float32) {
	clear(h[:])
	for i, a := range x {
		h[i%Lanes] += a * y[i]
	}
}

func laneAxpyGo(h *[Lanes]float32, x, y []float32) {
	for i, a := range x {
		y[i] += h[i%Lanes] * a
	}
}

func laneScaleGo(dst []float32, h *[Lanes]float32, x []float32) {
	for i, a := range x {
		dst[i] = h[i%Lanes] * a
	}
}

func laneMomentsGo(h, k *[Lanes]float32, s, v []float32) {
	clear(h[:])
	clear(k[:])
	for i, a := range v {
		h[i%Lanes] += s[i/Lanes] * a
		k[i%Lanes] += a
	}
}

func laneShiftGo(y []float32, h, k *[Lanes]float32, s []float32) {
	for i := range y {
		y[i] += h[i%Lanes]*s[i/Lanes] + k[i%Lanes]
	}
}
