package schemas

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// AnomalySchema is the Avro schema of the anomalies topic.
//
//go:embed anomaly.avsc
var AnomalySchema string

// The symbols of the schema's enums, in its order.
var (
	AnomalyKinds  = []string{"open", "update", "close"}
	CloseReasons  = []string{"recovered", "evicted", "expired", "detector_removed", "reset", "moved"}
	SeverityBands = []string{"info", "minor", "major", "critical"}
)

// Anomaly is one record of the anomalies topic. Times are microseconds since
// 1970.
type Anomaly struct {
	ID       [16]byte
	Revision uint32
	Kind     uint8 // index of AnomalyKinds
	Reason   uint8 // index of CloseReasons; of a close only
	Key      []byte
	Detector string
	Severity uint8
	Band     uint8 // index of SeverityBands

	Start, End, PeakTime, OpenedAt, EventTime int64

	PeakScore, Threshold, Rank float64 // NaN: none (null)
	Samples                    uint32

	Expected, Actual, Contribution []float64 // nil: not known (null)
	Field                          string    // empty: not known (null)

	Topic     string // of the input record that caused the change, with Partition and Offset
	Partition int32
	Offset    int64
}

// closeKind is the index of "close".
const closeKind = 2

var anomalyFingerprint = mustFingerprint(AnomalySchema)

// AnomalyEncoder writes the anomalies of one input partition. It is not changed
// by use, so that several goroutines may share it.
type AnomalyEncoder struct {
	head   []byte
	source []byte
	room   int // bytes of a record beside its key, its detector and its arrays, at most
}

// NewAnomalyEncoder makes an encoder as NewScoreEncoder does; schemaID is the
// id of AnomalySchema.
func NewAnomalyEncoder(schemaID int32, topic string, partition int32) *AnomalyEncoder {
	e := &AnomalyEncoder{head: frameHead(schemaID, anomalyFingerprint)}
	e.source = AppendLong(AppendText(nil, topic), int64(partition))
	const longs = 1 + 2 + 1 + 5 + 1 + 1 // revision, two lengths, severity, times, samples, offset
	e.room = len(e.head) + 2 + 32 + longs*binary.MaxVarintLen64 + 4 + 3*9 + 3 + 1 + binary.MaxVarintLen64 + len(e.source)
	return e
}

// Append appends one anomaly with its framing; Topic and Partition are those of
// the encoder. Where dst has room nothing is allocated.
func (e *AnomalyEncoder) Append(dst []byte, a *Anomaly) []byte {
	key := a.Key
	if !utf8.Valid(key) {
		key = hexKey(key)
	}
	dst = slices.Grow(dst, e.room+len(key)+len(a.Detector)+len(a.Field)+3*2*binary.MaxVarintLen64+
		8*(len(a.Expected)+len(a.Actual)+len(a.Contribution)))
	dst = append(dst, e.head...)
	dst = AppendLong(dst, 2*int64(len(a.ID)))
	dst = hex.AppendEncode(dst, a.ID[:])
	dst = AppendLong(dst, int64(a.Revision))
	dst = append(dst, a.Kind<<1)
	if a.Kind == closeKind {
		dst = append(dst, 2, a.Reason<<1)
	} else {
		dst = append(dst, 0)
	}
	dst = AppendText(dst, key)
	dst = AppendText(dst, a.Detector)
	dst = AppendLong(dst, int64(a.Severity))
	dst = append(dst, a.Band<<1)
	for _, t := range [...]int64{a.Start, a.End, a.PeakTime, a.OpenedAt, a.EventTime} {
		dst = AppendLong(dst, t)
	}
	dst = AppendOptional(dst, a.PeakScore)
	dst = AppendOptional(dst, a.Threshold)
	dst = AppendOptional(dst, a.Rank)
	dst = AppendLong(dst, int64(a.Samples))
	for _, list := range [...][]float64{a.Expected, a.Actual, a.Contribution} {
		dst = appendDoubles(dst, list)
	}
	if a.Field == "" {
		dst = append(dst, 0)
	} else {
		dst = AppendText(append(dst, 2), a.Field)
	}
	dst = append(dst, e.source...)
	return AppendLong(dst, a.Offset)
}

// AppendOptional appends a union of null, which NaN stands for, and double.
func AppendOptional(dst []byte, v float64) []byte {
	if v != v {
		return append(dst, 0)
	}
	return binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(v))
}

// appendDoubles appends an array of doubles that may be null: nil.
func appendDoubles(dst []byte, list []float64) []byte {
	if list == nil {
		return append(dst, 0)
	}
	dst = append(dst, 2)
	if len(list) > 0 {
		dst = AppendLong(dst, int64(len(list)))
		for _, v := range list {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
	}
	return append(dst, 0)
}

// DecodeAnomaly reads a record of the anomalies topic in either framing, for
// tests and tools. The schema id is not compared with anything: the caller knows
// the topic. Key aliases b.
func DecodeAnomaly(b []byte) (Anomaly, error) {
	var a Anomaly
	b, err := unframe(b, anomalyFingerprint)
	if err != nil {
		return a, fmt.Errorf("schemas: anomaly: %w", err)
	}
	r := fieldReader{buf: b}
	if id := r.text(); r.st == statusOK {
		if len(id) != 2*len(a.ID) {
			return Anomaly{}, fmt.Errorf("schemas: anomaly: an id of %d digits, not %d", len(id), 2*len(a.ID))
		}
		if _, err := hex.Decode(a.ID[:], id); err != nil {
			return Anomaly{}, fmt.Errorf("schemas: anomaly: id: %w", err)
		}
	}
	a.Revision = uint32(r.upTo(math.MaxUint32))
	a.Kind = uint8(r.index(len(AnomalyKinds)))
	if r.index(2) == 1 {
		a.Reason = uint8(r.index(len(CloseReasons)))
	}
	a.Key = r.text()
	a.Detector = string(r.text())
	a.Severity = uint8(r.upTo(math.MaxUint8))
	a.Band = uint8(r.index(len(SeverityBands)))
	for _, t := range [...]*int64{&a.Start, &a.End, &a.PeakTime, &a.OpenedAt, &a.EventTime} {
		*t = r.long()
	}
	a.PeakScore, a.Threshold, a.Rank = r.optional(), r.optional(), r.optional()
	a.Samples = uint32(r.upTo(math.MaxUint32))
	a.Expected, a.Actual, a.Contribution = r.doubles(), r.doubles(), r.doubles()
	if r.index(2) == 1 {
		a.Field = string(r.text())
	}
	a.Topic = string(r.text())
	a.Partition = r.int()
	a.Offset = r.long()
	if err := r.end(); err != nil {
		return Anomaly{}, fmt.Errorf("schemas: anomaly: %w", err)
	}
	return a, nil
}
