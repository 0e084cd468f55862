package schemas

// Splitter splits the readings of a record into samples. Where values are series of their own, each makes one: the value of field
// "temperature" in a reading of key "press-1" belongs to the series "press-1/temperature". It serves one goroutine. A nil
// Splitter makes one sample of each reading.
type Splitter struct {
	names   []string
	longest int
	key     []byte // of the last sample: its reading's key, '/' and a name
	base    int    // length of the reading's key and '/' in key
}

// NewSplitter returns a Splitter of readings whose values have these names, which contain no '/', so that the last '/' of a
// series key ends the reading's key. Without names it is nil.
func NewSplitter(names []string) *Splitter {
	if len(names) == 0 {
		return nil
	}
	s := &Splitter{names: names}
	for _, n := range names {
		s.longest = max(s.longest, len(n))
	}
	return s
}

// Samples returns the number of samples of a record.
func (s *Splitter) Samples(r *Reading) int {
	if s == nil {
		return r.Len()
	}
	return r.Len() * len(s.names)
}

// KeyBytes returns the most bytes of the series keys of a record.
func (s *Splitter) KeyBytes(r *Reading) (most int) {
	for i := range r.Len() {
		key, _, _ := r.At(i)
		most = max(most, len(key))
	}
	if s != nil && most > 0 {
		most += 1 + s.longest
	}
	return most
}

// Sample returns the series key, the event time and the values of the i-th sample of a record. It is called in order; the
// result is valid until the next call.
func (s *Splitter) Sample(r *Reading, i int) (key []byte, time int64, values []float64) {
	if s == nil {
		return r.At(i)
	}
	return s.sample(r, i)
}

func (s *Splitter) sample(r *Reading, i int) (key []byte, time int64, values []float64) {
	n := i % len(s.names)
	key, time, values = r.At(i / len(s.names))
	if n == 0 {
		s.key = append(append(s.key[:0], key...), '/')
		s.base = len(s.key)
	}
	s.key = append(s.key[:s.base], s.names[n]...)
	return s.key, time, values[n : n+1]
}
