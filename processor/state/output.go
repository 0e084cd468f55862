package state

import (
	"fmt"

	"odradek/detectors"
)

// Output is the results of a State.
type Output struct {
	// Rows are finished rows in the order of the samples. The caller empties it.
	Rows []Row
	// Events are changes of anomalies in the order of the samples. The caller
	// empties it as it does Rows; Rollback does, too.
	Events []EventRow
	// Blocks are what detectors made of whole tasks, in the order of the samples, with
	// Config.Blocks. The caller empties it as it does Events.
	Blocks []BlockRow
	// Rises are thresholds that have risen tenfold, in the order of the samples. The caller empties it as it does Events.
	Rises []Rise
}

// SetSource sets the input partition that the state is of. It goes into the ids of
// anomalies and into nothing else, and has to be set before the first sample.
func (s *State) SetSource(topic string, partition int32) {
	s.source = fmt.Appendf(nil, "%s\x00%d", topic, partition)
}

// reset empties what belongs to a cycle that is rolled back.
func (o *Output) reset() {
	o.Rows, o.Events, o.Blocks, o.Rises = o.Rows[:0], o.Events[:0], o.Blocks[:0], o.Rises[:0]
}

// addEvent adds a change to Events and has its key snapshotted in the same cycle. The change of
// an evicted key is in the record of its eviction.
func (s *State) addEvent(e *EventRow) {
	e.Behind = s.behind(e.Change.Offset)
	s.Events = append(s.Events, *e)
	if !e.Key.Dead {
		s.changed.Add(e.Key, s.journal.Open.Start())
	}
}

// Rise is a threshold of a series that has risen tenfold: its detector does not find any more what it found before.
type Rise struct {
	Key      *Key
	Detector string
	Offset   int64 // of the sample whose score was judged by To
	From, To float32
}

// addBlock adds the block of a task to Blocks, if its detector made one.
func (s *State) addBlock(p *pendingTask, b *detectors.Batch) {
	fresh, times := s.tasks.copies.Fresh(p), s.tasks.copies.Times(p)
	offset := fresh[len(fresh)-1].Offset
	if s.withholds(offset) {
		return
	}
	media, data := p.Detector.Blocker.Block(b.Rows(int(p.Index)))
	if data == nil {
		return
	}
	if len(data) > detectors.MaxBlock {
		panic(fmt.Sprintf("state: detector %s made a block of %d bytes, more than %d", p.Detector.Name, len(data), detectors.MaxBlock))
	}
	s.Blocks = append(s.Blocks, BlockRow{
		Key: p.Key, Detector: p.Detector.Index, Offset: offset,
		About: times[0], Until: times[len(times)-1], MediaType: media, Data: data,
	})
}
