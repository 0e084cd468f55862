package backtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"odradek/cmd/internal/table"
	"odradek/processor/state"
	"odradek/schemas/output"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/cycle"
)

// Outputs are the tables that a run writes.
type Outputs struct {
	mu        sync.Mutex
	scores    []*table.Writer // one for all partitions, or one for each
	each      bool
	anomalies *table.Writer
	publish   Publisher
	numbered  bool
}

// Publisher takes scores and anomalies as the stream would publish them; it may be called
// from several goroutines.
type Publisher interface {
	Scores(p *Partition, rows []state.Row) error
	Anomaly(p *Partition, e *state.EventRow) error
	Close() error
}

var scoreColumns = []table.Column{
	{Name: "series_key", Few: true}, {Name: "event_time", Kind: table.Time}, {Name: "score_time", Kind: table.Time},
	{Name: "detector", Few: true}, {Name: "score", Kind: table.Number}, {Name: "state", Few: true},
	{Name: "threshold", Kind: table.Number}, {Name: "exceeds", Kind: table.Truth}, {Name: "severity", Kind: table.Whole},
	{Name: "warmth", Few: true}, {Name: "partition", Kind: table.Whole}, {Name: "offset", Kind: table.Whole},
	{Name: "remaining", Kind: table.Whole}, {Name: "expected", Kind: table.Number}, {Name: "spread", Kind: table.Number},
}

// sampleColumn is the last one where records have an array of readings.
var sampleColumn = table.Column{Name: "sample", Kind: table.Whole}

var anomalyColumns = []table.Column{
	{Name: "id"}, {Name: "series_key", Few: true}, {Name: "detector", Few: true}, {Name: "severity", Kind: table.Whole}, {Name: "band",
		Few: true},
	{Name: "start", Kind: table.Time}, {Name: "end", Kind: table.Time}, {Name: "peak_time", Kind: table.Time},
	{Name: "opened_at", Kind: table.Time}, {Name: "over", Kind: table.Truth}, {Name: "reason", Few: true},
	{Name: "peak_score", Kind: table.Number}, {Name: "threshold", Kind: table.Number}, {Name: "samples", Kind: table.Whole},
	{Name: "warmth", Few: true}, {Name: "partition", Kind: table.Whole}, {Name: "offset", Kind: table.Whole}, {Name: "fault"},
	{Name: "recurs"},
}

// NewOutputs creates the tables. An empty name is none. Scores that end with a slash are
// a folder, which gets a Parquet file for each partition: they are written side by side.
// publish may be nil. With numbered, rows have the number of their sample in its record.
func NewOutputs(scores, anomalies string, partitions int, publish Publisher, numbered bool) (o *Outputs, err error) {
	o = &Outputs{publish: publish, numbered: numbered}
	columns := func(list []table.Column) []table.Column {
		if !numbered {
			return list
		}
		return append(slices.Clone(list), sampleColumn)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, o.closeTables())
		}
	}()
	if anomalies != "" {
		if o.anomalies, err = table.Create(anomalies, "BacktestAnomaly", columns(anomalyColumns)); err != nil {
			return o, err
		}
	}
	if scores == "" {
		return o, nil
	}
	if !strings.HasSuffix(scores, "/") {
		w, err := table.Create(scores, "BacktestScore", columns(scoreColumns))
		if err != nil {
			return o, err
		}
		o.scores = append(o.scores, w)
		return o, nil
	}
	o.each = true
	if err := os.MkdirAll(scores, 0o755); err != nil {
		return o, fmt.Errorf("backtest: scores: %w", err)
	}
	for p := range partitions {
		w, err := table.Create(filepath.Join(scores, fmt.Sprintf("part-%04d.parquet", p)), "BacktestScore", columns(scoreColumns))
		if err != nil {
			return o, err
		}
		o.scores = append(o.scores, w)
	}
	return o, nil
}

func (o *Outputs) closeTables() error {
	var errs []error
	for _, w := range append(o.scores, o.anomalies) {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	o.scores, o.anomalies = nil, nil
	return errors.Join(errs...)
}

func (o *Outputs) close() error {
	err := o.closeTables()
	if o.publish != nil {
		err = errors.Join(err, o.publish.Close())
	}
	return err
}

// scoreBuffer collects rows of a lane, so that the lock of a shared table is taken once for many.
type scoreBuffer struct {
	o         *Outputs
	cfg       *state.Config
	partition *Partition
	w         *table.Writer // nil: scores are only published
	mine      bool          // no other lane writes to w
	rows      []state.Row
	warm      []Warmth
	value     []table.Value
}

// bufferRows is how many rows a scoreBuffer holds.
const bufferRows = 4096

func (o *Outputs) buffer(cfg *state.Config, p *Partition) *scoreBuffer {
	b := &scoreBuffer{o: o, cfg: cfg, partition: p, value: make([]table.Value, len(scoreColumns)+1)}
	switch {
	case o.each:
		b.w, b.mine = o.scores[p.Number], true
	case len(o.scores) > 0:
		b.w = o.scores[0]
	case o.publish == nil:
		return nil
	}
	return b
}

func (b *scoreBuffer) add(r *state.Row, w Warmth) error {
	b.rows, b.warm = append(b.rows, *r), append(b.warm, w)
	if len(b.rows) < bufferRows {
		return nil
	}
	return b.flush()
}

func (b *scoreBuffer) flush() error {
	if len(b.rows) == 0 {
		return nil
	}
	if b.o.publish != nil {
		if err := b.o.publish.Scores(b.partition, b.rows); err != nil {
			return err
		}
	}
	if b.w != nil {
		if !b.mine {
			b.o.mu.Lock()
			defer b.o.mu.Unlock()
		}
		for i := range b.rows {
			if err := b.w.Row(b.values(&b.rows[i], b.warm[i])); err != nil {
				return err
			}
		}
	}
	clear(b.rows)
	b.rows, b.warm = b.rows[:0], b.warm[:0]
	return nil
}

func (b *scoreBuffer) values(r *state.Row, w Warmth) []table.Value {
	v := b.value
	v[0].Text = text(r.Key.Name())
	v[1].Whole, v[2].Whole = r.Time, r.About
	v[3].Text = b.cfg.Detectors[r.Detector].Name
	v[4].Number = float64(r.Score)
	v[5].Text = output.ScoreState(r.State).String()
	v[6].Number = threshold.Published(r.Threshold)
	v[7].Truth = r.Exceeds
	v[8].Whole = int64(r.Severity)
	v[9].Text = w.String()
	v[10].Whole, v[11].Whole = int64(b.partition.Number), b.cfg.Record(r.Offset)
	v[12].Whole = int64(r.Remaining)
	p := cycle.PredictionOf(r)
	v[13].Number, v[14].Number = p.Numbers()
	if !b.o.numbered {
		return v[:len(scoreColumns)]
	}
	v[15].Whole = int64(b.cfg.Number(r.Offset))
	return v
}

// anomaly writes one that is closed, or open at the end.
func (o *Outputs) anomaly(a *Anomaly, cfg *state.Config) error {
	if o.anomalies == nil {
		return nil
	}
	e := &a.Change.Anomaly
	reason := ""
	if a.Change.Kind == anomaly.Close {
		reason = output.CloseReasons[a.Change.Reason]
	}
	row := []table.Value{
		{Text: fmt.Sprintf("%x", e.ID)}, {Text: text([]byte(a.Series))}, {Text: a.Name}, {Whole: int64(e.Severity)},
		{Text: threshold.Band(e.Severity)}, {Whole: e.Start}, {Whole: e.End}, {Whole: e.PeakTime}, {Whole: e.OpenedAt},
		{Truth: a.Over()}, {Text: reason}, {Number: float64(e.PeakScore)}, {Number: threshold.Published(e.Threshold)}, {Whole: int64(e.Samples)},
		{Text: a.Warmth.String()}, {Whole: int64(a.Partition)}, {Whole: cfg.Record(a.Change.Offset)},
		{Text: fmt.Sprintf("%x", e.Fault)}, {Text: cycle.Recurring(e)},
	}
	if o.numbered {
		row = append(row, table.Value{Whole: int64(cfg.Number(a.Change.Offset))})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.anomalies.Row(row)
}

// text returns a series key as the stream writes it: one that is not UTF-8 as 0x and its bytes.
func text(key []byte) string {
	if s := string(key); strings.ToValidUTF8(s, "") == s {
		return s
	}
	return fmt.Sprintf("0x%x", key)
}
