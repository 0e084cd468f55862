package schemas

// Splitter splits a reading whose values are series of their own into samples, one for each value. The value of field
// "temperature" in a record of key "press-1" belongs to the series "press-1/temperature". It serves one goroutine. A nil
// Splitter makes one sample of a reading.
type Splitter struct {
	names   []string
	longest int
	key     []byte // of the last sample: the reading's key, '/' and a name
	base    int    // length of the reading's key and '/' in key
}

// NewSplitter returns a Splitter of readings whose values have these names, which contain no '/', so that the last '/' of a
// series key ends the record's key. Without names it is nil.
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

// Samples returns the number of samples of a reading.
func (s *Splitter) Samples() int {
	if s == nil {
		return 1
	}
	return len(s.names)
}

// KeyBytes returns the most bytes of the series keys of a reading.
func (s *Splitter) KeyBytes(r *Reading) int {
	if s == nil {
		return len(r.Key)
	}
	return len(r.Key) + 1 + s.longest
}

// Sample returns the key and the values of the i-th sample of a reading. It is called in order; the result is valid
// until the next call.
func (s *Splitter) Sample(r *Reading, i int) (key []byte, values []float64) {
	if s == nil {
		return r.Key, r.Values
	}
	return s.sample(r, i)
}

func (s *Splitter) sample(r *Reading, i int) (key []byte, values []float64) {
	if i == 0 {
		s.key = append(append(s.key[:0], r.Key...), '/')
		s.base = len(s.key)
	}
	s.key = append(s.key[:s.base], s.names[i]...)
	return s.key, r.Values[i : i+1]
}
