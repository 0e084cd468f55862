package rules

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"odradek/processor/state/changelog"
)

// This file has what decides how the records of a partition become samples, and in which order these are folded.
//
// # Readings are decisions
//
// A reading is an input of the fold, as records are: with another lateness other samples are late, with other value fields
// other records are dead letters. A user may change it between two runs, and then a restart replays records that were
// folded under the former one. So the reading in force is a standing decision of the partition's owner (package
// decisions). The owner decides before the first record that it reads under another reading than the one in force, in the
// transaction that commits this record, and a replay reads each record as it was read when it was live: decoders, the
// order of samples and the windows that they go to follow the reading at the record's offset.
//
// # What belongs to it
//
// Reading is the one list: decoders are made from it, and the state takes the order of samples from it.
// Encode writes all of its fields, so that a setting which becomes a field here is decided on without further code. What
// only says which scores are anomalies (thresholds, guards, mutes, groups) is not in it, nor what evicts a series: those
// are decisions of their own, or act when live alone.

// Reading is how records are read. The zero value of Fields stands for values without names.
type Reading struct {
	Decoding
	Order

	// Windows and Detectors are those that samples go to. The state fills them in, from its configuration.
	Windows   []WindowReading
	Detectors []DetectorReading
	// Silences: there are series that no detector reads, and they are known because they may fall silent.
	Silences bool `json:",omitempty"`
}

// Decoding is how a record becomes readings, and these become samples.
type Decoding struct {
	Format   string // of records
	Schema   string // content of the schema file, for records that name no schema
	Key      string // path of the series key
	Time     string // path of the event time
	TimeUnit string
	// TimeZone and TimeLayout are for times that are texts, as schemas.Mapping has them.
	TimeZone, TimeLayout string   `json:",omitempty"`
	Fields               []string // paths of the values
	Readings             string   // path of an array of readings; "": a record is one reading
	Series               bool     // each field is a series of its own
	SkipTombstones       bool     `json:",omitempty"` // a record without a value is left out; else it is a dead letter
	TextNumbers          bool     `json:",omitempty"` // a value may be a text that writes a number; else that is a dead letter
	// Decimals are scales of decimals, Valid and MissingIf say which values are missing, as schemas.Mapping has them.
	Decimals, Valid, MissingIf []string `json:",omitempty"`
	// OnlyIf is the condition for which a record is taken. Computed says how the Fields that are no paths are computed.
	OnlyIf   string   `json:",omitempty"`
	Computed []string `json:",omitempty"`
	// MaxFuture in microseconds is how far an event time may be past its record's Kafka timestamp; 0: any.
	MaxFuture int64
}

// Order is what the state does with a sample before it enters a window.
type Order struct {
	// Lateness in microseconds is how far behind the partition's largest event
	// time a sample may come; samples are held until then and released in order
	// of time and offset. 0: nothing is held, and a sample older than the newest
	// of its key is late.
	Lateness int64
	// BySeries: the largest event time is the one of the sample's series. Samples of a series are released as soon as its newest one
	// is further ahead of them than Lateness, or the partition's largest event time has risen by as much.
	BySeries bool `json:",omitempty"`
	// MaxHeld is how many offsets of the partition's log a held sample waits at most,
	// and so how many samples are held at most; 0: no limit. See reorder/overdue.go.
	MaxHeld int
	// MaxJump in microseconds is how far past the partition's largest event time a sample
	// may be before it is a suspect, on which other samples vote; 0: any. See leapvotes.go of package state.
	MaxJump int64

	// MaxGap in microseconds is the longest interval between two samples of a series that no score may span; 0: any, OwnGap: ten
	// times the series' usual one. See gaps.go of package state.
	MaxGap int64 `json:",omitempty"`

	// Transforms change the values of fields, as FIELD=TRANSFORM (ParseTransform), before they enter a window.
	Transforms []string `json:",omitempty"`

	// Every in microseconds is the length of the intervals of event time, from the epoch on, whose samples become one sample of a
	// series, with the time of the interval's start; 0: each sample is one. Aggregates say what their values become (ParseAggregate).
	// EmptyZero: of an interval without values, the sum and the count are 0, not missing. See intervals.go of package state.
	Every      int64    `json:",omitempty"`
	Aggregates []string `json:",omitempty"`
	EmptyZero  bool     `json:",omitempty"`

	Hold           bool // a missing value is the key's last one (imputed) instead of a missing sample
	DropDuplicates bool // a sample with the time of the key's last or of a held one is dropped
}

// OwnGap is the Order.MaxGap that follows from a series' own intervals.
const OwnGap = -1

// WindowReading is a window that takes samples.
type WindowReading struct {
	Fingerprint uint64
	Grid        bool // of a grid, which refuses records outside of it
}

// DetectorReading is a detector that scores samples.
type DetectorReading struct {
	Name                string
	Window, Fingerprint uint64
	Keys                []string `json:",omitempty"` // patterns of the series that it reads; none: all
	Rows                int      `json:",omitempty"` // of the window that it needs
	// Members are an ensemble's members. It is on no window and reads the series that they and the detectors of its gates all read, too;
	// none: it is a method.
	Members []string `json:",omitempty"`
	Gates   []string `json:",omitempty"`
	// Replaces: the ensemble makes the anomalies of its members' scores, unless it is in shadow mode.
	Replaces bool `json:",omitempty"`
}

// SameDecoding reports whether two readings make the same samples of each record.
func (r *Reading) SameDecoding(o *Reading) bool { return reflect.DeepEqual(r.Decoding, o.Decoding) }

// HasWindow reports whether samples go to the window of a fingerprint.
func (r *Reading) HasWindow(fingerprint uint64) bool {
	return slices.ContainsFunc(r.Windows, func(w WindowReading) bool { return w.Fingerprint == fingerprint })
}

// Detector returns the detector of a name; nil without one.
func (r *Reading) Detector(name string) *DetectorReading {
	for i := range r.Detectors {
		if r.Detectors[i].Name == name {
			return &r.Detectors[i]
		}
	}
	return nil
}

// Ensemble reports whether the detector is an ensemble.
func (d *DetectorReading) Ensemble() bool { return len(d.Members) > 0 }

// Several reports whether a record may be several samples.
func (r *Reading) Several() bool { return r.Series || r.Readings != "" }

// Layout returns the fingerprint of the values of a sample, and of what makes it a sample of its series. Held samples carry
// it. Where each field is a series of its own it does not depend on which fields there are.
func (r *Reading) Layout() uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%q %q %q %q %t", r.Key, r.Time, r.TimeUnit, r.Readings, r.Series)
	if !r.Series {
		fmt.Fprintf(h, "%q", r.columns())
	}
	return h.Sum64()
}

// columns returns the fields, and of those that are computed how: another expression of the same name is another value.
func (r *Reading) columns() []string {
	if len(r.Computed) == 0 {
		return r.Fields
	}
	list := slices.Clone(r.Fields)
	for i, f := range list {
		list[i] = r.identity(f)
	}
	return list
}

// identity returns how a field is computed; a field that is a path, as it is.
func (r *Reading) identity(field string) string {
	for _, c := range r.Computed {
		if name, _, _ := strings.Cut(c, "="); strings.TrimSpace(name) == field {
			return c
		}
	}
	return field
}

// sameSeries reports whether samples of two readings are of the same series and have their times from the same field.
func (r *Reading) sameSeries(o *Reading) bool {
	return r.Key == o.Key && r.Time == o.Time && r.TimeUnit == o.TimeUnit && r.Readings == o.Readings && r.Series == o.Series
}

// Translation says which values of a sample of one reading are which values of another: for each value of the latter, its index in
// the former, -1 for one that the former lacks. nil: the values are the same.
type Translation []int

// Translate returns the translation of samples of from into samples of r, and false where they are no samples of r's series.
func (r *Reading) Translate(from *Reading) (t Translation, ok bool) {
	if !r.sameSeries(from) {
		return nil, false
	}
	columns, were := r.columns(), from.columns()
	if r.Series || slices.Equal(columns, were) {
		return nil, true
	}
	places := map[string]int{}
	at := 0
	for i, f := range from.Fields {
		places[were[i]] = at
		at += fieldWidth(f)
	}
	t = Translation{}
	for i, f := range r.Fields {
		place, there := places[columns[i]]
		for i := range fieldWidth(f) {
			if there {
				t = append(t, place+i)
			} else {
				t = append(t, -1)
			}
		}
	}
	return t, true
}

// Apply writes the values of a sample to dst, NaN for those that it lacks.
func (t Translation) Apply(dst, values []float64) {
	for i, from := range t {
		if dst[i] = math.NaN(); from >= 0 {
			dst[i] = values[from]
		}
	}
}

// Dim returns the number of values of a sample; 0 without fields.
func (r *Reading) Dim() (n int) {
	if r.Series {
		return 1
	}
	for _, f := range r.Fields {
		n += fieldWidth(f)
	}
	return n
}

// fieldWidth returns the number of values of a field: N of a path with [N].
func fieldWidth(field string) int {
	_, rest, ok := strings.Cut(field, "[")
	count, _, closed := strings.Cut(rest, "]")
	if n, err := strconv.Atoi(count); ok && closed && err == nil {
		return n
	}
	return 1
}

// Decided is the content of a decision: the reading that is in force from its offset on.
type Decided struct {
	Reading Reading
	// Watermark is the watermark at that offset, under the reading before. It does not go back where the lateness is
	// raised: what it has released stays released. checkpoint.NoTime without one.
	Watermark int64
}

// The formats of a decision's content, its first byte.
const (
	plainFormat    = 1 // JSON
	deflatedFormat = 2 // the same, compressed: schema files are long
)

// deflateFrom is the size of a content from which on it is compressed.
const deflateFrom = 1 << 10

// Encode returns the content of the decision.
func (d *Decided) Encode() []byte {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // texts, numbers and lists of these
	}
	if len(text) < deflateFrom {
		return append([]byte{plainFormat}, text...)
	}
	b := bytes.NewBuffer([]byte{deflatedFormat})
	w, err := flate.NewWriter(b, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // memory is written to
	}
	return b.Bytes()
}

// maxContent bounds the uncompressed content of a decision.
const maxContent = 64 << 20

// DecodeReading reads the output of Encode. The error wraps changelog.ErrNewer or changelog.ErrCorrupt.
func DecodeReading(content []byte) (*Decided, error) {
	if len(content) == 0 {
		return nil, changelog.ErrCorrupt
	}
	text := content[1:]
	switch content[0] {
	case plainFormat:
	case deflatedFormat:
		var err error
		if text, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(text)), maxContent)); err != nil {
			return nil, fmt.Errorf("%w: %w", changelog.ErrCorrupt, err)
		}
	default:
		return nil, fmt.Errorf("a reading of format %d: %w", content[0], changelog.ErrNewer)
	}
	d := new(Decided)
	j := json.NewDecoder(bytes.NewReader(text))
	j.DisallowUnknownFields()
	switch err := j.Decode(d); {
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		return nil, fmt.Errorf("a reading with an %w: %w", err, changelog.ErrNewer)
	case err != nil || j.More():
		return nil, changelog.ErrCorrupt
	}
	if r := &d.Reading; r.Lateness < 0 || r.MaxHeld < 0 || r.MaxJump < 0 || r.MaxFuture < 0 || r.Every < 0 || r.MaxGap < OwnGap {
		return nil, changelog.ErrCorrupt
	}
	return d, nil
}

// Differences returns the names of the fields in which two readings differ.
func (r *Reading) Differences(o *Reading) (names []string) {
	compare := func(a, b reflect.Value) {
		for i := range a.NumField() {
			if f := a.Type().Field(i); !f.Anonymous && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				names = append(names, f.Name)
			}
		}
	}
	compare(reflect.ValueOf(r.Decoding), reflect.ValueOf(o.Decoding))
	compare(reflect.ValueOf(r.Order), reflect.ValueOf(o.Order))
	compare(reflect.ValueOf(*r), reflect.ValueOf(*o))
	return names
}

// Equal reports whether two readings are the same.
func (r *Reading) Equal(o *Reading) bool {
	return bytes.Equal((&Decided{Reading: *r}).Encode(), (&Decided{Reading: *o}).Encode())
}
