package why

import (
	"encoding/json"
	"math"
	"time"
)

// Number is a float64 that is null in JSON where it is no finite number.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if f := float64(n); f-f == 0 {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// known reports whether there is a number.
func (n Number) known() bool { return !math.IsNaN(float64(n)) }

var none = Number(math.NaN())

// The verdicts on a recomputed score.
const (
	Equal  = "equal"     // bit for bit
	Within = "tolerance" // within the op's tolerance of the published one
	Differ = "different" // neither
	Absent = "absent"    // it could not be recomputed
)

// Report explains an anomaly.
type Report struct {
	Anomaly Anomaly `json:"anomaly"`
	Verdict string  `json:"verdict"` // on Score
	// Score is the highest score, recomputed; NaN: it could not be.
	Score     Number `json:"score"`
	Threshold Number `json:"threshold"` // that the fold judged it by; NaN: none
	// Origin says where the threshold comes from, as a phrase; "": not known.
	Origin string `json:"threshold_origin,omitempty"`
	// Reproduced reports that the fold opens the anomaly with the same id: at the same sample.
	Reproduced bool     `json:"reproduced"`
	Notes      []string `json:"notes"` // how the score was recomputed, and what was missing
	Read       Read     `json:"read"`
	// Explanation is of the detector, and nil where there is none; Silence is of a silence.
	Explanation *Explanation `json:"explanation,omitempty"`
	Silence     *Silence     `json:"silence,omitempty"`
	History     []Judged     `json:"history"` // the detector's scores up to the last change, as many as a window has
}

// Anomaly is an anomaly as it was published, by its last record.
type Anomaly struct {
	ID           string    `json:"id"`
	Series       string    `json:"series_key"`
	Detector     string    `json:"detector"`
	Op           string    `json:"op"`
	Settings     string    `json:"settings"` // of the detector: those that the score was recomputed by
	Revision     uint32    `json:"revision"`
	Kind         string    `json:"kind"`
	Reason       string    `json:"reason,omitempty"`
	Severity     int       `json:"severity"`
	Band         string    `json:"band"`
	Start        time.Time `json:"start"`
	End          time.Time `json:"end"`
	PeakTime     time.Time `json:"peak_time"`
	OpenedAt     time.Time `json:"opened_at"`
	PeakScore    Number    `json:"peak_score"`
	Threshold    Number    `json:"threshold"`
	Rank         Number    `json:"rank"`
	Samples      uint32    `json:"samples"`
	Field        string    `json:"field,omitempty"`
	Topic        string    `json:"topic"`
	Partition    int32     `json:"partition"`
	OpenedOffset int64     `json:"opened_offset"` // -1: the first record is gone
	LastOffset   int64     `json:"last_offset"`
	Region       *Region   `json:"region,omitempty"`
	Summary      string    `json:"summary,omitempty"`
	Recurs       string    `json:"recurs,omitempty"`
	// Escalated is the event time of the first sample of the part with the present band of severity, where that is a later one;
	// nil: it is not.
	Escalated *time.Time `json:"escalated,omitempty"`
}

// Region is a rectangle of a grid.
type Region struct {
	Columns  [2]int     `json:"columns"`
	Rows     [2]int     `json:"rows"`
	Corners  *[4]Number `json:"corners,omitempty"` // x0, y0, x1, y1; of the published one
	Observed int64      `json:"observed"`
	Expected Number     `json:"expected"`
	Ratio    Number     `json:"llr"`
	P        Number     `json:"p"`
}

// Read says which records of the source partition were read.
type Read struct {
	First   int64    `json:"first_offset"` // that the partition has
	From    int64    `json:"from_offset"`
	Until   int64    `json:"until_offset"` // excluded
	Records int64    `json:"records"`
	Bytes   int64    `json:"bytes"`
	Samples int      `json:"samples"` // of the series
	Left    int      `json:"unreadable"`
	Why     []string `json:"unreadable_why,omitempty"`
}

// Sample is a sample of the series.
type Sample struct {
	Offset int64     `json:"offset"` // of its record
	Time   time.Time `json:"time"`
	Values []Number  `json:"values,omitempty"`
}

// Judged is a score with the threshold that it was judged by.
type Judged struct {
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Score     Number    `json:"score"`
	Threshold Number    `json:"threshold"`
	Exceeds   bool      `json:"exceeds,omitempty"`
}

// Explanation says how a detector computed a score.
type Explanation struct {
	Detector  string    `json:"detector"`
	Op        string    `json:"op"`
	Settings  string    `json:"settings"`
	Fields    []string  `json:"fields,omitempty"`
	Units     []string  `json:"units,omitempty"` // of the fields; none: no field has one
	Sample    Sample    `json:"sample"`          // that completed the score
	Score     Number    `json:"score"`
	Judged    Number    `json:"judged"` // the mean of the last scores, with SMOOTH
	Threshold Number    `json:"threshold"`
	Rank      Number    `json:"rank"`
	From      time.Time `json:"from"`
	Until     time.Time `json:"until"`
	// Reading is the event time of the sample that deviates most of those that the score is about; nil: not known. Expected, Actual
	// and Contribution are of each of its fields; nil: not known.
	Reading      *time.Time `json:"reading,omitempty"`
	Expected     []Number   `json:"expected,omitempty"`
	Actual       []Number   `json:"actual,omitempty"`
	Contribution []Number   `json:"contribution,omitempty"`
	// Window has the samples of the task, the oldest first; none of a window of a grid. Scored are the first and the last
	// of them that were scored.
	Window     []Sample    `json:"window,omitempty"`
	Scored     [2]int      `json:"scored"`
	Rows       []Number    `json:"row_shares,omitempty"` // of the samples of the window from RowsFrom on
	RowsFrom   int         `json:"row_shares_from,omitempty"`
	Inputs     []Input     `json:"inputs,omitempty"`
	Measures   []Measure   `json:"measures,omitempty"`
	Directions []Direction `json:"directions,omitempty"`
	Regions    []Region    `json:"regions,omitempty"`
	Cells      *Cells      `json:"cells,omitempty"`
	Members    []Member    `json:"members,omitempty"` // of an ensemble
	any        bool        // the ensemble's score is the highest of the ratios, or
	max        bool        // the highest of the terms
}

// Input is a run of successive samples that a score was computed from.
type Input struct {
	Role     string  `json:"role"`
	First    *Sample `json:"first,omitempty"` // nil: it is none of the window, or before what was read
	Last     *Sample `json:"last,omitempty"`
	From     int     `json:"from"` // in Window; negative: before it
	To       int     `json:"to"`
	Number   int     `json:"number,omitempty"` // in the reference set, the model or the summary
	Distance Number  `json:"distance"`
}

// Measure is a number that a score was computed from.
type Measure struct {
	Name  string `json:"name"`
	Field string `json:"field,omitempty"`
	Value Number `json:"value"`
}

// Direction is a direction of the past that the present is compared with.
type Direction struct {
	Strength Number `json:"strength"`
	Weight   Number `json:"weight"`
	Counts   bool   `json:"counts"`
}

// Cells are the counts of a grid, row after row.
type Cells struct {
	Columns   int     `json:"columns"`
	Counts    []int64 `json:"counts"`
	Baselines []int64 `json:"baselines,omitempty"`
}

// Member is the contribution of a member of an ensemble.
type Member struct {
	Detector string `json:"detector"`
	Score    Number `json:"score"` // its own, as it was combined; NaN: it had none
	// Term is the logarithm of the score's ratio to the mean of the member's scores before; with COMBINE=any, the score's ratio
	// to the member's threshold.
	Term  Number       `json:"term"`
	Share Number       `json:"share"`
	Of    *Explanation `json:"of,omitempty"`
	// TurnedAway: the score is above the member's threshold, but the detector of ONLY_WITH did not agree, so Term is 1.
	TurnedAway bool `json:"turned_away,omitempty"`
}

// Silence explains the anomaly of a silent series.
type Silence struct {
	Limit     time.Duration `json:"limit_ns"`
	Last      *Sample       `json:"last,omitempty"` // sample before; nil: it was not read
	Next      *Sample       `json:"next,omitempty"` // sample after; nil: none was read
	Watermark time.Time     `json:"watermark"`      // that opened it
	OpenedBy  Sample        `json:"opened_by"`      // the sample, of another series or this one, that moved the watermark
	Usual     time.Duration `json:"usual_ns"`       // median time between samples of the series; 0: fewer than three were read
	Fields    []string      `json:"fields"`
	Around    []Sample      `json:"around"` // samples before and after, by time
}
