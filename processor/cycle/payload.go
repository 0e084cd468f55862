package cycle

import (
	"slices"
	"sync"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
)

// Payload is the content of one transaction: the batches of records for each partition of
// the output topics and of the changelogs. Several goroutines write to it.
type Payload struct {
	topics     *Topics
	newBatches func(maxBytes int) *record.Batches
	sinks      [outputCount][]sink // by output and partition of its topic
	changelogs sync.Map            // kafka.TP -> *sink
}

// sink is the growing batches of one partition.
type sink struct {
	mu     sync.Mutex
	b      *record.Batches
	max    int     // bytes of a batch in b
	shares []share // of b, in its order
}

// share is a run of records that were made of the input of one partition.
type share struct {
	input kafka.TP
	first int // number of its first record
}

// NewPayload returns an empty payload for the topics. newBatches returns an empty builder
// of batches of at most maxBytes.
func NewPayload(topics *Topics, newBatches func(maxBytes int) *record.Batches) *Payload {
	p := &Payload{topics: topics, newBatches: newBatches}
	for i := range topics.Outputs {
		p.sinks[i] = make([]sink, topics.Outputs[i].Partitions)
	}
	return p
}

// lock locks s for records that are made of the input of a partition, making its batches for topic t at first use.
func (p *Payload) lock(s *sink, t *Topic, input kafka.TP) *record.Batches {
	s.mu.Lock()
	if s.b == nil || s.max != t.BatchBytes && s.b.Count() == 0 {
		s.b, s.max = p.newBatches(t.BatchBytes), t.BatchBytes
	}
	if n := len(s.shares); n == 0 || s.shares[n-1].input != input {
		if t.Apart {
			s.b.Cut()
		}
		s.shares = append(s.shares, share{input, s.b.Count()})
	}
	return s.b
}

// Origins returns the input partitions whose output a batch has that was sent to a partition of an output topic.
func (p *Payload) Origins(to kafka.TP, batch int) (inputs []kafka.TP) {
	p.each(func(tp kafka.TP, s *sink) {
		if tp != to || s.b == nil {
			return
		}
		first := 0
		for i := range batch {
			first += s.b.Records(i)
		}
		end := first + s.b.Records(batch)
		for i, sh := range s.shares {
			next := s.b.Count()
			if i+1 < len(s.shares) {
				next = s.shares[i+1].first
			}
			if sh.first < next && sh.first < end && first < next && !slices.Contains(inputs, sh.input) {
				inputs = append(inputs, sh.input)
			}
		}
	})
	return inputs
}

// add calls write with the batches of s for topic t, for records that are made of the input of a partition.
func (p *Payload) add(s *sink, t *Topic, input kafka.TP, write func(b *record.Batches) error) error {
	b := p.lock(s, t, input)
	defer s.mu.Unlock()
	return write(b)
}

// Changelog calls write with the batches for a partition of the changelog of an input
// topic, which no other goroutine writes to meanwhile.
func (p *Payload) Changelog(input kafka.TP, write func(b *record.Batches) error) error {
	t := p.topics.Changelog(input.Topic)
	log := kafka.TP{Topic: t.Name, Partition: input.Partition}
	v, ok := p.changelogs.Load(log)
	if !ok {
		v, _ = p.changelogs.LoadOrStore(log, new(sink))
	}
	return p.add(v.(*sink), t, input, write)
}

// each calls f for every partition of the output topics.
func (p *Payload) each(f func(tp kafka.TP, s *sink)) {
	for o, sinks := range p.sinks {
		for i := range sinks {
			f(kafka.TP{Topic: p.topics.Outputs[o].Name, Partition: int32(i)}, &sinks[i])
		}
	}
}

// eachChangelog calls f for every changelog partition that has been written to.
func (p *Payload) eachChangelog(f func(tp kafka.TP, s *sink)) {
	p.changelogs.Range(func(k, v any) bool {
		f(k.(kafka.TP), v.(*sink))
		return true
	})
}

// Reset empties the payload without freeing its memory: allocating the batches of a payload
// of 32 MB takes longer than filling them.
func (p *Payload) Reset() {
	reset := func(_ kafka.TP, s *sink) {
		if s.b != nil {
			s.b.Reset()
		}
		s.shares = s.shares[:0]
	}
	p.each(reset)
	p.eachChangelog(reset)
}

// Batches returns the batches that are not empty; changelogs apart, because at least
// once they are sent after the outputs.
func (p *Payload) Batches() (outputs, changelogs map[kafka.TP]*record.Batches) {
	outputs, changelogs = map[kafka.TP]*record.Batches{}, map[kafka.TP]*record.Batches{}
	into := func(m map[kafka.TP]*record.Batches) func(kafka.TP, *sink) {
		return func(tp kafka.TP, s *sink) {
			if s.b != nil && s.b.Count() > 0 {
				m[tp] = s.b
			}
		}
	}
	p.each(into(outputs))
	p.eachChangelog(into(changelogs))
	return outputs, changelogs
}

// Has reports whether there are records for an output topic.
func (p *Payload) Has(topic string) (has bool) {
	p.each(func(tp kafka.TP, s *sink) { has = has || tp.Topic == topic && s.b != nil && s.b.Count() > 0 })
	return has
}

// Stats adds the payload's numbers of records and bytes to its cycle's.
func (p *Payload) Stats(s *metrics.CycleStats) {
	s.Outputs = map[string]int{}
	for o := range Outputs {
		for i := range p.sinks[o] {
			if b := p.sinks[o][i].b; b != nil && b.Count() > 0 {
				s.Outputs[Outputs[o].Name] += b.Count()
			}
		}
	}
	p.eachChangelog(func(_ kafka.TP, s2 *sink) {
		if s2.b != nil {
			s.ChangelogRecords += s2.b.Count()
			s.ChangelogBytes += s2.b.Bytes()
		}
	})
}
