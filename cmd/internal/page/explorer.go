package page

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
	"odradek/schemas"
	"odradek/schemas/output"
)

// This file answers what the page asks of a whole group, from the topics that its workers write and read:
// anomalies, the feedback of operators on them, and the values and scores of one series. It joins no group and shares
// nothing with the partitions of the worker but the Kafka client.
//
// The anomalies and feedback topics are read only on demand: from a request until idle later, in one
// goroutine (Run). Memory is bounded (store). A series is read when it is asked for, one at a time, in the request's own
// goroutine, 64 MiB at most (series.go); so is the block of an anomaly, 16 MiB at most (blocks.go), and a backtest, one at a time beside
// these (backtest.go).

// Config says which topics an Explorer reads.
type Config struct {
	Client *kafka.Client
	Input  // of the topics whose mapping is not in Inputs
	// Inputs has the inputs of topics with a mapping, by its name, which NameOf returns; nil: there are none.
	Inputs    map[string]*Input
	NameOf    func(topic string) string
	Anomalies string          // topic; "": none is written
	Shadow    string          // topic of the anomalies in shadow mode; "": none is written
	Scores    string          // topic; "": none is written
	Blocks    string          // topic; "": none is written
	Partial   bool            // the scores topic has only scores above their threshold
	Feedback  *feedback.Topic // nil: none is read
	Backtests *Backtests      // nil: none are run
	Log       *slog.Logger
}

// Input says how the records of an input topic are read.
type Input struct {
	Decoder   schemas.Decoder // of its records
	Series    []string        // as of schemas.NewSplitter
	Fields    []string        // names of the values of a sample
	Detectors []Detector
	Derived   bool // detectors have what TRANSFORM or EVERY makes of the values
}

// input returns the Input of a topic.
func (c *Config) input(topic string) *Input {
	if c.NameOf != nil {
		if in := c.Inputs[c.NameOf(topic)]; in != nil {
			return in
		}
	}
	return &c.Input
}

// detectors returns the detectors of all topics, each name once.
func (c *Config) detectors() []Detector {
	all := slices.Clone(c.Detectors)
	for _, name := range slices.Sorted(maps.Keys(c.Inputs)) {
		for _, d := range c.Inputs[name].Detectors {
			if !slices.ContainsFunc(all, func(o Detector) bool { return o.Name == d.Name }) {
				all = append(all, d)
			}
		}
	}
	return all
}

// detector returns a detector; nil for none of that name.
func (in *Input) detector(name string) *Detector {
	i := slices.IndexFunc(in.Detectors, func(d Detector) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &in.Detectors[i]
}

// Detector describes a detector for the page.
type Detector struct {
	Name, Op, Configured string
	Fields               []string // names of the values that it scores
	Fixed                float64  // threshold of a detector with a fixed one; NaN for another one
	// Heatmap says whether the detector's blocks are heatmaps, and Lead how many samples a task has before those that are in it.
	Heatmap bool
	Lead    int
	Grid    *Grid                 // nil: the detector has none
	Judged  bool                  // its scores make anomalies
	Shadow  bool                  // it is in shadow mode
	Reads   func(key []byte) bool // the series that it reads; nil: all
}

const (
	// idle is the time without a request after which nothing is read any more.
	idle = time.Minute
	// pollEvery is the time between two polls of the topics.
	pollEvery = 500 * time.Millisecond
	// mostBackoff bounds the time between two polls that fail.
	mostBackoff = 15 * time.Second
	// pollTimeout bounds one poll.
	pollTimeout = 30 * time.Second
	// mostRecords bounds the records of a topic that are read before its end.
	mostRecords = 200_000
)

// Explorer implements DataSource.
type Explorer struct {
	c       *Config
	asked   atomic.Int64 // unix ns of the last request
	wake    chan struct{}
	reading chan struct{} // holds a token while a series is read
	testing chan struct{} // holds a token while a backtest runs
	limits  backtestBounds
	trouble metrics.FailureLog

	mu     sync.Mutex
	store  store // of anomalies
	shadow store // of those in shadow mode
	labels feedbackStore
	fault  string        // of the last poll; "" where it succeeded
	ready  bool          // a poll has succeeded since the last pause
	wrote  string        // fault of the feedback topic
	known  bool          // the feedback topic was read since the last pause
	polled chan struct{} // closed by the first poll after a pause
}

// New returns an Explorer that reads nothing before Run is called and a request comes.
func New(c *Config) *Explorer {
	return &Explorer{c: c, wake: make(chan struct{}, 1), reading: make(chan struct{}, 1), testing: make(chan struct{}, 1),
		limits: usualBounds, store: newStore(c), shadow: newStore(c),
		labels: newFeedbackStore(), polled: make(chan struct{})}
}

// Start returns an Explorer that runs until ctx ends or stop is called; stop waits for its end.
func Start(ctx context.Context, c *Config) (e *Explorer, stop func()) {
	e = New(c)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx)
	}()
	return e, func() {
		cancel()
		<-done
	}
}

// Run follows the topics until ctx ends.
func (e *Explorer) Run(ctx context.Context) {
	tailOf := func(topic string, s *store) *tail {
		return &tail{client: e.c.Client, topic: topic, most: mostRecords,
			add: func(rec *record.Record, partition int32) { e.takeAnomaly(s, rec, partition) },
			forget: func(p int32) {
				e.mu.Lock()
				defer e.mu.Unlock()
				s.forget(p)
			}}
	}
	anomalies, shadow := tailOf(e.c.Anomalies, &e.store), tailOf(e.c.Shadow, &e.shadow)
	feedback := &tail{client: e.c.Client, topic: e.feedbackTopic(), most: mostRecords, add: e.takeFeedback, forget: func(p int32) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.labels.forget(p)
	}}
	tails := []*tail{anomalies, shadow, feedback}
	defer func() {
		for _, t := range tails {
			t.close()
		}
	}()
	pause := pollEvery
	for {
		select {
		case <-e.wake: // of a request while nothing slept, whose time is in asked
		default:
		}
		if time.Since(time.Unix(0, e.asked.Load())) > idle {
			for _, t := range tails {
				t.close() // its connection's requests end; where it was read up to stays known
			}
			e.pause()
			select {
			case <-ctx.Done():
				return
			case <-e.wake:
			}
			pause = pollEvery
		}
		err := e.poll(ctx, anomalies, shadow, feedback)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = min(2*pause, mostBackoff)
		} else {
			pause = pollEvery
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (e *Explorer) poll(ctx context.Context, anomalies, shadow, feedback *tail) error {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	read := func(t *tail) (err error) {
		if t.topic == "" {
			return nil
		}
		missing := (*missingError)(nil)
		if err = t.poll(ctx); errors.As(err, &missing) {
			err = nil // it will be made
		}
		if err != nil {
			t.close()
		}
		return err
	}
	err := errors.Join(read(anomalies), read(shadow))
	feedbackErr := read(feedback)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault, e.wrote = text(err), text(feedbackErr)
	e.ready, e.known = e.ready || err == nil, e.known || feedbackErr == nil
	if !isClosed(e.polled) {
		close(e.polled)
	}
	e.store.truncated = e.store.truncated || anomalies.truncated
	e.shadow.truncated = e.shadow.truncated || shadow.truncated
	e.labels.truncated = e.labels.truncated || feedback.truncated
	if err = errors.Join(err, feedbackErr); err != nil && ctx.Err() == nil {
		e.trouble.Warn(e.c.Log, "explorer", "the page cannot read topics of the group; it shows what it has read", "err", err)
	} else if err == nil {
		e.trouble.Over(e.c.Log, "explorer")
	}
	return err
}

// pause has requests wait for the next poll: what is known gets old.
func (e *Explorer) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ready, e.known = false, false
	if isClosed(e.polled) {
		e.polled = make(chan struct{})
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Await implements DataSource.
func (e *Explorer) Await(ctx context.Context) {
	e.ask()
	e.mu.Lock()
	polled := e.polled
	e.mu.Unlock()
	select {
	case <-polled:
	case <-ctx.Done():
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (e *Explorer) takeAnomaly(s *store, rec *record.Record, partition int32) {
	a, err := output.DecodeAnomaly(rec.Value)
	if err != nil {
		return // of another program; every reader of the topic meets it
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s.apply(&a, rec, partition)
}

func (e *Explorer) takeFeedback(rec *record.Record, partition int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.labels.apply(rec, partition)
}

// feedbackTopic returns the name of the topic; "" without one.
func (e *Explorer) feedbackTopic() string {
	if e.c.Feedback == nil {
		return ""
	}
	return e.c.Feedback.Name
}

// ask has Run read for a while.
func (e *Explorer) ask() {
	e.asked.Store(time.Now().UnixNano())
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Anomalies implements DataSource.
func (e *Explorer) Anomalies(q *AnomalyQuery) AnomalyList {
	e.ask()
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.store.list(q, &e.labels)
	list.Loading, list.Truncated, list.Fault, list.Topic = !e.ready, e.store.truncated, e.fault, e.c.Anomalies
	if e.c.Anomalies == "" {
		list.Loading, list.Fault = false, "no anomalies are published (ODRADEK_ANOMALIES)"
	}
	list.Now = time.Now().UTC()
	return list
}

// Anomaly implements DataSource.
func (e *Explorer) Anomaly(id string) (Anomaly, error) {
	e.ask()
	e.mu.Lock()
	defer e.mu.Unlock()
	stored, err := e.find(id)
	if err != nil {
		return Anomaly{}, err
	}
	return e.store.complete(stored, &e.labels), nil
}

// find returns the anomaly of an id, in shadow mode or not. The caller holds mu.
func (e *Explorer) find(id string) (*storedAnomaly, error) {
	var key [16]byte
	if n, err := hex.Decode(key[:], []byte(id)); len(id) != 2*len(key) || err != nil || n != len(key) {
		return nil, &Error{Code: http.StatusBadRequest, Text: "page: an id has 32 hexadecimal digits"}
	}
	for _, s := range []*store{&e.store, &e.shadow} {
		if stored := s.byID[key]; stored != nil {
			return stored, nil
		}
	}
	if !e.ready {
		return nil, &Error{Code: http.StatusServiceUnavailable, Text: "page: the anomalies topic is being read; ask again in a second"}
	}
	return nil, &Error{Code: http.StatusNotFound,
		Text: "page: no such anomaly among those in memory; older ones are in the topic only"}
}

// Feedback implements DataSource.
func (e *Explorer) Feedback() FeedbackList {
	e.ask()
	e.mu.Lock()
	defer e.mu.Unlock()
	return FeedbackList{Feedback: e.labels.list(), Loading: !e.known, Truncated: e.labels.truncated,
		Topic: e.feedbackTopic(), Fault: e.wrote}
}

// WriteFeedback implements DataSource.
func (e *Explorer) WriteFeedback(ctx context.Context, f *Feedback) (*Feedback, error) {
	e.ask()
	if e.c.Feedback == nil {
		return nil, &Error{Code: http.StatusConflict, Text: "page: ODRADEK_FEEDBACK_TOPIC is off: the workers read none"}
	}
	rec, err := recordOf(f, e.c.detectors())
	if err != nil {
		return nil, &Error{Code: http.StatusBadRequest, Text: err.Error()}
	}
	if rec.Anomaly != "" {
		e.mu.Lock()
		rec.Alarm = e.store.alarm(rec.Anomaly)
		e.mu.Unlock()
	}
	if err := e.c.Feedback.Say(ctx, rec); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	e.c.Log.Info("feedback was written by the page", "topic", e.c.Feedback.Name, "id", rec.ID, "kind", output.FeedbackKinds[rec.Kind])
	written := feedbackOf(rec)
	return &written, nil
}

// RemoveFeedback implements DataSource.
func (e *Explorer) RemoveFeedback(ctx context.Context, id string) error {
	e.ask()
	if e.c.Feedback == nil {
		return &Error{Code: http.StatusConflict, Text: "page: ODRADEK_FEEDBACK_TOPIC is off: the workers read none"}
	}
	ok, err := e.c.Feedback.TakeBack(ctx, id, func(error) {}) // the worker that follows the topic logs it
	if err != nil {
		return fmt.Errorf("page: %w", err)
	}
	if !ok {
		return &Error{Code: http.StatusNotFound, Text: fmt.Sprintf("page: %s has no record %q", e.c.Feedback.Name, id)}
	}
	e.c.Log.Info("feedback was removed by the page", "topic", e.c.Feedback.Name, "id", id)
	return nil
}
