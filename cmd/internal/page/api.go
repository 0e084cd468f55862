package page

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// DataSource answers for the whole group, from the topics that its workers write. Its methods may be called by several
// goroutines. An error is a *Error where the status code matters.
type DataSource interface {
	// Await returns when the topics of anomalies and feedback have been read, or cannot be read, or ctx has ended. They are not
	// read while nobody asks.
	Await(ctx context.Context)
	// Anomalies returns the anomalies that match, open ones first.
	Anomalies(q *AnomalyQuery) AnomalyList
	// Anomaly returns one anomaly by its id.
	Anomaly(id string) (Anomaly, error)
	// Shadow compares the detectors in shadow mode with the others.
	Shadow(q *ShadowQuery) ShadowList
	// Series reads the values and scores of a series around an anomaly, or at the end of its topic.
	Series(ctx context.Context, q *SeriesQuery) (*Series, error)
	// Blocks reads what the detector of an anomaly made of the window that its peak was scored in.
	Blocks(ctx context.Context, id string) (*Blocks, error)
	// Backtest compares the settings in force with another sensitivity on the records of a series.
	Backtest(ctx context.Context, q *BacktestQuery) (*Backtest, error)
	// Feedback returns the records of feedback, newest first.
	Feedback() FeedbackList
	// WriteFeedback writes a record of feedback, and returns it with its id.
	WriteFeedback(ctx context.Context, f *Feedback) (*Feedback, error)
	// RemoveFeedback removes the record of feedback of an id.
	RemoveFeedback(ctx context.Context, id string) error
}

// Error is an error with a status code of HTTP.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// Fault is the answer to a request that failed.
type Fault struct {
	Error string `json:"error" doc:"What is wrong, and what to do about it."`
}

// AnomalyQuery selects anomalies.
type AnomalyQuery struct {
	State       string    // open or closed; "": both
	Series      string    // pattern: * stands for any text and ? for one byte; without either, part of the key
	Topic       string    // input topic; "": all
	Partition   *int32    // partition of the input topic; nil: all
	Detector    string    // name; "": all
	MinSeverity int       // 0 to 100
	From, To    time.Time // event times of which the anomaly overlaps; zero: no bound
	Limit       int       // most anomalies, newest first
}

// AnomalyList is the answer to an AnomalyQuery.
type AnomalyList struct {
	Anomalies []Anomaly `json:"anomalies" doc:"Open anomalies, newest first, then closed ones, newest first."`
	Open      int       `json:"open" doc:"Number of open anomalies that match, whether listed or not."`
	Closed    int       `json:"closed" doc:"Number of closed anomalies that match, whether listed or not."`

	OpenFaults   int `json:"open_faults" doc:"Number of faults that the open anomalies are of."`
	ClosedFaults int `json:"closed_faults" doc:"Number of faults that the closed anomalies are of."`

	Loading   bool      `json:"loading" doc:"The anomalies topic is being read: the list is not complete yet. Ask again after the seconds of the header Retry-After."`
	Truncated bool      `json:"truncated" doc:"The topic has older anomalies that are not kept in memory."`
	Fault     string    `json:"fault,omitempty" doc:"Why the topic cannot be read at present."`
	Topic     string    `json:"topic" doc:"The anomalies topic."`
	Detectors []string  `json:"detectors" doc:"Names of the detectors of the listed and all other anomalies in memory, sorted."`
	Now       time.Time `json:"now" doc:"The worker's clock."`
}

// Anomaly is an anomaly as its record with the largest revision describes it. Schema io.odradek.Anomaly has the exact meanings.
type Anomaly struct {
	ID           string    `json:"id" doc:"32 hexadecimal digits."`
	Revision     uint32    `json:"revision" doc:"Revision of the record that this is made of, from 1."`
	State        string    `json:"state" doc:"open or closed."`
	Reason       string    `json:"reason,omitempty" doc:"Why it was closed."`
	Series       string    `json:"series" doc:"Series key."`
	Detector     string    `json:"detector" doc:"Name of the detector; silence for a series without samples."`
	Member       string    `json:"member,omitempty" doc:"Of an ensemble with COMBINE=any, the member that expected, actual, contribution, field and fields are of."`
	CarriedBy    string    `json:"carried_by,omitempty" doc:"Of an ensemble that sums, the member that expected, actual, contribution, field and fields are of."`
	Severity     int       `json:"severity" doc:"0 to 100."`
	Band         string    `json:"band" doc:"info, minor, major or critical."`
	Start        time.Time `json:"start" doc:"Event time of its first sample."`
	End          time.Time `json:"end" doc:"Event time of its last sample so far."`
	PeakTime     time.Time `json:"peak_time" doc:"Event time of the sample that deviates most, of those that its highest score is about."`
	OpenedAt     time.Time `json:"opened_at" doc:"Event time of the sample that opened it."`
	EventTime    time.Time `json:"event_time" doc:"Event time of the sample that caused the revision."`
	WrittenAt    time.Time `json:"written_at" doc:"When the revision was written to the topic."`
	Samples      uint32    `json:"samples" doc:"Samples over the threshold."`
	PeakScore    Number    `json:"peak_score" doc:"The highest score, in the detector's own scale."`
	Threshold    Number    `json:"threshold" doc:"The threshold when the peak was judged, in the same scale."`
	Rank         Number    `json:"rank" doc:"Upper-tail rank of the peak's score among the series' earlier scores."`
	Fields       []string  `json:"fields,omitempty" doc:"Value fields that the detector scores, in the order of expected, actual and contribution, where known."`
	Expected     []Number  `json:"expected,omitempty" doc:"What the detector expected at peak_time."`
	Actual       []Number  `json:"actual,omitempty" doc:"What was measured at peak_time."`
	Contribution []Number  `json:"contribution,omitempty" doc:"Share of each field in the peak's score."`
	Field        string    `json:"field,omitempty" doc:"Field with the largest share."`
	Spread       Number    `json:"spread,omitempty" doc:"How far readings of the field usually are from what the detector expects, as a standard deviation."`
	Unit         string    `json:"unit,omitempty" doc:"Unit of the field."`
	Summary      string    `json:"summary,omitempty" doc:"What its record says, as a sentence for people."`
	// Escalation is there if its severity has reached a higher band.
	Escalation *Escalation `json:"escalation,omitempty" doc:"The part of it since its severity reached its present band, where that is higher than at its start."`
	Source     Origin      `json:"source" doc:"The input record that caused the revision."`
	Region     *Region     `json:"region,omitempty" doc:"Where in a grid it is."`
	Fault      string      `json:"fault" doc:"Id of its fault: the id of the first of the anomalies of the series that belong together."`
	Group      string      `json:"group,omitempty" doc:"Id of the group of anomalies that opened together."`
	Label      string      `json:"label,omitempty" doc:"The label that an operator gave it: confirm or false_alarm."`
	Muted      bool        `json:"muted,omitempty" doc:"A mute rule covers its detector, its series and its peak."`
	Recurs     string      `json:"recurs,omitempty" doc:"How often anomalies like it come, and how many there were, if it recurs."`
	Like       *Like       `json:"like,omitempty" doc:"False alarms that it resembles, so that its severity is 0."`
}

// Escalation is the part of an anomaly in its present band of severity.
type Escalation struct {
	Start    time.Time `json:"start" doc:"Event time of its first sample."`
	PeakTime time.Time `json:"peak_time" doc:"Event time of the sample that deviates most in it."`
	Since    time.Time `json:"since" doc:"Event time of the sample with which the severity reached the band."`
}

// Like says which false alarms an anomaly resembles.
type Like struct {
	Count  int      `json:"count" doc:"The number of them."`
	Labels []string `json:"labels" doc:"The ids of three of them, or of all."`
}

// Origin is a record of an input topic.
type Origin struct {
	Topic     string `json:"topic" doc:"Input topic."`
	Partition int32  `json:"partition" doc:"Partition of the topic."`
	Offset    int64  `json:"offset" doc:"Offset in the partition."`
}

// Region is a rectangle of cells of a grid.
type Region struct {
	X0         Number `json:"x0" doc:"Lower end in x, in the units of the samples."`
	Y0         Number `json:"y0" doc:"Lower end in y."`
	X1         Number `json:"x1" doc:"Upper end in x."`
	Y1         Number `json:"y1" doc:"Upper end in y."`
	ColumnFrom int32  `json:"column_from" doc:"First column, from 0."`
	ColumnTo   int32  `json:"column_to" doc:"Last column."`
	RowFrom    int32  `json:"row_from" doc:"First row, from 0."`
	RowTo      int32  `json:"row_to" doc:"Last row."`
	Observed   int64  `json:"observed" doc:"Count of its cells in the window."`
	Expected   Number `json:"expected" doc:"Count that the baselines let expect."`
	Ratio      Number `json:"llr" doc:"Log-likelihood ratio."`
	P          Number `json:"p" doc:"Probability of a ratio as high by chance."`
}

// SeriesQuery selects a stretch of a series.
type SeriesQuery struct {
	Key       string // series key
	Topic     string // input topic of the series; "": any
	Partition *int32 // partition of the input topic; nil: any
	Anomaly   string // id of the anomaly to read around; "": the newest of the series, else the end of the topic
	Samples   int    // samples before and after, at most
}

// Series is a stretch of a series. Times are milliseconds since 1970.
type Series struct {
	Key       string     `json:"key" doc:"Series key."`
	Anchor    *Origin    `json:"anchor,omitempty" doc:"The input record around which was read."`
	Fields    []string   `json:"fields" doc:"Value fields, in the order of values."`
	Times     []float64  `json:"times" doc:"Event times of the samples in ms since 1970, in order."`
	Values    [][]Number `json:"values" doc:"For each field, the values at times."`
	Usual     []Band     `json:"usual" doc:"For each field, the usual range around its values."`
	Scores    []Scores   `json:"scores" doc:"Scores of each detector."`
	Anomalies []Anomaly  `json:"anomalies" doc:"Anomalies of the series in the partition of anchor that overlap the samples, oldest first."`
	Notes     []string   `json:"notes" doc:"What is missing, and why."`
	Records   int64      `json:"records" doc:"Records that were read."`
	Bytes     int64      `json:"bytes" doc:"Bytes of keys and values that were read."`
	Budget    int64      `json:"budget" doc:"Bytes that are read at most."`
	More      bool       `json:"more" doc:"The topic has further samples: ask for more."`
}

// Band is a range of usual values around the values of one field. It is a statistic of the samples before, not what a detector expects.
type Band struct {
	Detector string   `json:"detector,omitempty" doc:"The detector that expects a value of each sample. Without one, the range is made of the samples before."`
	Expected []Number `json:"expected,omitempty" doc:"The value that the detector expected of each sample; null where it expected none."`
	Over     int      `json:"over" doc:"Number of samples before each that the range is made of; 0 with a detector."`
	Low      []Number `json:"low" doc:"5th percentile of them, less half the distance of the percentiles; with a detector expected less 3 times its spread."`
	High     []Number `json:"high" doc:"95th percentile of them, plus half the distance of the percentiles; with a detector expected plus 3 times its spread."`
}

// Scores are the scores of one detector.
type Scores struct {
	Detector   string    `json:"detector" doc:"Name of the detector."`
	Op         string    `json:"op" doc:"Its method."`
	Configured string    `json:"rule" doc:"Its threshold as configured."`
	Threshold  []Number  `json:"threshold" doc:"Threshold in force at each score, where an anomaly or a fixed threshold tells; null elsewhere."`
	Times      []float64 `json:"times" doc:"Event times that the scores speak of, in ms since 1970, in order."`
	Scores     []Number  `json:"scores" doc:"Scores; null in warm-up."`
}

// Blocks is what the detector of an anomaly made of whole windows.
type Blocks struct {
	Anomaly  string   `json:"anomaly" doc:"Id of the anomaly."`
	Detector string   `json:"detector" doc:"Name of its detector."`
	Heatmap  *Heatmap `json:"heatmap,omitempty" doc:"Heatmap of the window in which the peak of the anomaly was scored, else of a later one."`
	Grid     *Grid    `json:"grid,omitempty" doc:"The grid that regions of the detector are in, as this worker is configured."`
	Notes    []string `json:"notes" doc:"What is missing, and why."`
	Records  int64    `json:"records" doc:"Records of the blocks topic that were read."`
	Bytes    int64    `json:"bytes" doc:"Bytes of keys and values that were read."`
	Budget   int64    `json:"budget" doc:"Bytes that are read at most."`
}

// Heatmap is a heatmap of discords of one window. Times are milliseconds since 1970.
type Heatmap struct {
	Source     Origin  `json:"source" doc:"The input record of the last sample of the window."`
	From       float64 `json:"from" doc:"Event time of the window's first sample, where the first column begins."`
	To         float64 `json:"to" doc:"Where the last column ends: about the beginning of the last subsequence of the least length. Samples are taken as evenly spaced."`
	MinLength  int     `json:"min_length" doc:"Samples of the shortest subsequences: the first row."`
	MaxLength  int     `json:"max_length" doc:"Samples of the longest ones."`
	LengthStep int     `json:"length_step" doc:"Samples from one length to the next. A row may have several lengths."`
	Columns    int     `json:"columns" doc:"Cells of a row."`
	Cells      [][]int `json:"cells" doc:"For each row of lengths, the least first, its cells: 0 for no discord, else 1 to 255 for the largest normalised distance in it, 0 to 2."`
}

// Grid is a grid of counts over a box.
type Grid struct {
	Columns int     `json:"columns" doc:"Cells of a row, in x."`
	Rows    int     `json:"rows" doc:"Cells of a column, in y."`
	X       string  `json:"x" doc:"Field of x."`
	Y       string  `json:"y" doc:"Field of y."`
	X0      float64 `json:"x0" doc:"Lower end of the box in x, in the units of the samples."`
	Y0      float64 `json:"y0" doc:"Lower end in y."`
	X1      float64 `json:"x1" doc:"Upper end in x."`
	Y1      float64 `json:"y1" doc:"Upper end in y."`
}

// Feedback is a record of feedback: a mute rule, or the label of an anomaly.
type Feedback struct {
	ID        string     `json:"id,omitempty" doc:"Id of the record: a new one with the same id replaces it. Of a mute without one, eight random digits; of confirm and false_alarm, anomaly/<id>."`
	Kind      string     `json:"kind" doc:"mute, maintenance, confirm or false_alarm."`
	Anomaly   string     `json:"anomaly,omitempty" doc:"Of confirm and false_alarm, the id of the anomaly."`
	Detector  string     `json:"detector,omitempty" doc:"Of a mute, the detector; all without it."`
	Keys      string     `json:"keys,omitempty" doc:"Of a mute, a pattern of series keys; all without it."`
	Topic     string     `json:"topic,omitempty" doc:"Of a mute, the input topic of the series; any without it."`
	Partition *int32     `json:"partition,omitempty" doc:"Of a mute with a topic, the partition of the series; any without it."`
	From      *time.Time `json:"from,omitempty" doc:"Of a mute, the event time at which it begins; always without it."`
	To        *time.Time `json:"to,omitempty" doc:"Of a mute, the event time at which it is over; never without it."`
	Direction string     `json:"direction,omitempty" doc:"Of a mute, the side of what was expected: both, above or below."`
	Author    string     `json:"author,omitempty" doc:"Who wrote it."`
	Reason    string     `json:"reason,omitempty" doc:"The reason, as free text."`
	WrittenAt time.Time  `json:"written_at,omitzero" doc:"When it was written; what a request says is ignored."`
}

// FeedbackList has the records of feedback.
type FeedbackList struct {
	Feedback  []Feedback `json:"feedback" doc:"Newest first."`
	Total     int        `json:"total" doc:"Number of records in memory, whether listed or not."`
	Loading   bool       `json:"loading" doc:"The feedback topic is being read: the list is not complete yet."`
	Truncated bool       `json:"truncated" doc:"The topic has further records that are not kept in memory."`
	Topic     string     `json:"topic" doc:"The feedback topic; empty: none is read."`
	Writable  bool       `json:"writable" doc:"Feedback can be written here: a token or client certificates are configured, and the topic is not off."`
	Fault     string     `json:"fault,omitempty" doc:"Why the topic cannot be read at present."`
}

// PartitionList is the partitions of this worker.
type PartitionList struct {
	Instance   string      `json:"instance,omitempty" doc:"ODRADEK_INSTANCE_ID."`
	State      string      `json:"state" doc:"joining, restoring or running."`
	Partitions []Partition `json:"partitions" doc:"Partitions that are assigned to this worker."`
}

// Number is a float64 that JSON has as null where it is NaN or infinite.
type Number float64

// MarshalJSON writes the shortest decimal that reads back the same.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// The first and the last time that have a text in RFC 3339, and so in JSON, in microseconds.
var (
	FirstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	LastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
)

// TimeOf returns a time of a record, in microseconds since 1970, as JSON has it. Of one before FirstTime or after LastTime it returns
// the nearest: an answer with a time that has no text would fail as a whole.
func TimeOf(us int64) time.Time { return time.UnixMicro(max(FirstTime, min(us, LastTime))).UTC() }

// The limits of requests.
const (
	usualAnomalies, mostAnomaliesAnswered = 200, 2000
	usualSamples, mostSamples             = 500, 20_000
	mostBody                              = 64 << 10
)

// queryReader reads the parameters of a request and collects what is wrong with them.
type queryReader struct {
	query  url.Values
	faults []string
}

func (q *queryReader) wrong(name, why string) {
	q.faults = append(q.faults, name+"="+strconv.Quote(q.query.Get(name))+": "+why)
}

func (q *queryReader) text(name string) string { return q.query.Get(name) }

func (q *queryReader) number(name string, usual, low, high int) int {
	text := q.text(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		q.wrong(name, "use a whole number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
	}
	return n
}

// partition reads the number of a partition; nil without one.
func (q *queryReader) partition(name string) *int32 {
	text := q.text(name)
	if text == "" {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		q.wrong(name, "use the number of a partition, from 0")
		return nil
	}
	p := int32(n)
	return &p
}

func (q *queryReader) oneOf(name string, allowed ...string) string {
	text := q.text(name)
	for _, a := range allowed {
		if text == a || text == "" {
			return text
		}
	}
	q.wrong(name, "use one of "+listOf(allowed))
	return text
}

func (q *queryReader) time(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		q.wrong(name, "use a time like 2026-01-31T08:00:00Z")
	}
	return t
}

func listOf(words []string) string {
	text := ""
	for i, w := range words {
		if i > 0 {
			text += ", "
		}
		text += w
	}
	return text
}

// loader is an answer that may not be complete yet.
type loader interface{ loads() bool }

func (l AnomalyList) loads() bool  { return l.Loading }
func (l ShadowList) loads() bool   { return l.Loading }
func (l FeedbackList) loads() bool { return l.Loading }

// answerJSON writes v, or the error as a Fault.
func answerJSON(w http.ResponseWriter, v any, err error) {
	code := http.StatusOK
	if err != nil {
		code = http.StatusServiceUnavailable
		if e := (*Error)(nil); errors.As(err, &e) {
			code = e.Code
		}
		v = Fault{err.Error()}
	}
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"web: the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if l, ok := v.(loader); code == http.StatusServiceUnavailable || ok && l.loads() {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // the reader may be gone
}
