package output

import (
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"odradek/schemas/avro"
)

// AnomalySchema is the Avro schema of the anomalies topic.
//
//go:embed anomaly.avsc
var AnomalySchema string

// NumberedAnomalySchema is AnomalySchema as NumberedScoreSchema is ScoreSchema.
var NumberedAnomalySchema = numbered(AnomalySchema)

// The symbols of the schema's enums, in its order.
var (
	AnomalyKinds  = []string{"open", "update", "close"}
	CloseReasons  = []string{"recovered", "evicted", "expired", "detector_removed", "reset", "moved"}
	SeverityBands = []string{"info", "minor", "major", "critical"}
	Sides         = []string{"above", "below", "neither"}
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

	Region *Region   // nil: none (null)
	Group  *[16]byte // nil: none (null)
	Like   *Like     // nil: none (null)
	Range  float64   // 0: not known (null)
	Held   uint32    // likewise
	Member *Member   // nil: none (null)

	Escalation *Escalation // nil: none (null)
	Summary    string      // for people

	CarriedBy string  // empty: none (null)
	Spread    float64 // 0: not known (null)
	Unit      string  // empty: none (null)
	Side      uint8   // 1 + index of Sides; 0: not known (null)

	Fault *[16]byte // nil: none (null)

	Recurs *Recurrence // nil: it does not (null)

	Sample *int32 // as in Score
}

// Like says which false alarms an anomaly resembles, as the schema describes it.
type Like struct {
	Count  int64
	Labels [][16]byte
	Most   float64
}

// Member is the member of an ensemble that an anomaly speaks for, as the schema describes it.
type Member struct {
	Name             string
	Score, Threshold float64
	Samples          uint32
	PeakTime         int64
}

// Recurrence says that like anomalies come at regular intervals, as the schema describes it.
type Recurrence struct {
	Period, Count int64
	Text          string
}

// Escalation is the part of an anomaly in its present band of severity, as the schema describes it.
type Escalation struct{ Start, PeakTime, Since int64 }

// Region is a rectangle of a grid, as the schema describes it.
type Region struct {
	X0, Y0, X1, Y1                       float64
	ColumnFrom, ColumnTo, RowFrom, RowTo int32
	Observed                             int64
	Expected, Ratio                      float64
	P                                    float64 // NaN: none (null)
}

// regionRoom is the most bytes that a region takes.
const regionRoom = 1 + 4*8 + 5*binary.MaxVarintLen64 + 2*8 + 9

// groupRoom is the most bytes that a group takes, and a fault.
const groupRoom = 1 + binary.MaxVarintLen64 + 32

// closeKind is the index of "close".
const closeKind = 2

var (
	compiledAnomaly         = compile(AnomalySchema)
	compiledNumberedAnomaly = compile(NumberedAnomalySchema)
)

// AnomalyEncoder writes the anomalies of one input partition. Several goroutines may
// share it.
type AnomalyEncoder struct {
	head     []byte
	source   []byte
	room     int // bytes of a record beside its key, its detector and its arrays, at most
	schemaID int32
	compiled *compiled
	numbered bool
}

// NewAnomalyEncoder returns an encoder for the anomalies of topic's partition; schemaID is the
// id of AnomalySchema in the registry, SingleObject or JSON.
func NewAnomalyEncoder(schemaID int32, topic string, partition int32) *AnomalyEncoder {
	e := &AnomalyEncoder{head: compiledAnomaly.head(schemaID), schemaID: schemaID, compiled: compiledAnomaly}
	e.source = avro.AppendLong(avro.AppendText(nil, topic), int64(partition))
	const longs = 1 + 2 + 1 + 5 + 1 + 1 // revision, two lengths, severity, times, samples, offset
	e.room = len(e.head) + 2 + 32 + longs*binary.MaxVarintLen64 + 4 + 3*9 + 3 + 1 + binary.MaxVarintLen64 + len(e.source) + regionRoom +
		2*groupRoom + 1 + 1 + 9 + 1 + binary.MaxVarintLen64 + 1 + 1 + 4*binary.MaxVarintLen64 + 2*(1+binary.MaxVarintLen64) + 9
	return e
}

// Number makes e an encoder of NumberedAnomalySchema.
func (e *AnomalyEncoder) Number() *AnomalyEncoder {
	e.compiled, e.numbered = compiledNumberedAnomaly, true
	e.head = e.compiled.head(e.schemaID)
	e.room += 1 + binary.MaxVarintLen64
	return e
}

// Append appends one anomaly with its framing; Topic and Partition are the
// encoder's. Where dst has room nothing is allocated.
func (e *AnomalyEncoder) Append(dst []byte, a *Anomaly) []byte {
	start := len(dst)
	dst = e.append(dst, a)
	if e.schemaID == JSON {
		return e.compiled.asJSON(dst, start)
	}
	return dst
}

func (e *AnomalyEncoder) append(dst []byte, a *Anomaly) []byte {
	key := a.Key
	if !utf8.Valid(key) {
		key = hexKey(key)
	}
	dst = slices.Grow(dst, e.room+len(key)+len(a.Detector)+len(a.Field)+3*2*binary.MaxVarintLen64+
		8*(len(a.Expected)+len(a.Actual)+len(a.Contribution))+a.Like.room()+a.Member.room()+a.Recurs.room()+
		len(a.Summary)+len(a.CarriedBy)+len(a.Unit))
	dst = append(dst, e.head...)
	dst = avro.AppendLong(dst, 2*int64(len(a.ID)))
	dst = hex.AppendEncode(dst, a.ID[:])
	dst = avro.AppendLong(dst, int64(a.Revision))
	dst = append(dst, a.Kind<<1)
	if a.Kind == closeKind {
		dst = append(dst, 2, a.Reason<<1)
	} else {
		dst = append(dst, 0)
	}
	dst = avro.AppendText(dst, key)
	dst = avro.AppendText(dst, a.Detector)
	dst = avro.AppendLong(dst, int64(a.Severity))
	dst = append(dst, a.Band<<1)
	for _, t := range [...]int64{a.Start, a.End, a.PeakTime, a.OpenedAt, a.EventTime} {
		dst = avro.AppendLong(dst, t)
	}
	dst = avro.AppendOptional(dst, a.PeakScore)
	dst = avro.AppendOptional(dst, a.Threshold)
	dst = avro.AppendOptional(dst, a.Rank)
	dst = avro.AppendLong(dst, int64(a.Samples))
	for _, list := range [...][]float64{a.Expected, a.Actual, a.Contribution} {
		dst = appendDoubles(dst, list)
	}
	dst = appendOptionalText(dst, a.Field)
	dst = append(dst, e.source...)
	dst = avro.AppendLong(dst, a.Offset)
	if a.Region == nil {
		dst = append(dst, 0)
	} else {
		dst = a.Region.append(dst)
	}
	dst = appendOptionalID(dst, a.Group)
	if a.Like == nil {
		dst = append(dst, 0)
	} else {
		dst = a.Like.append(dst)
	}
	if a.Range == 0 {
		dst = append(dst, 0)
	} else {
		dst = binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(a.Range))
	}
	if a.Held == 0 {
		dst = append(dst, 0)
	} else {
		dst = avro.AppendLong(append(dst, 2), int64(a.Held))
	}
	if a.Member == nil {
		dst = append(dst, 0)
	} else {
		dst = a.Member.append(dst)
	}
	if e := a.Escalation; e == nil {
		dst = append(dst, 0)
	} else {
		dst = avro.AppendLong(avro.AppendLong(avro.AppendLong(append(dst, 2), e.Start), e.PeakTime), e.Since)
	}
	dst = avro.AppendText(dst, a.Summary)
	dst = appendOptionalText(dst, a.CarriedBy)
	if a.Spread == 0 {
		dst = append(dst, 0)
	} else {
		dst = binary.LittleEndian.AppendUint64(append(dst, 2), math.Float64bits(a.Spread))
	}
	dst = appendOptionalText(dst, a.Unit)
	if a.Side == 0 {
		dst = append(dst, 0)
	} else {
		dst = append(dst, 2, (a.Side-1)<<1)
	}
	dst = appendOptionalID(dst, a.Fault)
	if v := a.Recurs; v == nil {
		dst = append(dst, 0)
	} else {
		dst = avro.AppendText(avro.AppendLong(avro.AppendLong(append(dst, 2), v.Period), v.Count), v.Text)
	}
	switch {
	case !e.numbered:
		return dst
	case a.Sample == nil:
		return append(dst, 0)
	}
	return avro.AppendLong(append(dst, 2), int64(*a.Sample))
}

// appendOptionalID appends an id, null if it is nil.
func appendOptionalID(dst []byte, id *[16]byte) []byte {
	if id == nil {
		return append(dst, 0)
	}
	return hex.AppendEncode(avro.AppendLong(append(dst, 2), 2*int64(len(id))), id[:])
}

// appendOptionalText appends a text, null if it is empty.
func appendOptionalText(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, 0)
	}
	return avro.AppendText(append(dst, 2), text)
}

// room returns more bytes than append needs.
func (l *Like) room() int {
	if l == nil {
		return 0
	}
	return 3*binary.MaxVarintLen64 + 8 + len(l.Labels)*(2+32)
}

// append appends false alarms that are not null.
func (l *Like) append(dst []byte) []byte {
	dst = avro.AppendLong(append(dst, 2), l.Count)
	if len(l.Labels) > 0 {
		dst = avro.AppendLong(dst, int64(len(l.Labels)))
	}
	for i := range l.Labels {
		dst = hex.AppendEncode(avro.AppendLong(dst, 2*int64(len(l.Labels[i]))), l.Labels[i][:])
	}
	return binary.LittleEndian.AppendUint64(append(dst, 0), math.Float64bits(l.Most))
}

// room returns more bytes than append needs.
func (m *Member) room() int {
	if m == nil {
		return 0
	}
	return 3*binary.MaxVarintLen64 + 2*8 + 1 + len(m.Name)
}

// room returns more bytes than append needs.
func (r *Recurrence) room() int {
	if r == nil {
		return 0
	}
	return 3*binary.MaxVarintLen64 + 1 + len(r.Text)
}

// append appends a member that is not null.
func (m *Member) append(dst []byte) []byte {
	dst = avro.AppendText(append(dst, 2), m.Name)
	for _, v := range [...]float64{m.Score, m.Threshold} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return avro.AppendLong(avro.AppendLong(dst, int64(m.Samples)), m.PeakTime)
}

// readMember reads what append wrote after the first byte.
func readMember(r *avro.FieldReader) *Member {
	return &Member{Name: string(r.Text()), Score: r.Double(), Threshold: r.Double(), Samples: uint32(r.UpTo(math.MaxUint32)),
		PeakTime: r.Long()}
}

// readLike reads what append wrote after the first byte.
func readLike(r *avro.FieldReader) (*Like, error) {
	l := &Like{Count: r.Long()}
	for n := r.Long(); n != 0 && r.OK(); n = r.Long() {
		if n < 0 {
			n = -n
			r.Long() // bytes of the block
		}
		for ; n > 0 && r.OK(); n-- {
			var id [16]byte
			if digits := r.Text(); r.OK() {
				if err := decodeID(&id, digits); err != nil {
					return nil, err
				}
				l.Labels = append(l.Labels, id)
			}
		}
	}
	l.Most = r.Double()
	return l, nil
}

// append appends a region that is not null.
func (r *Region) append(dst []byte) []byte {
	dst = append(dst, 2)
	for _, v := range [...]float64{r.X0, r.Y0, r.X1, r.Y1} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	for _, v := range [...]int64{int64(r.ColumnFrom), int64(r.ColumnTo), int64(r.RowFrom), int64(r.RowTo), r.Observed} {
		dst = avro.AppendLong(dst, v)
	}
	for _, v := range [...]float64{r.Expected, r.Ratio} {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
	return avro.AppendOptional(dst, r.P)
}

// readRegion reads what append wrote after the first byte.
func readRegion(f *avro.FieldReader) *Region {
	r := new(Region)
	for _, v := range [...]*float64{&r.X0, &r.Y0, &r.X1, &r.Y1} {
		*v = f.Double()
	}
	for _, v := range [...]*int32{&r.ColumnFrom, &r.ColumnTo, &r.RowFrom, &r.RowTo} {
		*v = f.Int()
	}
	r.Observed = f.Long()
	r.Expected, r.Ratio = f.Double(), f.Double()
	r.P = f.Optional()
	return r
}

// appendDoubles appends an array of doubles that may be null: nil.
func appendDoubles(dst []byte, list []float64) []byte {
	if list == nil {
		return append(dst, 0)
	}
	dst = append(dst, 2)
	if len(list) > 0 {
		dst = avro.AppendLong(dst, int64(len(list)))
		for _, v := range list {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
		}
	}
	return append(dst, 0)
}

// DecodeAnomaly reads a record of the anomalies topic in any framing or in JSON, for
// tests and tools. The schema id is not compared with anything: the caller knows
// the topic. Key may alias b.
func DecodeAnomaly(b []byte) (a Anomaly, err error) {
	if b, err = unframe(b, compiledAnomaly, compiledNumberedAnomaly); err != nil {
		return Anomaly{}, fmt.Errorf("output: anomaly: %w", err)
	}
	r := avro.NewFieldReader(b)
	if id := r.Text(); r.OK() {
		if err := decodeID(&a.ID, id); err != nil {
			return Anomaly{}, fmt.Errorf("output: anomaly: id: %w", err)
		}
	}
	a.Revision = uint32(r.UpTo(math.MaxUint32))
	a.Kind = uint8(r.Index(len(AnomalyKinds)))
	if r.Index(2) == 1 {
		a.Reason = uint8(r.Index(len(CloseReasons)))
	}
	a.Key = r.Text()
	a.Detector = string(r.Text())
	a.Severity = uint8(r.UpTo(math.MaxUint8))
	a.Band = uint8(r.Index(len(SeverityBands)))
	for _, t := range [...]*int64{&a.Start, &a.End, &a.PeakTime, &a.OpenedAt, &a.EventTime} {
		*t = r.Long()
	}
	a.PeakScore, a.Threshold, a.Rank = r.Optional(), r.Optional(), r.Optional()
	a.Samples = uint32(r.UpTo(math.MaxUint32))
	a.Expected, a.Actual, a.Contribution = r.Doubles(), r.Doubles(), r.Doubles()
	if r.Index(2) == 1 {
		a.Field = string(r.Text())
	}
	a.Topic = string(r.Text())
	a.Partition = r.Int()
	a.Offset = r.Long()
	if r.Index(2) == 1 {
		a.Region = readRegion(r)
	}
	if r.Index(2) == 1 {
		if a.Group, err = readID(r); err != nil {
			return Anomaly{}, fmt.Errorf("output: anomaly: group: %w", err)
		}
	}
	if r.Index(2) == 1 {
		if a.Like, err = readLike(r); err != nil {
			return Anomaly{}, fmt.Errorf("output: anomaly: like: %w", err)
		}
	}
	if r.Index(2) == 1 {
		a.Range = r.Double()
	}
	if r.Index(2) == 1 {
		a.Held = uint32(r.UpTo(math.MaxUint32))
	}
	if r.Index(2) == 1 {
		a.Member = readMember(r)
	}
	if r.Index(2) == 1 {
		a.Escalation = &Escalation{Start: r.Long(), PeakTime: r.Long(), Since: r.Long()}
	}
	a.Summary = string(r.Text())
	if r.Index(2) == 1 {
		a.CarriedBy = string(r.Text())
	}
	if r.Index(2) == 1 {
		a.Spread = r.Double()
	}
	if r.Index(2) == 1 {
		a.Unit = string(r.Text())
	}
	if r.Index(2) == 1 {
		a.Side = 1 + uint8(r.Index(len(Sides)))
	}
	if r.Index(2) == 1 {
		if a.Fault, err = readID(r); err != nil {
			return Anomaly{}, fmt.Errorf("output: anomaly: fault: %w", err)
		}
	}
	if r.Index(2) == 1 {
		a.Recurs = &Recurrence{Period: r.Long(), Count: r.Long(), Text: string(r.Text())}
	}
	a.Sample = readSample(r)
	if err := r.End(); err != nil {
		return Anomaly{}, fmt.Errorf("output: anomaly: %w", err)
	}
	return a, nil
}

// readID reads what appendOptionalID wrote after the first byte; nil where that is cut off.
func readID(r *avro.FieldReader) (*[16]byte, error) {
	digits := r.Text()
	if !r.OK() {
		return nil, nil
	}
	id := new([16]byte)
	return id, decodeID(id, digits)
}

func decodeID(id *[16]byte, digits []byte) error {
	if len(digits) != 2*len(id) {
		return fmt.Errorf("an id of %d digits, not %d", len(digits), 2*len(id))
	}
	_, err := hex.Decode(id[:], digits)
	return err
}
