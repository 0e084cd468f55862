package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os/exec"
	"strings"
	"sync"
	"time"

	_ "embed"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// outputs are the records of a group's topics, by identity.
type outputs struct {
	scores    map[scoreID]uint64 // the hash of each
	anomalies map[revision]uint64
	texts     map[revision][]byte // of the anomalies
	levels    map[at]float64      // scores of detector level; NaN where it is missing or warming up
	doubled   int
	altered   int               // doubled with other bytes
	digest    map[string]digest // by topic
	examples  []string
	alike     map[string]int // faults by how their words begin
}

func newOutputs() *outputs {
	return &outputs{scores: map[scoreID]uint64{}, anomalies: map[revision]uint64{}, texts: map[revision][]byte{},
		levels: map[at]float64{}, digest: map[string]digest{}, alike: map[string]int{}}
}

// scoreID is the identity of a score.
type scoreID struct {
	at
	detector string
}

// revision is the identity of a record of an anomaly.
type revision struct {
	id string
	n  int64
}

// digest says what a topic has, for another reader to compare: the records, and the sum of their checksums.
type digest struct {
	Records int64  `json:"records"`
	Sum     uint64 `json:"sum"`
}

func (d *digest) add(key, value []byte) {
	d.Records++
	d.Sum += uint64(crc32.Update(crc32.ChecksumIEEE(key), crc32.IEEETable, value))
}

// source is where a record came from.
type source struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// read reads what a group has published; with committed false also what its aborted transactions wrote.
func read(ctx context.Context, c *kafkatest.Cluster, group string, committed bool) (*outputs, error) {
	o := newOutputs()
	for suffix, check := range map[string]func(*kafkatest.Record) error{"-scores": o.score, "-anomalies": o.anomaly} {
		topic := group + suffix
		if err := c.Admin().WaitStable(ctx, topic); err != nil {
			return nil, err
		}
		var d digest
		err := c.Admin().Read(ctx, topic, committed, func(r *kafkatest.Record) error {
			d.add(r.Key, r.Value)
			return check(r)
		})
		if err != nil {
			return nil, err
		}
		o.digest[topic] = d
	}
	return o, nil
}

func (o *outputs) score(r *kafkatest.Record) error {
	err := eachScore(r.Value, func(id scoreID, score float64, text []byte) { o.scored(id, score, sum(r.Key, text)) })
	if err != nil {
		return fmt.Errorf("score at %v offset %d: %w", r.TP(), r.Offset, err)
	}
	return nil
}

// eachScore calls f with each score of a record, a run of them or one, and with all that was published of it.
func eachScore(value []byte, f func(id scoreID, score float64, text []byte)) error {
	var s struct {
		Detector string   `json:"detector"`
		Score    *float64 `json:"score"`
		Source   source   `json:"source"`
		Version  int      `json:"version"` // of a run of scores; 0: it is one score
	}
	if err := json.Unmarshal(value, &s); err != nil {
		return err
	}
	if s.Version == 0 {
		score := math.NaN()
		if s.Score != nil {
			score = *s.Score
		}
		f(scoreID{at{s.Source.Partition, s.Source.Offset}, s.Detector}, score, value)
		return nil
	}
	list, err := output.DecodeScores(nil, value)
	for i := range list {
		s := &list[i]
		f(scoreID{at{s.Partition, s.Offset}, s.Detector}, s.Score,
			fmt.Append(nil, s.Key, s.EventTime, s.ScoreTime, math.Float64bits(s.Score), s.State, s.Remaining))
	}
	return err
}

// scored takes a score, with the hash of all that was published of it.
func (o *outputs) scored(id scoreID, value float64, hash uint64) {
	first, ok := o.scores[id]
	o.scores[id] = hash
	if ok {
		o.again(first != hash, "score of %s at %v", id.detector, id.at)
	}
	if id.detector == level {
		o.levels[id.at] = value
	}
}

func (o *outputs) anomaly(r *kafkatest.Record) error {
	var a struct {
		ID       string `json:"id"`
		Revision int64  `json:"revision"`
	}
	if err := json.Unmarshal(r.Value, &a); err != nil {
		return fmt.Errorf("anomaly at %v offset %d: %w", r.TP(), r.Offset, err)
	}
	id := revision{a.ID, a.Revision}
	first, ok := o.anomalies[id]
	o.anomalies[id], o.texts[id] = sum(r.Key, r.Value), r.Value
	if ok {
		o.again(first != o.anomalies[id], "anomaly %s, revision %d", id.id, id.n)
	}
	return nil
}

// again counts an output that was there before.
func (o *outputs) again(altered bool, format string, args ...any) {
	o.doubled++
	how := "doubled: "
	if altered {
		o.altered++
		how = "doubled with other bytes: "
	}
	o.example(how+format, args...)
}

// example keeps the first two faults in words that begin with the same three.
func (o *outputs) example(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	alike := strings.Join(strings.SplitN(text, " ", 4)[:min(3, strings.Count(text, " ")+1)], " ")
	if o.alike[alike]++; o.alike[alike] <= 2 {
		o.examples = append(o.examples, text)
	}
}

// compare counts what differs from the outputs of an undisturbed worker.
func (o *outputs) compare(want *outputs, res *Result) {
	count(want.scores, o.scores, res, func(id scoreID, how string) { o.example("%s: score of %s at %v", how, id.detector, id.at) })
	count(want.anomalies, o.anomalies, res, func(id revision, how string) {
		o.example("%s: anomaly %s, revision %d: %s, undisturbed %s", how, id.id, id.n, o.texts[id], want.texts[id])
	})
	res.Doubled += o.doubled
	res.Differing += o.altered
	res.Scores, res.Anomalies = len(o.scores), len(o.anomalies)
}

func count[K comparable](want, got map[K]uint64, res *Result, example func(K, string)) {
	for id, sum := range want {
		switch other, ok := got[id]; {
		case !ok:
			res.Lost++
			example(id, "lost")
		case other != sum:
			res.Differing++
			example(id, "differing")
		}
	}
	for id := range got {
		if _, ok := want[id]; !ok {
			res.Differing++
			example(id, "unknown to the undisturbed worker")
		}
	}
}

// plain compares the scores of detector level with the scores that a program of 20 lines computes. Where records may be late, one
// without a score is.
func (o *outputs) plain(input []kafkatest.Record, mayBeLate bool, res *Result) error {
	before := map[string][]float64{}
	for i := range input {
		r := &input[i]
		value, err := readingValue(r.Value)
		if err != nil {
			return err
		}
		place := at{r.Partition, r.Offset}
		got, ok := o.levels[place]
		if value == nil { // left out
			if ok {
				res.Differing++
				o.example("differing: a score of %s at %v, where the value is missing", level, place)
			}
			continue
		}
		if !ok && mayBeLate {
			continue
		}
		series := fmt.Sprint(r.Partition, " ", string(r.Key))
		past := before[series]
		if want := zscore(past, *value); !ok || !near(want, got) {
			res.Differing++
			o.example("differing: score of %s at %v is %v, by the plain program %v", level, place, got, want)
		}
		past = append(past, *value)
		before[series] = past[max(0, len(past)-levelWindow+1):]
	}
	return nil
}

// zscore is the score of a value after those before it, in their standard deviations; NaN while they are too few.
func zscore(past []float64, v float64) float64 {
	if len(past) < levelWindow-1 {
		return math.NaN()
	}
	var mean, ss float64
	for _, x := range past {
		mean += x / float64(len(past))
	}
	for _, x := range past {
		ss += (x - mean) * (x - mean)
	}
	return math.Abs(v-mean) / math.Sqrt(ss/float64(len(past)))
}

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-6*(1+math.Abs(a))
}

// check reads the outputs of the fleet and of the undisturbed worker and compares them.
func (r *round) check(input string, acked map[at]uint64, res *Result) error {
	ctx, cancel := context.WithTimeout(r.ctx, 5*time.Minute+r.Round)
	defer cancel()
	var records []kafkatest.Record
	var got, want *outputs
	err := together(
		func() (err error) { records, err = r.c.Admin().ReadAll(ctx, input, true); return err },
		func() (err error) { got, err = read(ctx, r.c, r.group(), true); return err },
		func() (err error) { want, err = read(ctx, r.c, r.group()+"-ref", true); return err })
	if err != nil {
		return err
	}
	found := 0
	for i := range records {
		if s, ok := acked[at{records[i].Partition, records[i].Offset}]; ok && s == sum(records[i].Key, records[i].Value) {
			found++
		}
	}
	if lost := len(acked) - found; lost > 0 {
		res.Lost += lost
		got.example("lost by the brokers: %d records of the input", lost)
	}
	got.compare(want, res)
	if err := got.plain(records, r.kind.name == clocks, res); err != nil {
		return err
	}
	if len(want.anomalies) == 0 {
		return errors.New("the undisturbed worker found no anomaly: the round shows too little")
	}
	if r.Guarantee != atLeastOnce {
		res.Transactions, err = r.audit(ctx, input, got, func(format string, args ...any) {
			res.Differing++
			got.example("the log: "+format, args...)
		})
		if err != nil {
			return err
		}
	}
	if r.Python != "" {
		if err := r.second(ctx, got, res); err != nil {
			return err
		}
	}
	res.Examples = strings.Join(got.examples, "; ")
	return nil
}

// together calls the functions at once, and returns their errors.
func together(each ...func() error) error {
	errs := make([]error, len(each))
	var wg sync.WaitGroup
	for i, f := range each {
		wg.Go(func() { errs[i] = f() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

//go:embed reader.py
var reader string

// second has the topics read by librdkafka, which has to find the same.
func (r *round) second(ctx context.Context, got *outputs, res *Result) error {
	for topic, want := range got.digest {
		cmd := exec.CommandContext(ctx, r.Python, "-", strings.Join(r.c.Brokers, ","), topic)
		cmd.Stdin = strings.NewReader(reader)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("the second reader: %w: %.500s", err, errs.String())
		}
		var d digest
		if err := json.Unmarshal(out, &d); err != nil {
			return fmt.Errorf("the second reader: %w: %.200s", err, out)
		}
		if d != want {
			res.Differing++
			got.example("differing: %s has %+v for librdkafka, %+v for franz-go", topic, d, want)
		}
	}
	res.Readers = 2
	return nil
}
