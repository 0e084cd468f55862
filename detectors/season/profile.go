package season

import "math"

// candidate is a period that a series may have.
type candidate struct {
	name    string
	seconds float64 // 0: counted in samples
	bins    int     // at most
	cost    float64 // factor of its mean difference when periods are compared
}

const (
	candidateHour = iota
	candidateThird
	candidateDay
	candidateWorking
	candidateWeek
	candidateFound
)

var candidates = [...]candidate{
	candidateHour:    {"hour", 3600, 60, 1},
	candidateThird:   {"8 hours", 8 * 3600, 32, 1},
	candidateDay:     {"day", day, 96, 1},
	candidateWorking: {"working day and weekend", 2 * day, 192, 1.06},
	candidateWeek:    {"week", week, 168, 1.1},
	candidateFound:   {"found", 0, 128, 1},
}

// profile is a candidate's profile: what is usual by the time within the period.
type profile struct {
	words   []uint32 // the bins
	used    float64  // bins; 0: the period is too short for the sampling interval
	samples float64  // of a bin and period
	length  float64  // of a period that is found, in samples
	start   float64  // of a period that is found: the number of the sample that one begins at

	own, none, compared float64 // mean differences from the profile and from the slow level; samples
	share               float64 // of the time that has recurring jobs

	// The bin of the last sample.
	current, sum, count float64
	high, low           [3]float64 // of it and of the two before
	complete            float64    // bins in a row that have ended
}

func (p *profile) each(f func(*float64)) {
	for _, n := range [...]*float64{&p.used, &p.samples, &p.length, &p.start, &p.own, &p.none, &p.compared, &p.share,
		&p.current, &p.sum, &p.count,
		&p.high[0], &p.high[1], &p.high[2], &p.low[0], &p.low[1], &p.low[2], &p.complete} {
		f(n)
	}
}

// bin is what is usual in a part of a period.
type bin struct {
	level, dev         float64 // of samples: mean, and mean absolute difference
	mean, meanDev      float64 // of the means of the bin
	size               float64 // mean size of innovations
	high, highDev      float64 // of the largest of three bins
	low, lowDev        float64 // of the smallest
	n                  float64 // samples
	sizes              float64 // innovations, up to mostSizes
	means, extremes    float64 // up to 15
	hot, gross, period uint32  // marks of four periods, the newest in bit 0; the low bits of the last period
}

const (
	mostSizes     = 255
	most4         = 15
	periodNumbers = 256
)

// The words of a bin: numbers as float32s, levels relative to the series' origin, and the rest in the bits of the last word.
const (
	binLevel = iota
	binDev
	binMean
	binMeanDev
	binSize
	binHigh
	binHighDev
	binLow
	binLowDev
	binN
	binBits
	profileWords
)

// at returns the words of the i-th bin, counted round.
func (p *profile) at(i int) *[profileWords]uint32 {
	if used := int(p.used); uint(i) >= uint(used) {
		i = (i + used) % used
	}
	return (*[profileWords]uint32)(p.words[profileWords*i:])
}

func float32Of(w uint32) float64 { return float64(math.Float32frombits(w)) }

// bin returns the i-th bin.
func (p *profile) bin(i int) (b bin) {
	w := p.at(i)
	b.level, b.dev, b.mean, b.meanDev = float32Of(w[binLevel]), float32Of(w[binDev]), float32Of(w[binMean]), float32Of(w[binMeanDev])
	b.size, b.high, b.highDev = float32Of(w[binSize]), float32Of(w[binHigh]), float32Of(w[binHighDev])
	b.low, b.lowDev, b.n = float32Of(w[binLow]), float32Of(w[binLowDev]), float32Of(w[binN])
	m := w[binBits]
	b.means, b.extremes, b.hot, b.gross = float64(m&15), float64(m>>4&15), m>>8&15, m>>12&15
	b.sizes, b.period = float64(m>>16&255), m>>24
	return b
}

// put writes the i-th bin.
func (p *profile) put(i int, b *bin) {
	w := p.at(i)
	put := func(k int, v float64) { w[k] = math.Float32bits(float32(v)) }
	put(binLevel, b.level)
	put(binDev, b.dev)
	put(binMean, b.mean)
	put(binMeanDev, b.meanDev)
	put(binSize, b.size)
	put(binHigh, b.high)
	put(binHighDev, b.highDev)
	put(binLow, b.low)
	put(binLowDev, b.lowDev)
	put(binN, b.n)
	w[binBits] = uint32(min(b.means, most4)) | uint32(min(b.extremes, most4))<<4 | b.hot&15<<8 | b.gross&15<<12 |
		uint32(b.sizes)<<16 | b.period%periodNumbers<<24
}

// place is where a sample is in a profile.
type place struct {
	pos        float64 // in bins
	period     uint32  // number of the period
	known      bool    // the profile has a level there
	level, dev float64
	i, j       int // the bins that the level is between, and the weight of the second
	w          float64
	bin        int // the nearer
}

// setUp starts the profiles once the sampling interval is known.
func (s *bandState) setUp() {
	for k := range s.profiles {
		c, p := &candidates[k], &s.profiles[k]
		samples := c.seconds / s.interval
		least := 6.0
		if k == candidateWorking {
			least = 12
		}
		if samples < least {
			continue
		}
		p.used = min(float64(c.bins), math.Round(samples))
		p.samples = samples / p.used
	}
}

// find sets where a sample is in the profile of a candidate.
func (p *profile) find(q *place, k int, clock *Clock, micros int64, number float64) {
	if k == candidateFound {
		passed := (number - p.start) / p.length
		whole := math.Floor(passed)
		q.pos, q.period = (passed-whole)*p.used, uint32(whole)
	} else {
		local := clock.local(micros)
		date := floor(local, day*1_000_000)
		second := float64(local-date*day*1_000_000) / 1e6
		q.period = uint32(date)
		switch k {
		case candidateHour, candidateThird:
			passed := second / candidates[k].seconds
			whole := math.Floor(passed)
			q.pos, q.period = (passed-whole)*p.used, uint32(date)*uint32(day/candidates[k].seconds)+uint32(whole)
		case candidateDay:
			q.pos = second / day * p.used
		case candidateWorking:
			q.pos = second / day * p.used / 2
			if d := clock.weekday(date); d == 0 || d == 6 {
				q.pos += p.used / 2
			}
		case candidateWeek:
			q.pos = (float64(clock.weekday(date))*day + second) / week * p.used
		}
	}
	q.period %= periodNumbers
	p.interpolate(q)
}

// interpolate sets the level and the deviation at a place.
func (p *profile) interpolate(q *place) {
	at := q.pos
	if p.samples > 1.5 {
		at -= .5
	}
	whole := math.Floor(at)
	used := int(p.used)
	if q.i = int(whole); uint(q.i) >= uint(used) {
		q.i = (q.i + used) % used
	}
	if q.j = q.i + 1; q.j == used {
		q.j = 0
	}
	if p.samples > 1.5 {
		q.w = at - whole
	}
	q.bin = q.i
	if q.w > .5 {
		q.bin = q.j
	}
	first, second, own := p.at(q.i), p.at(q.j), p.at(q.bin)
	if n := float32Of(own[binN]); n == 0 || n < .9*p.samples {
		return
	}
	q.known = true
	a, b := float32Of(first[binLevel]), float32Of(second[binLevel])
	switch {
	case float32Of(first[binN]) == 0:
		a = b
	case float32Of(second[binN]) == 0:
		b = a
	}
	q.level = a*(1-q.w) + b*q.w
	q.dev = smooth(float32Of(p.at(q.bin - 1)[binDev]), float32Of(own[binDev]), float32Of(p.at(q.bin + 1)[binDev]))
}

// choose finds the sample in all profiles, and the period in use.
func (b *Band) choose(s *bandState, d *sample, micros int64) {
	unit := max(s.levelDev, d.floor)
	best, least := -1, 1.0
	for k := range s.profiles {
		p, q := &s.profiles[k], &d.at[k]
		if p.used == 0 {
			continue
		}
		p.find(q, k, &b.Clock, micros, s.place)
		if q.known {
			off, none := min(math.Abs(d.x-q.level-s.anchorOf(k)), 5*unit), min(math.Abs(d.offLevel), 5*unit)
			p.compared++
			if p.compared == 1 {
				p.own, p.none = off, none
			} else {
				g := d.gain / min(p.compared, s.memory())
				p.own += g * (off - p.own)
				p.none += g * (none - p.none)
			}
		}
		if p.compared > max(48, .25*p.samples*p.used) && p.none > 0 {
			cost := candidates[k].cost
			if k != int(s.period)-1 {
				cost += .03
			}
			if v := p.own / p.none * cost; v < .8 && v < least {
				best, least = k, v
			}
		}
	}
	if best >= 0 && !d.at[best].known {
		best = int(s.period) - 1
		if best >= 0 && !d.at[best].known {
			best = -1
		}
	}
	if best != int(s.period)-1 && s.alarm == 0 {
		s.period = float64(best + 1)
		s.anchor, s.weight, s.sx, s.sy, s.sxx, s.sxy = 0, 0, 0, 0, 0, 0
		s.forget()
		s.phi, s.haveU = 0, 0
	}
	s.since++
}

// anchorOf returns how far the k-th profile is moved.
func (s *bandState) anchorOf(k int) float64 {
	if k == int(s.period)-1 {
		return s.anchor
	}
	return 0
}

// learnProfile learns a sample at its place in a profile.
func (s *bandState) learnProfile(d *sample, k int, p *profile, gain float64, gross bool) {
	q := &d.at[k]
	own := p.bin(q.bin)
	off := d.x - s.anchorOf(k)
	if !q.known {
		own.n++
		own.level += (off - own.level) / own.n
		own.period = q.period
		p.put(q.bin, &own)
		return
	}
	off -= q.level
	dev := max(q.dev, d.floor*.8)
	if own.period != q.period {
		own.hot <<= 1
		own.gross <<= 1
		own.period = q.period
	}
	own.n++
	if gross {
		own.gross |= 1
	}
	if dev > 0 && math.Abs(off) > 5*sigma*dev {
		own.hot |= 1
	}
	memory := max(periods, 4096/(p.samples*p.used)) * max(1, p.samples)
	g, learnt := 1/min(own.n, memory), off
	recurs := hot(own.hot)
	if recurs {
		g = max(g, .5/max(1, p.samples))
	} else {
		if own.n > 2*p.samples+1 && dev > 0 {
			learnt = clamp(off, 4*sigma*dev)
		}
		g *= gain
	}
	if q.w == 0 {
		own.level += g * learnt
	} else {
		near := max(q.w, 1-q.w)
		both := near*near + (1-near)*(1-near)
		own.level += g * learnt * near / both
		beside := q.i
		if q.bin == q.i {
			beside = q.j
		}
		if o := p.bin(beside); o.n > 0 {
			o.level += g * learnt * (1 - near) / both
			p.put(beside, &o)
		}
	}
	if n := own.n - p.samples; n > 0 {
		g := 1 / min(n+2*p.samples, memory)
		if recurs {
			g = max(g, .5/max(1, p.samples))
		} else {
			g *= gain
		}
		if own.dev == 0 {
			own.dev = s.levelDev
			if p.compared > 8 && p.own > 0 {
				own.dev = p.own
			}
		}
		own.dev += g * (math.Abs(learnt) - own.dev)
	}
	p.put(q.bin, &own)
}

// recurs reports whether a bin, or one beside it, had gross differences in two of the last three periods, with its level and
// mean difference.
func (p *profile) recurs(at int, period uint32) (yes bool, dev, level float64) {
	for i := at - 1; i <= at+1; i++ {
		b := p.bin(i)
		marks := b.gross
		if b.period == period {
			marks >>= 1
		}
		if hot(marks) && b.dev > dev {
			yes, dev, level = true, b.dev, b.level
		}
	}
	return yes, dev, level
}

// small reports whether a sample is of a job, while jobs take a small share of the time.
func (p *profile) small(job bool, memory float64) bool {
	v := 0.0
	if job {
		v = 1
	}
	p.share += (v - p.share) / memory
	return job && p.share < .15
}

// ended compares a bin that has ended with its earlier periods, and begins the next.
func (s *bandState) ended(d *sample, k int, p *profile) {
	at := int(d.at[k].pos)
	if at != int(p.current) || d.gap {
		if p.current >= 0 {
			if p.count >= .7*p.samples {
				s.endedMean(d, k, p)
			}
			p.complete++
		}
		if d.gap || at != (int(p.current)+1)%int(p.used) {
			p.complete = 0
		}
		if p.current >= 0 && p.complete >= 3 {
			s.endedExtremes(d, k, p)
		}
		p.high[2], p.high[1], p.high[0] = p.high[1], p.high[0], d.x
		p.low[2], p.low[1], p.low[0] = p.low[1], p.low[0], d.x
		p.current, p.sum, p.count = float64(at), 0, 0
	}
	p.high[0], p.low[0] = max(p.high[0], d.x), min(p.low[0], d.x)
	p.sum += d.x
	p.count++
}

// smooth is a deviation of a bin that allows for those beside it.
func smooth(before, own, after float64) float64 {
	return max(own, (2*own+before+after)/4, .5*before, .5*after)
}

// endedMean compares the mean of a bin that has ended with its means in earlier periods, and learns it.
func (s *bandState) endedMean(d *sample, k int, p *profile) {
	at := int(p.current)
	b, before, after := p.bin(at), p.bin(at-1), p.bin(at+1)
	mean := p.sum/p.count - s.anchorOf(k)
	if b.means < 1 {
		b.mean = mean
	} else {
		off := mean - b.mean
		dev := smooth(before.meanDev, b.meanDev, after.meanDev)
		if k == int(s.period)-1 && b.means >= 2 && dev > 0 {
			v := math.Abs(off) / (sigma * max(dev, d.floor*.8)) / math.Sqrt(1+1/b.means)
			if b.means < 4 {
				v *= b.means / 5
			}
			s.consider(d, ofBin, v, 1)
		}
		learnt, g := off, 1/min(b.means+1, periods)
		if hot(b.hot) {
			g = max(g, .4)
		} else {
			if b.means >= 2 && dev > 0 {
				learnt = clamp(off, 4*sigma*dev)
			}
			g *= d.gain
		}
		b.mean += g * learnt
		if b.means == 1 {
			b.meanDev = math.Abs(off)
			if before.meanDev > 0 {
				b.meanDev = (b.meanDev + 2*before.meanDev) / 3
			}
		} else {
			b.meanDev += g * (math.Abs(learnt) - b.meanDev)
		}
	}
	b.means++
	p.put(at, &b)
}

// endedExtremes compares the largest and the smallest of the last three bins with the same of earlier periods, and learns them.
func (s *bandState) endedExtremes(d *sample, k int, p *profile) {
	at := int(p.current)
	b, before, after := p.bin(at), p.bin(at-1), p.bin(at+1)
	high := max(p.high[0], p.high[1], p.high[2]) - s.anchorOf(k)
	low := min(p.low[0], p.low[1], p.low[2]) - s.anchorOf(k)
	if b.extremes < 1 {
		b.high, b.low = high, low
	} else {
		offHigh, offLow := high-b.high, low-b.low
		highDev, lowDev := smooth(before.highDev, b.highDev, after.highDev), smooth(before.lowDev, b.lowDev, after.lowDev)
		job := false
		if s.period == 0 && k == candidateDay && b.extremes >= 4 {
			job, _, _ = p.recurs(at, periodNumbers)
		}
		if (job || k == int(s.period)-1) && b.extremes >= 2 && highDev > 0 && lowDev > 0 {
			least := max(d.floor*.8, .5*p.own)
			v := max(-offHigh/(sigma*max(highDev, least)), offLow/(sigma*max(lowDev, least)), 0) / math.Sqrt(1+1/b.extremes)
			v *= min(1, b.extremes/periods)
			s.consider(d, ofExtremes, v, 1)
		}
		g := 1 / min(b.extremes+1, periods)
		if hot(b.hot) {
			g = max(g, .4)
		} else {
			g *= d.gain
			if b.extremes >= 2 {
				least := 1e-9 * max(s.levelDev, d.floor)
				offHigh, offLow = clamp(offHigh, 5*max(highDev, least)), clamp(offLow, 5*max(lowDev, least))
			}
		}
		b.high += g * offHigh
		b.low += g * offLow
		if b.extremes == 1 {
			b.highDev, b.lowDev = math.Abs(offHigh), math.Abs(offLow)
		} else {
			b.highDev += g * (math.Abs(offHigh) - b.highDev)
			b.lowDev += g * (math.Abs(offLow) - b.lowDev)
		}
	}
	b.extremes++
	p.put(at, &b)
}

// search looks for a period in the last samples.
func (s *bandState) search(samples []uint32) {
	length := periodOf(samples)
	if length == 0 {
		return
	}
	for k := range s.profiles[:candidateFound] {
		if p := &s.profiles[k]; p.used > 0 && k != candidateWorking && math.Abs(candidates[k].seconds/s.interval/length-1) < .03 {
			return
		}
	}
	p := &s.profiles[candidateFound]
	inUse := s.period == candidateFound+1
	switch {
	case p.used > 0 && math.Abs(p.length/length-1) < .03: // a better estimate of the same period: the bins stay where they are
		passed := (s.place - p.start) / p.length
		p.start = s.place - (passed-math.Floor(passed))*length
		p.length, p.samples = length, length/p.used
		return
	case inUse && p.own < .6*p.none:
		return
	case inUse:
		s.period, s.since = 0, 0
	}
	words := p.words
	clear(words)
	*p = profile{words: words, length: length, current: -1, used: min(float64(candidates[candidateFound].bins), math.Floor(length))}
	p.samples = length / p.used
}

// lagsAtOnce is the number of sums of an autocorrelation that are computed together: their additions do not wait for each other.
const lagsAtOnce = 8

// products returns the sums of the products of x with itself lag, lag+1 and so on later, each added up in the order of x.
func products(x []float64, lag int) (sums [lagsAtOnce]float64) {
	var a, b, c, d, e, f, g, h float64
	n := max(0, len(x)-lag-lagsAtOnce+1)
	for i, v := range x[:n] {
		w := (*[lagsAtOnce]float64)(x[i+lag:])
		a += v * w[0]
		b += v * w[1]
		c += v * w[2]
		d += v * w[3]
		e += v * w[4]
		f += v * w[5]
		g += v * w[6]
		h += v * w[7]
	}
	sums = [...]float64{a, b, c, d, e, f, g, h}
	for k := range sums {
		for i := n; i+lag+k < len(x); i++ {
			sums[k] += x[i] * x[i+lag+k]
		}
	}
	return sums
}

// periodOf returns the period of the highest peak of the autocorrelation, in samples; 0: there is none above 0.3.
func periodOf(samples []uint32) float64 {
	var x [searched]float64
	mean, n := 0.0, len(samples)
	for i, w := range samples {
		x[i] = float64(math.Float32frombits(w))
		mean += x[i]
	}
	mean /= float64(n)
	dev := 0.0
	for i := range n {
		x[i] -= mean
		dev += math.Abs(x[i])
	}
	dev /= float64(n)
	if dev == 0 {
		return 0
	}
	for i := range n {
		x[i] = clamp(x[i], 4*dev) / dev
	}
	longest := n / 3
	var acf [searched/3 + 1]float64
	for lag := 0; lag <= longest; lag += lagsAtOnce {
		sums := products(x[:n], lag)
		for k := range min(lagsAtOnce, longest+1-lag) {
			acf[lag+k] = sums[k] / float64(n-lag-k)
		}
	}
	best, high, fallen := 0, .3*acf[0], false
	for lag := 2; lag < longest; lag++ {
		v := acf[lag]
		fallen = fallen || v < .1*acf[0]
		if fallen && lag >= 6 && v > 1.1*high && v >= acf[lag-1] && v >= acf[lag+1] {
			best, high = lag, v
		}
	}
	if best == 0 {
		return 0
	}
	// Multiples of the period say its fraction.
	length := float64(best)
	for k := 2.0; k*length < float64(longest)-3; k++ {
		center := int(math.Round(k * length))
		at := center
		for lag := center - 2; lag <= center+2; lag++ {
			if lag <= longest && acf[lag] > acf[at] {
				at = lag
			}
		}
		if acf[at] > .8*high {
			length = float64(at) / k
		}
	}
	return length
}
