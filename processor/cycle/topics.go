package cycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"

	"odradek/processor/kafka"
)

// Topics holds the topics that the worker writes, as the brokers describe them.
type Topics struct {
	Outputs [outputCount]Topic

	mu         sync.RWMutex
	changelogs map[string]*Topic // by input topic
}

// NewTopics returns Topics without any.
func NewTopics() *Topics { return &Topics{changelogs: map[string]*Topic{}} }

// Changelog returns the changelog of an input topic; nil without one.
func (t *Topics) Changelog(input string) *Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.changelogs[input]
}

// SetChangelog adds the changelog of an input topic.
func (t *Topics) SetChangelog(input string, log *Topic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changelogs[input] = log
}

// Changelogs returns those that there are, by input topic.
func (t *Topics) Changelogs() map[string]*Topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return maps.Clone(t.changelogs)
}

// Topic is a topic that the worker writes. Its name is empty where there is none.
type Topic struct {
	Name       string
	Partitions int
	BatchBytes int // bound of a batch, below the topic's max.message.bytes
	// Apart says that no batch has output of two input partitions, to find out the output of which one brokers refuse.
	Apart bool
}

// LeastBatch is the smallest bound of a batch that is tried.
const LeastBatch = 512

// topicSlack is left of max.message.bytes for the batch header and estimates.
const topicSlack = 4 << 10

// OpenTopics asks the brokers for the output topics, which must exist. maxBytes bounds a batch, also below
// a topic's max.message.bytes. The error joins the faults of all topics. There are no
// changelogs yet.
func OpenTopics(ctx context.Context, admin *kafka.Admin, names *TopicNames, maxBytes int) (*Topics, error) {
	var errs []error
	t := NewTopics()
	for i := range Outputs {
		spec, most := &Outputs[i], maxBytes
		if spec.Copies {
			most = math.MaxInt32 // as large as the records of the input are
		}
		var err error
		t.Outputs[i], err = LookupTopic(ctx, admin, names[i], strings.ToLower(spec.Setting), maxBytes, most)
		errs = append(errs, err, t.Outputs[i].holds(spec))
	}
	return t, errors.Join(errs...)
}

// LookupTopic asks the brokers for a topic, which must exist; an empty name gives none.
// setting says in errors where the name comes from. A batch is bounded by maxBytes
// where the topic's max.message.bytes is not known, and else by that and by most.
func LookupTopic(ctx context.Context, admin *kafka.Admin, name, setting string, maxBytes, most int) (Topic, error) {
	if name == "" {
		return Topic{}, nil
	}
	infos, err := admin.Topics(ctx, name)
	switch {
	case err != nil:
		return Topic{}, fmt.Errorf("cycle: topic %q (%s): %w", name, setting, err)
	case !infos[name].Authorized:
		return Topic{}, fmt.Errorf("cycle: topic %q (%s) may not be described: allow the worker Describe and Write on it", name, setting)
	case !infos[name].Exists:
		return Topic{}, fmt.Errorf("cycle: topic %q (%s) does not exist: create it or set create_topics=true", name, setting)
	}
	t := Topic{Name: name, Partitions: infos[name].Partitions, BatchBytes: maxBytes}
	if conf, err := admin.TopicConfig(ctx, name); err == nil {
		if n, err := strconv.Atoi(conf["max.message.bytes"]); err == nil {
			t.BatchBytes = min(most, max(n-topicSlack, n/2, LeastBatch))
		}
	}
	return t, nil
}

// holds refuses a topic that does not hold the largest record of its row.
func (t *Topic) holds(spec *TopicSpec) error {
	if t.Name == "" || t.BatchBytes >= spec.LargestRecord {
		return nil
	}
	return fmt.Errorf("cycle: topic %q (%s) takes batches of %d bytes, and one of %s with its headers has up to %d: "+
		"raise its max.message.bytes and max_message_bytes, or %s", t.Name, strings.ToLower(spec.Setting), t.BatchBytes, spec.Holds,
		spec.LargestRecord, spec.Fix)
}

// Role returns what a topic that the worker writes is to it, for messages.
func (t *Topics) Role(name string) string {
	for i := range t.Outputs {
		if t.Outputs[i].Name == name {
			return "the topic of " + strings.ToLower(Outputs[i].Setting)
		}
	}
	for input, log := range t.Changelogs() {
		if log.Name == name {
			return "the changelog of " + input
		}
	}
	return "no topic of this worker"
}

// Output returns the output topic of a name; nil: there is none.
func (t *Topics) Output(name string) *Topic {
	for i := range t.Outputs {
		if t.Outputs[i].Name == name && name != "" {
			return &t.Outputs[i]
		}
	}
	return nil
}

// Shrink halves the bound of a topic's batches, after brokers have refused one of that
// size. It returns the bound, or 0 for a topic that the worker does not write.
func (t *Topics) Shrink(name string) (batchBytes int) {
	halve := func(t *Topic) {
		if t.Name == name {
			t.BatchBytes = max(t.BatchBytes/2, LeastBatch)
			batchBytes = t.BatchBytes
		}
	}
	for i := range t.Outputs {
		halve(&t.Outputs[i])
	}
	for _, log := range t.Changelogs() {
		halve(log)
	}
	return batchBytes
}
