package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"

	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
)

// Limits of what is read of a series, and answered.
const (
	budget     = 64 << 20 // bytes of keys and values, of all topics together
	fetchBytes = 2 << 20  // bytes that are asked for at a time, about
	mostFields = 16       // fields that are answered
	// overhead is about what a record takes in a batch beside its key and value.
	overhead = 12
)

// Series implements DataSource. It reads the input around the record that caused the anomaly, first before and then
// after it, and then the scores of the same event times, which the workers wrote at about the same time.
func (e *Explorer) Series(ctx context.Context, q *SeriesQuery) (*Series, error) {
	e.ask()
	select { // one at a time: records are decoded on the cores that score
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return nil, errors.New("page: another series is being read; try again")
	}
	r := &reading{
		e:     e,
		key:   q.Key,
		scope: scopeOf(q.Topic, q.Partition),
		most:  q.Samples,
		out: &Series{Key: q.Key, Budget: budget, Fields: []string{}, Times: []float64{},
			Values: [][]Number{}, Usual: []Band{}, Scores: []Scores{}, Anomalies: []Anomaly{}, Notes: []string{}},
	}
	r.fetcher = kafka.NewFetcher(e.c.Client, kafka.FetchConfig{ReadCommitted: true})
	defer r.fetcher.Close()
	if err := r.find(ctx, q.Anomaly); err != nil {
		return nil, err
	}
	if err := r.samples(ctx); err != nil {
		return nil, err
	}
	if err := r.scores(ctx); err != nil {
		return nil, err
	}
	r.answer()
	return r.out, nil
}

// sample is a sample of the series.
type sample struct {
	time   int64
	values []float64
}

// point is a score of the series.
type point struct {
	time  int64
	score float64
	output.Prediction
}

// reading reads a series.
type reading struct {
	e       *Explorer
	key     string
	scope   feedback.Scope // of the series; from find on, its partition
	raw     []byte         // the key as it is
	most    int
	fetcher *kafka.Fetcher
	out     *Series

	anomalies []*storedAnomaly // of the series
	anchor    kafka.TP
	offset    int64 // in anchor, of the record to read around
	written   int64 // when the scores of that record were written, ms; -1: not known, the newest
	list      []sample
	points    map[string][]point
	decoded   []output.Score // of one record
}

func (r *reading) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, args...))
}

// find sets where to read.
func (r *reading) find(ctx context.Context, id string) error {
	r.e.mu.Lock()
	r.anomalies = r.e.store.ofSeries(r.key, r.scope)
	for _, a := range r.e.shadow.ofSeries(r.key, r.scope) { // shown only where it is asked for
		if fmt.Sprintf("%x", a.a.ID) == id {
			r.anomalies = append(r.anomalies, a)
		}
	}
	r.e.mu.Unlock()
	r.raw = []byte(r.key)
	var anomaly *storedAnomaly
	for _, a := range r.anomalies {
		if id == "" || fmt.Sprintf("%x", a.a.ID) == id {
			anomaly = a // of several the one that began last
		}
	}
	if anomaly == nil && id != "" {
		return &Error{Code: http.StatusNotFound, Text: "page: the series has no such anomaly among those in memory"}
	}
	if anomaly != nil {
		r.raw = anomaly.key
		r.anchor, r.offset, r.written = kafka.TP{Topic: anomaly.a.Topic, Partition: anomaly.a.Partition}, anomaly.a.Offset, anomaly.written
	} else if err := r.findScore(ctx); err != nil {
		return err
	}
	r.scope = feedback.Scope{Topic: r.anchor.Topic, Partition: r.anchor.Partition}
	r.anomalies = slices.DeleteFunc(r.anomalies, func(a *storedAnomaly) bool { return !r.scope.Covers(a.a.Topic, a.a.Partition) })
	r.out.Anchor = &Origin{Topic: r.anchor.Topic, Partition: r.anchor.Partition, Offset: r.offset}
	return nil
}

// findScore searches for the newest score of a series without anomalies, and reads at its source.
func (r *reading) findScore(ctx context.Context) error {
	tp, first, end, err := r.scoresPartition(ctx)
	if err != nil {
		return err
	}
	found := false
	if tp.Topic != "" {
		err = r.back(ctx, tp, first, end, budget/4, func(rec *record.Record) {
			r.decoded, _ = output.DecodeScores(r.decoded[:0], rec.Value)
			for _, s := range r.decoded {
				if seriesOf(s.Key) == r.key && r.scope.Covers(s.Topic, s.Partition) {
					r.anchor, r.offset, r.written = kafka.TP{Topic: s.Topic, Partition: s.Partition}, s.Offset, -1
					found = true
				}
			}
		}, func() func() { return func() {} }, func() bool { return found })
	}
	if err != nil {
		return err
	}
	if !found {
		return &Error{Code: http.StatusNotFound, Text: "page: the series has no anomaly in memory and no score near the end of the " +
			"scores topic"}
	}
	return nil
}

// scoresPartition returns the partition of the scores topic that the series is in, with its bounds; without a topic
// none.
func (r *reading) scoresPartition(ctx context.Context) (tp kafka.TP, first, end int64, err error) {
	topic := r.e.c.Scores
	if topic == "" {
		return tp, 0, 0, nil
	}
	infos, err := r.e.c.Client.Admin.Topics(ctx, topic)
	if err != nil {
		return tp, 0, 0, fmt.Errorf("page: topic %q: %w", topic, err)
	}
	if !infos[topic].Exists || infos[topic].Partitions == 0 {
		r.note("The scores topic %s does not exist, or may not be read.", topic)
		return tp, 0, 0, nil
	}
	tp = kafka.TP{Topic: topic, Partition: kafka.Partition(r.raw, infos[topic].Partitions)}
	first, end, err = r.e.bounds(ctx, tp)
	return tp, first, end, err
}

// bounds returns the offsets of a partition's first record and after its last stable one.
func (e *Explorer) bounds(ctx context.Context, tp kafka.TP) (first, end int64, err error) {
	firsts, err := e.c.Client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, kafka.Earliest)
	if err != nil {
		return 0, 0, fmt.Errorf("page: %s: %w", tp, err)
	}
	ends, err := e.c.Client.Offsets.ListStable(ctx, []kafka.TP{tp})
	if err != nil {
		return 0, 0, fmt.Errorf("page: %s: %w", tp, err)
	}
	return firsts[tp], ends[tp], nil
}

// span reads the records of [from, to), up to the first that room bytes do not hold, and returns their bytes. whole is false if there
// was one.
func (r *reading) span(
	ctx context.Context,
	tp kafka.TP,
	from, to, room int64,
	visit func(*record.Record),
) (size int64, whole bool, err error) {
	whole = true
	err = r.fetcher.ReadRange(ctx, tp, from, to, func(rec *record.Record) (bool, error) {
		own := int64(len(rec.Key) + len(rec.Value) + overhead)
		if whole = size+own <= room; !whole {
			return false, nil
		}
		size += own
		r.out.Records++
		visit(rec)
		return true, nil
	})
	if r.out.Bytes += size; err != nil {
		return size, whole, fmt.Errorf("page: %s from offset %d on: %w", tp, from, err)
	}
	return size, whole, nil
}

// firstSpan is the number of offsets that are asked for before the size of a record is known. Records may be of megabytes.
const firstSpan = 1

// back reads spans before the offset end, the last first, until done, the log's first offset, or room bytes. A span for which there is
// no room is read up to there, and then drop is called: what was taken of it does not reach the span after it.
func (r *reading) back(ctx context.Context, tp kafka.TP, first, end, room int64, visit func(*record.Record), keep func() (drop func()),
	done func() bool) error {
	n := int64(firstSpan)
	for end > first && room > 0 && !done() {
		from := max(first, end-n)
		drop := keep()
		size, whole, err := r.span(ctx, tp, from, end, room, visit)
		if err != nil {
			return err
		}
		room -= max(size, overhead)
		if !whole {
			drop()
			if n = (end - from) / 4; n == 0 {
				room = 0
			}
			continue
		}
		n, end = nextSpan(end-from, size, room), from
	}
	r.out.More = r.out.More || end > first && room <= 0
	return nil
}

// ahead reads spans from an offset on, as back does.
func (r *reading) ahead(ctx context.Context, tp kafka.TP, from, end, room int64, visit func(*record.Record), done func() bool) error {
	n := int64(firstSpan)
	for from < end && room > 0 && !done() {
		to := min(end, from+n)
		size, whole, err := r.span(ctx, tp, from, to, room, visit)
		if err != nil || !whole {
			return err
		}
		room -= max(size, overhead)
		n, from = nextSpan(to-from, size, room), to
	}
	return nil
}

// nextSpan returns the number of offsets to ask for next, at least one: about fetchBytes, no more than four times the last, and no
// more than there is room for.
func nextSpan(last, size, room int64) int64 {
	each := max(1, size/max(1, last))
	return max(1, min(4*last, fetchBytes/each, max(room, 0)/each))
}

// samples reads the input.
func (r *reading) samples(ctx context.Context) error {
	first, end, err := r.e.bounds(ctx, r.anchor)
	if err != nil {
		return err
	}
	if r.offset < first {
		r.note("The records of this anomaly are gone from %s by retention: its first offset is %d now.", r.anchor, first)
		r.offset = first
	}
	in := r.input()
	dec, split := in.Decoder.Clone(), schemas.NewSplitter(in.Series)
	reading := schemas.Reading{Partition: r.anchor.Partition}
	bad := 0
	to := &r.list
	visit := func(rec *record.Record) {
		header := rec.Header
		if rec.HeaderCount == 0 {
			header = nil
		}
		if err := dec.Decode(ctx, rec.Key, rec.Value, cycle.Timestamp(rec), header, &reading); err != nil {
			bad++
			return
		}
		for i := range split.Samples(&reading) {
			if key, at, values := split.Sample(&reading, i); bytes.Equal(key, r.raw) {
				*to = append(*to, sample{at, slices.Clone(values)})
			}
		}
	}
	middle := min(r.offset+1, end)
	keep := func() func() {
		n := len(r.list)
		return func() { r.list = r.list[:n] }
	}
	if err := r.back(ctx, r.anchor, first, middle, budget*3/8, visit, keep, func() bool { return len(r.list) >= r.most }); err != nil {
		return err
	}
	byTime := func(a, b sample) int { return int(max(-1, min(1, a.time-b.time))) }
	slices.SortStableFunc(r.list, byTime)
	if over := len(r.list) - r.most; over > 0 {
		r.list, r.out.More = r.list[over:], true
	}
	var after []sample
	to = &after
	if err := r.ahead(ctx, r.anchor, middle, end, budget/8, visit, func() bool { return len(after) >= r.most/2 }); err != nil {
		return err
	}
	slices.SortStableFunc(after, byTime)
	r.list = append(r.list, after[:min(len(after), r.most/2)]...)
	slices.SortStableFunc(r.list, byTime)
	if bad > 0 {
		r.note("%d of the records read could not be decoded.", bad)
	}
	if len(r.list) == 0 {
		r.note("No sample of the series is in the %d records read around offset %d of %s.", r.out.Records, r.offset, r.anchor)
	}
	return nil
}

// scores reads the scores of the event times of the samples.
func (r *reading) scores(ctx context.Context) error {
	r.points = map[string][]point{}
	if r.e.c.Scores == "" {
		r.note("Scores are not published (ODRADEK_SCORES=none).")
		return nil
	}
	if r.e.c.Partial {
		r.note("Only scores over their threshold are published (ODRADEK_SCORES=anomalous).")
	}
	tp, first, end, err := r.scoresPartition(ctx)
	if err != nil || tp.Topic == "" || len(r.list) == 0 {
		return err
	}
	low, high := r.list[0].time, r.list[len(r.list)-1].time
	at := end
	if r.written >= 0 {
		offsets, err := r.e.c.Client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, r.written)
		if err != nil {
			return fmt.Errorf("page: %s: %w", tp, err)
		}
		at = max(first, min(offsets[tp], end))
	}
	reached := map[string]*[2]int64{} // by detector, the score times of the earliest and the latest of its scores
	seen := 0                         // records of the series
	visit := func(rec *record.Record) {
		if !bytes.Equal(rec.Key, r.raw) {
			return
		}
		seen++
		r.decoded, _ = output.DecodeScores(r.decoded[:0], rec.Value)
		for _, s := range r.decoded {
			if !r.scope.Covers(s.Topic, s.Partition) {
				continue
			}
			if reached[s.Detector] == nil {
				reached[s.Detector] = &[2]int64{s.ScoreTime, s.ScoreTime}
			}
			times := reached[s.Detector]
			times[0], times[1] = min(times[0], s.ScoreTime), max(times[1], s.ScoreTime)
			if s.ScoreTime >= low && s.ScoreTime <= high {
				r.points[s.Detector] = append(r.points[s.Detector], point{s.ScoreTime, s.Score, s.Prediction})
			}
		}
	}
	// A detector with a stride, or one that scores samples behind the newest, is later than others. Of one that was not reached at all
	// some more records may tell.
	all := func(enough func(times *[2]int64) bool) func() bool {
		return func() bool {
			for i := range r.input().Detectors {
				if reached[r.input().Detectors[i].Name] == nil && seen < 4*len(r.input().Detectors) {
					return false
				}
			}
			for name, times := range reached {
				if r.input().detector(name) != nil && !enough(times) {
					return false
				}
			}
			return len(reached) > 0
		}
	}
	room := max(0, (budget-r.out.Bytes)/2)
	keep := func() func() {
		points := maps.Clone(r.points)
		return func() { r.points = points }
	}
	if err := r.back(ctx, tp, first, at, room, visit, keep, all(func(times *[2]int64) bool { return times[0] < low })); err != nil {
		return err
	}
	room = max(0, budget-r.out.Bytes)
	return r.ahead(ctx, tp, at, end, room, visit, all(func(times *[2]int64) bool { return times[1] > high }))
}

// answer completes the answer.
func (r *reading) answer() {
	out, in := r.out, r.input()
	fields := r.shown()
	for _, i := range fields {
		name := strconv.Itoa(i)
		if i < len(in.Fields) {
			name = in.Fields[i]
		}
		out.Fields = append(out.Fields, name)
		values := make([]Number, len(r.list))
		for j := range r.list {
			values[j] = Number(r.list[j].values[i])
		}
		band := r.predicted(i)
		if band.Detector == "" {
			band = usual(values)
		}
		out.Values, out.Usual = append(out.Values, values), append(out.Usual, band)
	}
	for _, s := range r.list {
		out.Times = append(out.Times, float64(s.time)/1000)
	}
	low, high := int64(math.MinInt64), int64(math.MaxInt64)
	if n := len(r.list); n > 0 {
		low, high = r.list[0].time, r.list[n-1].time
	}
	r.e.mu.Lock()
	for _, a := range r.anomalies {
		if a.a.End >= low && a.a.Start <= high || !a.closed() {
			out.Anomalies = append(out.Anomalies, r.e.store.complete(a, &r.e.labels))
		}
	}
	r.e.mu.Unlock()
	names := make([]string, 0, len(r.points))
	for name := range r.points {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		points := r.points[name]
		slices.SortStableFunc(points, func(a, b point) int { return int(max(-1, min(1, a.time-b.time))) })
		s := Scores{Detector: name, Times: []float64{}, Scores: []Number{}, Threshold: []Number{}}
		d := in.detector(name)
		if d != nil {
			s.Op, s.Configured = d.Op, d.Configured
		}
		for _, p := range points {
			s.Times = append(s.Times, float64(p.time)/1000)
			s.Scores = append(s.Scores, Number(p.score))
			s.Threshold = append(s.Threshold, thresholdAt(d, r.anomalies, p.time))
		}
		out.Scores = append(out.Scores, s)
	}
}

// input returns what is known of the topic of the series.
func (r *reading) input() *Input { return r.e.c.input(r.anchor.Topic) }

// shown returns the indices of the fields to answer: all, or the first ones with the field of the newest anomaly.
func (r *reading) shown() (fields []int) {
	if len(r.list) == 0 {
		return nil
	}
	width := len(r.list[0].values)
	for i := range min(width, mostFields) {
		fields = append(fields, i)
	}
	if width > mostFields {
		r.note("Of %d fields %d are shown.", width, mostFields)
		for _, a := range r.anomalies {
			if i := slices.Index(r.input().Fields, a.a.Field); i >= mostFields && i < width {
				fields[mostFields-1] = i
			}
		}
	}
	return fields
}

// spreads is how many of a detector's spreads the usual range is wide, to either side of what it expected.
const spreads = 3

// predicted returns what a detector expected of a field of at least half of the samples, and the range around that; the detector is ""
// where none did.
func (r *reading) predicted(field int) (b Band) {
	in := r.input()
	if in.Derived || field >= len(in.Fields) {
		return b
	}
	for i := range in.Detectors {
		d := &in.Detectors[i]
		if len(in.Fields) > 1 && (len(d.Fields) != 1 || d.Fields[0] != in.Fields[field]) {
			continue
		}
		at := make(map[int64]output.Prediction, len(r.points[d.Name]))
		for _, p := range r.points[d.Name] {
			if p.Predicted {
				at[p.time] = p.Prediction
			}
		}
		if 2*len(at) < len(r.list) || len(at) == 0 {
			continue
		}
		b = Band{Detector: d.Name}
		for _, s := range r.list {
			expected, low, high := none, none, none
			if p, ok := at[s.time]; ok {
				expected = Number(p.Expected)
				if p.Spread > 0 {
					low, high = Number(p.Expected-spreads*p.Spread), Number(p.Expected+spreads*p.Spread)
				}
			}
			b.Expected, b.Low, b.High = append(b.Expected, expected), append(b.Low, low), append(b.High, high)
		}
		return b
	}
	return b
}

// usualOver is the number of samples before each that the usual range is made of.
const usualOver = 64

// usual returns the usual range around values. It is drawn, nothing is decided by it.
func usual(all []Number) Band {
	b := Band{Over: usualOver, Low: make([]Number, len(all)), High: make([]Number, len(all))}
	window := make([]float64, 0, usualOver) // sorted
	var order []float64                     // as they came
	for i, v := range all {
		b.Low[i], b.High[i] = none, none
		if n := len(window); n >= usualOver/4 {
			low, high := window[n/20], window[n-1-n/20]
			half := (high - low) / 2
			b.Low[i], b.High[i] = Number(low-half), Number(high+half)
		}
		f := float64(v)
		if math.IsNaN(f) {
			continue
		}
		if len(order) == usualOver {
			at, _ := slices.BinarySearch(window, order[0])
			window = slices.Delete(window, at, at+1)
			order = order[1:]
		}
		at, _ := slices.BinarySearch(window, f)
		window = slices.Insert(window, at, f)
		order = append(order, f)
	}
	return b
}
