package processor

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/metrics"
)

// A topic that the worker writes may be deleted while the worker runs. Brokers answer a produce to it as to a topic that
// was created just now and is not known everywhere, so the commit tries until the transaction's time-out; a worker without
// input has no sign at all. Therefore a goroutine of its own, which no commit holds up, asks for the topics every two
// seconds.
//
// A topic of outputs is created again where that is allowed, and the commit that is being tried goes on with it. A
// changelog and a topic that the worker itself reads are not: what they held is lost, and empty ones would hide that.

// missingInterval is the time between two looks for the topics that the worker writes.
const missingInterval = 2 * time.Second

// missing finds topics that the worker writes and that do not exist any more.
type missing struct {
	cfg      *Config
	log      *slog.Logger
	trouble  *metrics.FailureLog
	topics   *cycle.Topics
	assigned *assignment

	found map[string]bool // faults that are logged, by topic; only run's goroutine has it
	fault atomic.Pointer[error]
}

// run looks for the topics until ctx ends.
func (m *missing) run(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(m.cfg.Hooks.MetadataInterval, missingInterval))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.look(ctx)
		}
	}
}

// err returns why one of the topics cannot be written, as the last look found; nil for none.
func (m *missing) err() error {
	if e := m.fault.Load(); e != nil {
		return *e
	}
	return nil
}

// writtenTopic is a topic that the worker writes.
type writtenTopic struct {
	name       string
	partitions int          // 0: not compared
	output     cycle.Output // -1: a changelog
	input      string       // of a changelog
}

// written lists the output topics, and the changelogs of the inputs of which the worker has partitions.
func (m *missing) written() (list []writtenTopic) {
	for i := range m.topics.Outputs {
		if t := &m.topics.Outputs[i]; t.Name != "" {
			list = append(list, writtenTopic{name: t.Name, partitions: t.Partitions, output: cycle.Output(i)})
		}
	}
	listed := map[string]bool{}
	for _, pt := range m.assigned.list() {
		if log := m.topics.Changelog(pt.Topic); log != nil && !listed[log.Name] {
			listed[log.Name] = true
			list = append(list, writtenTopic{name: log.Name, output: -1, input: pt.Topic})
		}
	}
	return list
}

// look asks the brokers for the topics once.
func (m *missing) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list := m.written()
	names := make(map[string]bool, len(list))
	for _, t := range list {
		names[t.name] = true
		if t.input != "" {
			names[t.input] = true
		}
	}
	infos, err := m.cfg.Client.Admin.Topics(ctx, slices.Collect(maps.Keys(names))...)
	if err != nil {
		return // fetches and commits say what is wrong with the brokers
	}
	var fault error
	for i := range list {
		t := &list[i]
		info := infos[t.name]
		switch {
		case !info.Authorized: // it cannot be seen
			continue
		case t.input != "" && infos[t.input].Authorized && !infos[t.input].Exists: // its partitions end with the input
			continue
		case info.Exists && info.Partitions >= t.partitions:
			m.back(t)
			continue
		case info.Exists:
			err = m.narrower(t, info.Partitions)
		case !m.cfg.Client.Admin.Unknown(ctx, t.name): // not every broker knows it yet
			continue
		default:
			err = m.deleted(ctx, t)
		}
		if fault == nil {
			fault = err
		}
	}
	if fault == nil {
		m.fault.Store(nil)
		return
	}
	m.fault.Store(&fault)
}

// first reports whether a topic's fault is not logged yet.
func (m *missing) first(t *writtenTopic) bool {
	if m.found[t.name] {
		return false
	}
	if m.found == nil {
		m.found = map[string]bool{}
	}
	m.found[t.name] = true
	return true
}

// back notes that a topic is there.
func (m *missing) back(t *writtenTopic) {
	if !m.found[t.name] {
		return
	}
	delete(m.found, t.name)
	if t.output < 0 {
		m.log.Error("the changelog exists again, without the state that it held: the next restore of its partitions is refused", "topic", t.name,
			"input", t.input, "decide", decideState(t.input))
		return
	}
	m.log.Info("the topic exists again", "topic", t.name)
}

// decideState names the ways out where the state of an input topic is lost.
func decideState(input string) string {
	return "stop the workers and run worker state reset -topic " + input + ", or start them with state_lost=reset"
}

// narrower handles a topic that was created again with fewer partitions, such as by a broker at the request of a consumer.
func (m *missing) narrower(t *writtenTopic, partitions int) error {
	if m.first(t) {
		m.log.Error("an output topic has fewer partitions than before: it was deleted and created again", "topic", t.name,
			"partitions", partitions, "before", t.partitions, "decide", "give it as many as before, or restart the workers")
	}
	return fmt.Errorf("processor: output topic %s has %d partitions, and had %d", t.name, partitions, t.partitions)
}

// deleted handles a topic that does not exist any more, and returns nil if it does again.
func (m *missing) deleted(ctx context.Context, t *writtenTopic) error {
	first := m.first(t)
	gone := fmt.Errorf("processor: output topic %s does not exist any more", t.name)
	switch {
	case t.output < 0:
		if first {
			m.log.Error("a changelog was deleted: it is not created again, because its state is lost", "topic", t.name, "input", t.input,
				"decide", decideState(t.input))
		}
		return fmt.Errorf("processor: changelog %s does not exist any more", t.name)
	case cycle.Outputs[t.output].Internal:
		if first {
			m.log.Error("an internal topic was deleted: it is not created again, because records that were not processed are lost",
				"topic", t.name, "decide", decideState(t.name))
		}
	case m.cfg.CreateOutput == nil:
		if first {
			m.log.Error("an output topic was deleted", "topic", t.name, "partitions", t.partitions,
				"decide", fmt.Sprintf("create it with %d partitions (create_topics is false)", t.partitions))
		}
	default:
		if first {
			m.log.Error("an output topic was deleted with what it held: creating it again", "topic", t.name, "partitions", t.partitions)
		}
		m.fault.Store(&gone) // while it is being created
		err := m.cfg.CreateOutput(ctx, t.output, t.partitions)
		if err == nil {
			m.back(t)
			return nil
		}
		m.trouble.Warn(m.log, "missing: "+t.name, "an output topic that was deleted cannot be created again", "topic", t.name, "err", err)
	}
	return gone
}
