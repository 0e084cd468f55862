package season

import (
	"math"
	"math/bits"
)

// Band is the method of op band: the expected value of a sample by the time of a period that the series itself shows, the
// usual difference from it, and whether the differences of the last samples, of this one or of many together, are among the
// most extreme of the series.
//
// # The expected value
//
// Six periods are candidates: hour, 8 hours, day, working day and weekend, week, and one that the autocorrelation of the last
// 1,024 samples shows (counted in samples, so that it needs no times). The profile of each has bins of equal time with a level,
// interpolated between the bins' middles, and a mean absolute difference; a bin learns as a mean, from the tenth period on with an
// exponentially decaying memory. The period with the least mean difference is in use, if that is below 0.8 of the mean difference
// from a slow level (with its trend), which is expected while no period is in use. A regression of the differences of the last one and a
// half periods on the profile, offset and gain, corrects the expected value: a load that grows stays as expected.
//
// # The statistics
//
// Of the differences in units of their bin: the innovation of an AR(1) process, means with exponential weights of 1 to 1,024
// samples (EWMA charts, Roberts 1959) of the differences and of 16 to 256 samples of the innovations' size, the mean of a whole bin
// against its means of earlier periods, and the largest and smallest of three bins against the same of earlier periods (a job that is
// missing). Each chart is in units of its own usual distance from its centre, so no independence of samples is assumed.
//
// # The score
//
// Of each statistic, the 0.98 quantile and the moments of the logarithms beyond it are learnt (the estimator of Dekkers, Einmahl
// and de Haan, 1989, with a prior). The score is the largest of the statistics' -ln p, where p is the probability of a value as
// high: so scores of all series have one scale, and a threshold of ln(6/rate) has about that rate of false alarms. A score below
// ln 50 is 0.
//
// # What is learnt
//
// A sample is scored before it is learnt. One above the threshold is learnt at a tenth of the weight, and not by the tails. A state that
// stays for one and a quarter periods (160 samples without a period) becomes the usual one, and so does one that for 256 samples
// is above the threshold by charts of long memory alone. A bin with gross differences in
// two of the last three periods learns them at half of the weight: a new job is an anomaly twice. After a gap of more than 4.5 sampling
// intervals the charts begin at their centres. A series of which the first 64 samples never fall is a counter, and its increments
// are scored.
type Band struct {
	Threshold float64 // samples above it are hardly learnt
	MinPoints int     // samples before the first score, at least 32
	Clock     Clock   // its zone and its calendar
}

// BandScore has the measures of a sample.
type BandScore struct {
	Score     float64 // -ln of the probability of a sample as extreme; 0: less than ln 50
	Expected  float64 // NaN: unknown
	Unit      float64 // the usual deviation from it
	Period    int     // candidate in use; -1: none
	Statistic int     // that has the score; -1: none
}

// The statistics, by the place of their tails.
const (
	ofInnovation = 0
	ofMeans      = 1 // six of them
	ofSpread     = 7 // three of them
	ofBin        = 10
	ofExtremes   = 11
	ofQuiet      = 12 // three of them: less noise than usual
	statistics   = 15
)

var (
	meanWeights   = [...]float64{1, 1. / 4, 1. / 16, 1. / 64, 1. / 256, 1. / 1024}
	spreadWeights = [...]float64{1. / 16, 1. / 64, 1. / 256}
)

const (
	intervals  = 32   // the median of the first ones is the sampling interval
	searched   = 1024 // samples that a period is looked for in
	periods    = 10   // of a bin's memory
	sigma      = 1.25 // standard deviation over mean absolute deviation, of a normal distribution
	counterOf  = 64   // samples that never fall
	counterUps = 40   // of them rise

	leastUnit   = 1e-300
	alarmGain   = 0.1 // weight of samples above the threshold
	shortMemory = 64  // samples: less than the memories of the charts that end last
	mostSlow    = 256 // samples above the threshold by charts of long memory alone
)

// bandNumbers are a series' numbers beside its profiles. Values are relative to the origin.
type bandNumbers struct {
	seen, origin       float64
	lastTime, interval float64 // seconds
	last, lastRaw      float64
	step, moves        float64 // the least step; the share of samples that differ from the one before
	place              float64 // samples so far, those that a gap lacks included
	level, levelDev    float64
	trend, levelLearnt float64
	period             float64 // candidate in use and one more; 0: none
	since, sinceGap    float64 // the last change of the period, the last gap
	anchor             float64 // of the profile in use
	shift, shiftAt     float64 // the last change of the anchor or level
	haveU, lastU       float64
	xy, xx, phi        float64 // regression of differences on the one before
	innovation, learnt float64 // mean size, number
	size, sizes        float64 // mean size of innovations in their units
	alarm, held, calm  float64
	slow               float64 // samples in a row above the threshold by charts of long memory alone
	weight, sx, sy     float64 // of the regression of differences on the profile
	sxx, sxy, variance float64
	counter, up, down  float64 // 0: not known, 1: yes, -1: no
	begun              float64
	means              [len(meanWeights)]chart
	spreads            [len(spreadWeights)]chart
	tails              [statistics]tail
	profiles           [len(candidates)]profile
}

// each calls f with each number, in the order of the state's words.
func (b *bandNumbers) each(f func(*float64)) {
	for _, p := range [...]*float64{
		&b.seen, &b.origin, &b.lastTime, &b.interval, &b.last, &b.lastRaw, &b.step, &b.moves, &b.place, &b.level, &b.levelDev, &b.trend,
		&b.levelLearnt, &b.period, &b.since, &b.sinceGap, &b.anchor, &b.shift, &b.shiftAt, &b.haveU, &b.lastU, &b.xy, &b.xx, &b.phi,
		&b.innovation, &b.learnt, &b.size, &b.sizes, &b.alarm, &b.held, &b.calm, &b.slow, &b.weight, &b.sx, &b.sy, &b.sxx, &b.sxy, &b.variance,
		&b.counter, &b.up, &b.down, &b.begun,
	} {
		f(p)
	}
	charts := func(list []chart) {
		for i := range list {
			c := &list[i]
			f(&c.mean)
			f(&c.center)
			f(&c.dev)
			f(&c.n)
		}
	}
	charts(b.means[:])
	charts(b.spreads[:])
	for i := range b.tails {
		t := &b.tails[i]
		f(&t.from)
		f(&t.first)
		f(&t.second)
		f(&t.weight)
		f(&t.seen)
	}
	for i := range b.profiles {
		b.profiles[i].each(f)
	}
}

// The state's words: the numbers, the first intervals and the last samples, both as float32, and the bins.
var (
	bandHeader = func() (words int) {
		new(bandNumbers).each(func(*float64) { words += 2 })
		return words
	}()
	bandPeriod = func() (at int) {
		var b bandNumbers
		found := false
		b.each(func(p *float64) {
			if found = found || p == &b.period; !found {
				at += 2
			}
		})
		return at
	}()
	bandIntervals = bandHeader
	bandRing      = bandIntervals + intervals
	bandBins      = bandRing + searched
	// BandWords is the number of words of a series' state, all of them 0 at first.
	BandWords = func() int {
		n := bandBins
		for i := range candidates {
			n += candidates[i].bins * profileWords
		}
		return n
	}()
)

// bandState is a series' state while samples are scored.
type bandState struct {
	bandNumbers
	words []uint32 // all of the state
}

// open reads the numbers of a state.
func (s *bandState) open(words []uint32) {
	s.words = words
	at := 0
	s.each(func(p *float64) {
		*p = float64Of(words[at:])
		at += 2
	})
	bins := words[bandBins:]
	for i := range s.profiles {
		n := candidates[i].bins * profileWords
		s.profiles[i].words, bins = bins[:n], bins[n:]
	}
	if s.begun == 0 {
		s.initialise()
	}
}

// initialise sets what is not 0 in the state of a new series.
func (s *bandState) initialise() {
	for i := range s.tails {
		s.tails[i] = newTail
	}
	for i := range s.profiles {
		s.profiles[i].current = -1
	}
	s.begun = 1
}

// restart forgets all but the words.
func (s *bandState) restart() {
	words := s.words
	clear(words)
	*s = bandState{}
	s.open(words)
}

// close writes the numbers.
func (s *bandState) close() {
	at := 0
	s.each(func(p *float64) {
		putFloat64(s.words[at:], *p)
		at += 2
	})
}

// BandSeen returns the number of samples that a state has seen.
func BandSeen(state []uint32) int { return int(float64Of(state)) }

// BandInSeason reports whether a state has a period in use.
func BandInSeason(state []uint32) bool { return float64Of(state[bandPeriod:]) > 0 }

// count returns the increment of a counter, and x of others. ok is false where there is none.
func (s *bandState) count(x float64) (value float64, ok bool) {
	last := s.lastRaw
	s.lastRaw = x
	if s.counter == 0 && s.seen >= counterOf {
		s.counter = -1
		if s.down == 0 && s.up >= counterUps {
			s.restart()
			s.counter, s.lastRaw = 1, x
			return 0, false
		}
	}
	switch {
	case s.counter == 1 && x < last:
		return x, true // a new beginning, from 0
	case s.counter == 1:
		return x - last, true
	case s.seen > 0 && x > last:
		s.up++
	case s.seen > 0 && x < last:
		s.down++
	}
	return x, true
}

// sample is what is known of a sample while it is scored.
type sample struct {
	x, floor float64 // the value, and the least usual deviation
	gap      bool
	gain     float64 // the weight of what is learnt
	level    float64 // the slow level before it
	offLevel float64 // from it
	at       [len(candidates)]place

	expected, unit, u float64
	correction        float64
	best              BandScore
	ready, learns     bool
	quiet             float64
	fast              float64 // the largest of the statistics of short memory
}

// score scores a sample and learns it.
func (b *Band) score(s *bandState, micros int64, raw float64) BandScore {
	unknown := BandScore{math.NaN(), math.NaN(), 0, -1, -1}
	if !(math.Abs(raw) < tooLarge) {
		return unknown
	}
	x, ok := s.count(raw)
	if !ok {
		return unknown
	}
	if s.seen == 0 {
		s.origin = x
	}
	d := sample{x: x - s.origin, best: BandScore{Period: -1, Statistic: -1}}
	s.follow(&d, float64(micros)/1e6)
	if s.seen <= intervals {
		s.keep(d.x)
		return unknown
	}
	b.choose(s, &d, micros)
	if d.gap {
		s.haveU, s.sinceGap = 0, 0
		for i := range s.means {
			s.means[i].mean = s.means[i].center
		}
		for i := range s.spreads {
			s.spreads[i].mean = 0
		}
	}
	s.sinceGap++
	s.expect(&d)
	s.judge(&d, b.MinPoints)
	alarm := d.best.Score > b.Threshold
	s.alarm = 0
	if alarm {
		s.alarm = 1
	}
	s.learn(&d)
	s.accept(&d, b.Threshold)
	s.lastU, s.haveU = clamp(d.u, 8), 1
	s.keep(d.x)
	out := d.best
	out.Score = max(out.Score, d.quiet)
	if d.quiet > d.best.Score {
		out.Statistic = ofQuiet
	}
	out.Expected, out.Unit, out.Period = d.expected+s.origin, d.unit, int(s.period)-1
	return out
}

// follow takes the time of a sample, and learns the slow level and the least step.
func (s *bandState) follow(d *sample, t float64) {
	since := t - s.lastTime
	s.lastTime = t
	passed := 1.0
	switch {
	case s.seen == 0:
		s.level, s.last = d.x, d.x
	case s.seen <= intervals:
		first := s.words[bandIntervals:][:intervals]
		first[int(s.seen)-1] = math.Float32bits(float32(since))
		if s.seen == intervals {
			s.interval = median(first)
			s.setUp()
		}
	case since > 4.5*s.interval:
		d.gap = true
		passed = math.Round(since / s.interval)
	}
	s.seen++
	s.place += passed

	d.floor = s.step / 3 * min(1, 20*s.moves)
	step := math.Abs(d.x - s.last)
	s.last = d.x
	moved := 0.0
	if step > 0 {
		moved = 1
		if s.step == 0 || step < s.step {
			s.step = step
		}
	}
	s.moves += (moved - s.moves) / min(s.seen, 512)

	d.gain = 1
	if s.alarm != 0 {
		d.gain = alarmGain
	}
	s.level += s.trend
	d.level = s.level
	d.offLevel = d.x - s.level
	s.levelLearnt++
	off := d.offLevel
	if s.seen > 64 {
		off = clamp(off, 5*sigma*max(s.levelDev, d.floor))
	}
	g := d.gain / min(s.levelLearnt, 512)
	s.level += g * off
	if s.levelLearnt > 256 {
		s.trend += g * off / 2048
	}
	s.levelDev += (math.Abs(off) - s.levelDev) / min(s.seen, 2048)
}

// median returns the median of float32s of a state, at least 1e-6.
func median(words []uint32) float64 {
	var sorted [intervals]float32
	for i, w := range words {
		v, j := math.Float32frombits(w), i
		for ; j > 0 && v < sorted[j-1]; j-- {
			sorted[j] = sorted[j-1]
		}
		sorted[j] = v
	}
	return max(float64(sorted[intervals/2]), 1e-6)
}

// keep keeps a sample for the search of a period, which it starts at times.
func (s *bandState) keep(x float64) {
	n := int(s.seen)
	ring := s.words[bandRing:][:searched]
	ring[(n-1)%searched] = math.Float32bits(float32(x))
	if n == searched/4 || n == searched/2 || n%searched == 0 {
		s.search(ring[:min(n, searched)]) // a full ring begins at 0 then
	}
}

// expect sets the expected value of a sample and its usual deviation.
func (s *bandState) expect(d *sample) {
	k := int(s.period) - 1
	var e float64
	if k >= 0 {
		q := &d.at[k]
		if s.weight > .8 {
			vs := s.sxx - s.sx*s.sx/s.weight
			gain := 0.0
			if vs > 0 {
				gain = clamp((s.sxy-s.sx*s.sy/s.weight)/(vs+.05*s.variance), .5)
			}
			d.correction = s.sy/s.weight + gain*(q.level-s.sx/s.weight)
		}
		d.expected = q.level + s.anchor + d.correction
		e = d.x - d.expected
		d.unit = sigma * max(q.dev, d.floor*.8)
		if q.dev == 0 {
			d.unit = sigma * max(s.levelDev, d.floor)
		}
	} else {
		d.expected, e = d.level, d.offLevel
		d.unit = sigma * max(s.levelDev, d.floor*.8)
		// A job of the day: the band is as wide as the job.
		p, q := &s.profiles[candidateDay], &d.at[candidateDay]
		if q.known {
			recurs, dev, level := p.recurs(int(q.pos), q.period)
			if p.small(recurs, s.memory()) && dev > s.levelDev {
				d.unit = max(d.unit, 2*sigma*dev)
				if (level-d.level)*e > 0 {
					e = clamp(e, math.Abs(level-d.level)+2*dev) * .5
				}
			}
		}
	}
	if d.unit <= 0 {
		d.unit = max(1e-6*max(math.Abs(d.x+s.origin), math.Abs(e)), leastUnit)
	}
	if e != 0 {
		d.u = e / d.unit
	}
}

// memory is the number of samples that the choice of a period remembers.
func (s *bandState) memory() float64 { return max(400, min(8192, 5*day/s.interval)) }

// consider takes a statistic's value.
func (s *bandState) consider(d *sample, k int, v, run float64) {
	nats := s.tails[k].score(k, v, run, d.learns && s.since > 32)
	if !d.ready {
		return
	}
	if nats > d.best.Score {
		d.best.Score, d.best.Statistic = nats, k
	}
	if run < shortMemory {
		d.fast = max(d.fast, nats)
	}
}

// judge computes the statistics of a sample.
func (s *bandState) judge(d *sample, minPoints int) {
	d.ready = int(s.seen) > minPoints && s.since > 16
	d.learns = s.alarm == 0
	s.innovations(d)
	for i, weight := range meanWeights {
		c := &s.means[i]
		c.mean += weight * (clamp(d.u, 8) - c.mean)
		v := c.mean
		if i == 0 {
			v = d.u
		}
		if s.since > math.Floor(1.5/weight) && s.sinceGap > math.Floor(.7/weight) {
			phi := max(0, min(.999, s.phi))
			theory := math.Sqrt(weight / (2 - weight) * (1 + phi*(1-weight)) / (1 - phi*(1-weight)))
			s.consider(d, ofMeans+i, c.distance(v, weight, theory, d.learns), 1/weight)
		}
	}
	for k := range s.profiles {
		if p := &s.profiles[k]; p.samples >= 2.5 {
			s.ended(d, k, p)
		}
	}
}

// innovations computes the statistics of the innovation, and of the sizes of the last ones.
func (s *bandState) innovations(d *sample) {
	if s.haveU == 0 {
		return
	}
	r := d.u - s.phi*s.lastU
	if s.learnt == 0 {
		s.innovation = max(math.Abs(r), .05)
	}
	usual := max(s.innovation, 1e-9)
	k := int(s.period) - 1
	if k >= 0 {
		p, c := &s.profiles[k], d.at[k].bin
		own := p.bin(c)
		if own.sizes > 4 {
			w := 2 * max(1, p.samples)
			usual = (own.size*own.sizes + w*s.innovation) / (own.sizes + w)
			usual = max(usual, .5*float32Of(p.at(c - 1)[binSize]), .5*float32Of(p.at(c + 1)[binSize]))
		}
		own.sizes = min(own.sizes+1, periods*max(1, p.samples), mostSizes)
		if own.sizes == 1 {
			own.size = s.innovation
		}
		own.size += d.gain / (own.sizes + 2) * (min(math.Abs(r), 5*max(usual, 1e-6)) - own.size)
		p.put(c, &own)
	}
	z := math.Abs(r) / (sigma * max(usual, d.floor/d.unitOr1()*.8, 1e-6))
	s.learnt++
	if s.learnt > 24 {
		s.consider(d, ofInnovation, z, 1)
	}
	s.sizes++
	off := min(z, 4) - s.size
	s.size += d.gain / min(s.sizes, 4096) * off
	for i, weight := range spreadWeights {
		c := &s.spreads[i]
		c.mean += weight * (off - c.mean)
		if s.sizes <= max(192, math.Floor(2/weight)) {
			continue
		}
		less := c.mean < c.center
		v := c.distance(c.mean, weight, 1.6*math.Sqrt(.45*weight/(2-weight)), d.learns)
		if !less {
			s.consider(d, ofSpread+i, v, 1/weight)
			continue
		}
		if nats := s.tails[ofQuiet+i].score(ofQuiet+i, v, 1/weight, d.learns && s.since > 32); d.ready {
			d.quiet = max(d.quiet, nats)
		}
		s.consider(d, ofSpread+i, 0, 1/weight)
	}
	g := d.gain / min(s.learnt, 4096)
	s.innovation += g * (min(math.Abs(r), 4*max(s.innovation, 1e-6)) - s.innovation)
	last := clamp(s.lastU, 8)
	s.xy += g * (clamp(d.u, 8)*last - s.xy)
	s.xx += g * (last*last - s.xx)
	if s.xx > 0 {
		s.phi = clampTo(s.xy/s.xx, -.5, 1)
	}
}

// unitOr1 returns the unit to divide by.
func (s *sample) unitOr1() float64 {
	if s.unit > 0 {
		return s.unit
	}
	return 1
}

// learn learns the profiles, and the offset and gain of the one in use.
func (s *bandState) learn(d *sample) {
	gain := 1.0
	if s.alarm != 0 {
		gain = alarmGain
	}
	if k := int(s.period) - 1; k >= 0 {
		q, p := &d.at[k], &s.profiles[k]
		g := gain / max(64, min(1.5*p.samples*p.used, 3*day/s.interval))
		r := d.correction + clamp(d.x-q.level-s.anchor-d.correction, 3*d.unit)
		s.weight += g * (1 - s.weight)
		s.sx += g * (q.level - s.sx)
		s.sy += g * (r - s.sy)
		s.sxx += g * (q.level*q.level - s.sxx)
		s.sxy += g * (q.level*r - s.sxy)
		s.variance = s.sxx - s.sx*s.sx/max(s.weight, 1e-9)
	} else {
		s.weight, s.sx, s.sy, s.sxx, s.sxy = 0, 0, 0, 0, 0
	}
	gross := s.period == 0 && math.Abs(d.offLevel) > 5*sigma*max(s.levelDev, d.floor)
	for k := range s.profiles {
		p := &s.profiles[k]
		if p.used > 0 {
			s.learnProfile(d, k, p, gain, gross)
		}
	}
}

// accept makes a state that stays the usual one.
func (s *bandState) accept(d *sample, threshold float64) {
	if s.alarm != 0 {
		s.held++
		s.calm = 0
		s.slow++
		if d.fast > threshold {
			s.slow = 0
		}
	} else if s.calm++; s.calm > 32 {
		s.held, s.slow = 0, 0
	}
	limit := 160.0
	if k := int(s.period) - 1; k >= 0 {
		p := &s.profiles[k]
		limit = 1.25 * p.samples * p.used
		if k == candidateWorking || k == candidateWeek {
			limit = 1.25 * day / s.interval
		}
		limit = clampTo(limit, 160, 2000)
	}
	if s.held <= limit && s.slow <= mostSlow {
		return
	}
	by := s.means[3].mean * d.unit
	if s.period > 0 {
		s.anchor += by
	} else {
		s.level = d.level + by
		// Two shifts the same way make a trend.
		if since := s.seen - s.shiftAt; s.shiftAt > 0 && since < 1500 && by*s.shift > 0 {
			s.trend += by / since
		}
		s.levelLearnt = 24
	}
	s.shift, s.shiftAt = by, s.seen
	s.forget()
	s.sizes, s.size = 0, 0
	s.held, s.alarm, s.slow = 0, 0, 0
}

// forget makes the charts and the innovations begin anew.
func (s *bandState) forget() {
	s.means, s.spreads = [len(meanWeights)]chart{}, [len(spreadWeights)]chart{}
	s.since = 0
	s.learnt, s.innovation, s.xx, s.xy = 0, 0, 0, 0
}

func clamp(x, most float64) float64 { return clampTo(x, -most, most) }

func clampTo(x, least, most float64) float64 { return max(least, min(most, x)) }

// chart is a mean with exponential weights, its centre and its mean distance from it.
type chart struct{ mean, center, dev, n float64 }

// distance returns how far v is from the centre, in usual deviations. The theory's is their prior.
func (c *chart) distance(v, weight, theory float64, learn bool) float64 {
	c.n++
	d, run := v-c.center, 1/weight
	memory := max(4096, 64*run)
	n := min(c.n, memory)
	var dev float64
	if weight == 1 {
		dev = max(sigma*c.dev, .3)
		if c.n < 32 {
			dev = max(dev, 1)
		}
	} else {
		dev = math.Sqrt((8*run*theory*theory + n*1.57*c.dev*c.dev) / (8*run + n))
		dev = max(dev, .5*theory, 1e-9)
	}
	if learn || c.n < 8 {
		c.dev += (min(math.Abs(d), 4*dev) - c.dev) / max(n, 8*run)
		c.center += clamp(d, 3*dev) / memory
	}
	return math.Abs(d) / dev
}

// tail is the upper 2 % of a statistic's values: where it begins, and the moments of ln(value/from).
type tail struct{ from, first, second, weight, seen float64 }

var newTail = tail{from: 2.33, first: .18, second: .062} // its index is about 0.1

// score returns -ln of the probability of a value as high, 0 below the tail. Values of a chart are alike over a run of samples.
func (t *tail) score(k int, v, run float64, learn bool) (nats float64) {
	if v > t.from {
		index := clampTo(t.first+1-.5/max(1-t.first*t.first/t.second, .05), .02, 1)
		if run >= 16 || k >= ofBin {
			index = min(index, .2)
		}
		if k >= ofQuiet {
			index = min(index, .05)
		}
		nats = math.Log(50) + math.Log1p(index*(v-t.from)/(t.from*max(t.first, .08)))/index
	}
	if !learn {
		return nats
	}
	t.seen++
	g := 4 * t.from / (150*run + min(t.seen, 20000*run))
	if v > t.from {
		l := min(math.Log(v/t.from), 3)
		t.from += .98 * g
		t.weight += 1 / run
		g := 1 / (40 + min(t.weight, 400)) / run
		t.first += g * (l - t.first)
		t.second += g * (l*l - t.second)
	} else {
		t.from -= .02 * g
	}
	t.from = max(t.from, 1)
	return nats
}

// hot reports whether two of the last three periods are marked.
func hot(marks uint32) bool { return bits.OnesCount32(marks&7) >= 2 }
