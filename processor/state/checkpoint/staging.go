package checkpoint

import (
	"cmp"
	"fmt"
	"slices"

	"odradek/processor/state/changelog"
	"odradek/processor/state/series"
)

// staging holds records that wait for a head that names them, by the name of their key.
type staging struct {
	fragments changelog.Fragments               // of heads that have not come
	segments  map[string][]series.StoredSegment // since the last head
	held      map[string]map[HeldName][]byte    // of held samples
	bytes     int64                             // of segments
}

// newStaging returns a staging with nothing in it.
func newStaging() staging {
	return staging{
		fragments: changelog.NewFragments(), segments: map[string][]series.StoredSegment{}, held: map[string]map[HeldName][]byte{},
	}
}

// Bytes returns the memory of the records that wait.
func (s *staging) Bytes() int64 { return s.bytes + s.fragments.Bytes }

// addSegment stages a segment until a head names it: segments of a cycle that was
// cut off before its head (at least once) must not get into the window.
func (s *staging) addSegment(name, value []byte, window, id uint64) error {
	g, err := series.ReadSegment(value, series.SegmentName{Window: window, ID: id})
	if err != nil {
		return err
	}
	s.bytes += g.Size()
	s.segments[string(name)] = append(s.segments[string(name)], g)
	return nil
}

// stored returns the segments of a key that wait for its head, in order of window and number.
func (s *staging) stored(name []byte) []series.StoredSegment {
	list := s.segments[string(name)]
	slices.SortStableFunc(list, func(a, b series.StoredSegment) int {
		return cmp.Or(cmp.Compare(a.Name.Window, b.Name.Window), cmp.Compare(a.Name.ID, b.Name.ID))
	})
	return list
}

// unstage discards the segments that wait for a head.
func (s *staging) unstage(name []byte) {
	for i := range s.segments[string(name)] {
		s.bytes -= s.segments[string(name)][i].Size()
	}
	delete(s.segments, string(name))
}

// addHeld stores a segment as long as heads may name it.
func (s *staging) addHeld(name, value []byte, first, sum uint64) error {
	segments := s.held[string(name)]
	if value == nil {
		delete(segments, HeldName{First: first, Sum: sum})
		return nil
	}
	if HeldSum(value) != sum {
		return fmt.Errorf("its content is not what its name says: %w", changelog.ErrCorrupt)
	}
	if segments == nil {
		segments = map[HeldName][]byte{}
		s.held[string(name)] = segments
	}
	segments[HeldName{First: first, Sum: sum}] = slices.Clone(value)
	return nil
}
