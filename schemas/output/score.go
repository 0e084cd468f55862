package output

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"odradek/schemas/avro"
)

// ScoreSchema is the Avro schema of the scores topic.
//
//go:embed score.avsc
var ScoreSchema string

// NumberedScoreSchema is ScoreSchema with the number of a sample in its record, for inputs of which a record is several.
var NumberedScoreSchema = numbered(ScoreSchema)

// ScoreState says what a score was computed from.
type ScoreState uint8

// The states, in the order of the schema's enum.
const (
	Scored    ScoreState = iota // from measured values
	WarmingUp                   // too little history, no score
	Imputed                     // a value was missing, and the last one was used
	scoreStates
)

func (s ScoreState) String() string {
	if s < scoreStates {
		return [...]string{"scored", "warming_up", "imputed"}[s]
	}
	return fmt.Sprintf("ScoreState(%d)", uint8(s))
}

// Score is one record of the scores topic.
type Score struct {
	Key       []byte
	EventTime int64 // microseconds since 1970, of the sample
	ScoreTime int64 // event time that the score covers
	Detector  string
	Score     float64 // NaN: none (null)
	State     ScoreState
	Topic     string // of the input record, with Partition and Offset
	Partition int32
	Offset    int64
	Remaining int32  // while warming up, samples until the first score, at the least; 0: none (null)
	Sample    *int32 // number of the sample in its record; nil: none (null, or not in the schema)
	Prediction
}

// Prediction is what a detector expected of a sample.
type Prediction struct {
	Predicted bool    // false: nothing (null)
	Expected  float64 // the value
	Spread    float64 // how far readings usually are from that, as a standard deviation; 0: not known (null)
}

// Numbers returns what records have, NaN for null.
func (p *Prediction) Numbers() (expected, spread float64) {
	if expected, spread = p.Expected, p.Spread; !p.Predicted {
		return math.NaN(), math.NaN()
	}
	if !(spread > 0) {
		spread = math.NaN()
	}
	return expected, spread
}

// predictionOf reverses Prediction.Numbers.
func predictionOf(expected, spread float64) (p Prediction) {
	if p.Predicted = expected == expected; !p.Predicted {
		return p
	}
	if p.Expected = expected; spread == spread {
		p.Spread = spread
	}
	return p
}

// ScoreEncoder writes the scores of one input partition. It encodes once what all its
// records have in common. Several goroutines may share it.
type ScoreEncoder struct {
	head      []byte
	detectors [][]byte
	source    []byte // topic and partition
	room      int    // bytes of a record beside its key, at most
	schemaID  int32
	compiled  *compiled
	numbered  bool
	bits      uint8 // see Number
}

// NewScoreEncoder makes an encoder for the scores of topic's partition by the
// detectors of these names. schemaID is the id of ScoreSchema in the registry
// (Confluent framing), SingleObject or JSON.
func NewScoreEncoder(schemaID int32, topic string, partition int32, detectors []string) *ScoreEncoder {
	e := &ScoreEncoder{head: compiledScore.head(schemaID), schemaID: schemaID, compiled: compiledScore}
	longest := 0
	for _, d := range detectors {
		b := avro.AppendText(nil, d)
		longest = max(longest, len(b))
		e.detectors = append(e.detectors, b)
	}
	e.source = avro.AppendLong(avro.AppendText(nil, topic), int64(partition))
	e.room = len(e.head) + longest + len(e.source) + 4*binary.MaxVarintLen64 + 3*(1+8) + 1 + 1 + binary.MaxVarintLen32
	return e
}

// Number makes e an encoder of NumberedScoreSchema. The offsets that it is then given are samples' offsets, whose last bits
// are the sample's number in its record; without bits a record is one sample.
func (e *ScoreEncoder) Number(bits uint8) *ScoreEncoder {
	e.compiled, e.numbered, e.bits = compiledNumberedScore, true, bits
	e.head = e.compiled.head(e.schemaID)
	e.room += 1 + binary.MaxVarintLen64
	return e
}

var (
	compiledScore         = compile(ScoreSchema)
	compiledNumberedScore = compile(NumberedScoreSchema)
)

// Append appends one score with its framing; see Put. Where dst has room nothing
// is allocated.
func (e *ScoreEncoder) Append(dst []byte, key []byte, eventTime, scoreTime int64, detector int, score float64, state ScoreState,
	offset int64, remaining int32, p Prediction) []byte {
	n, most := len(dst), e.Most(key)
	dst = slices.Grow(dst, most)
	dst = dst[:n+e.Put(dst[n:n+most], key, eventTime, scoreTime, detector, score, state, offset, remaining, p)]
	if e.schemaID == JSON {
		return e.compiled.asJSON(dst, n)
	}
	return dst
}

// Most returns an upper bound of the bytes that a score of the series takes in Avro.
func (e *ScoreEncoder) Most(key []byte) int {
	if !utf8.Valid(key) {
		return e.room + 2 + 2*len(key)
	}
	return e.room + len(key)
}

// Put writes one score with its framing to the front of b, which has Most(key)
// bytes, and returns how many it took. It is not for an encoder of JSON. Times are microseconds; detector is the
// index of its name; a NaN score is written as null, and a remaining of 0.
func (e *ScoreEncoder) Put(b []byte, key []byte, eventTime, scoreTime int64, detector int, score float64,
	state ScoreState, offset int64, remaining int32, p Prediction) int {
	if len(b) != e.room+len(key) {
		key = hexKey(key)
	}
	i := copy(b, e.head)
	i += avro.PutLong(b[i:], int64(len(key)))
	i += copy(b[i:], key)
	i += avro.PutLong(b[i:], eventTime)
	i += avro.PutLong(b[i:], scoreTime)
	i += copy(b[i:], e.detectors[detector])
	i += putOptional(b[i:], score)
	b[i] = byte(state) << 1
	i++
	i += copy(b[i:], e.source)
	i += avro.PutLong(b[i:], offset>>e.bits)
	if remaining > 0 {
		b[i] = 2
		i++
		i += avro.PutLong(b[i:], int64(remaining))
	} else {
		b[i] = 0
		i++
	}
	expected, spread := p.Numbers()
	i += putOptional(b[i:], expected)
	i += putOptional(b[i:], spread)
	switch {
	case !e.numbered:
	case e.bits == 0:
		b[i] = 0
		i++
	default:
		b[i] = 2
		i++
		i += avro.PutLong(b[i:], offset&(1<<e.bits-1))
	}
	return i
}

// putOptional writes a number, or null for NaN.
func putOptional(b []byte, v float64) int {
	if v != v {
		b[0] = 0
		return 1
	}
	b[0] = 2
	binary.LittleEndian.PutUint64(b[1:], math.Float64bits(v))
	return 9
}

// KeyText returns a key as records have it.
func KeyText(key []byte) string {
	if utf8.Valid(key) {
		return string(key)
	}
	return string(hexKey(key))
}

// hexKey returns the text that is written into a string field for a key that is not UTF-8.
// A reader would replace all invalid bytes by the same character, and different keys would
// become one.
func hexKey(key []byte) []byte { return fmt.Appendf(nil, "0x%x", key) }

// DecodeScore reads a record of the scores topic that is a single score; see DecodeScores.
func DecodeScore(b []byte) (Score, error) {
	b, err := unframe(b, compiledScore, compiledNumberedScore)
	if err != nil {
		return Score{}, fmt.Errorf("output: score: %w", err)
	}
	s, err := readScore(b)
	if err != nil {
		return Score{}, fmt.Errorf("output: score: %w", err)
	}
	return s, nil
}

func readScore(body []byte) (s Score, err error) {
	r := avro.NewFieldReader(body)
	s.Key = r.Text()
	s.EventTime = r.Long()
	s.ScoreTime = r.Long()
	s.Detector = string(r.Text())
	s.Score = r.Optional()
	s.State = ScoreState(r.Index(int(scoreStates)))
	s.Topic = string(r.Text())
	s.Partition = r.Int()
	s.Offset = r.Long()
	if r.Index(2) == 1 {
		s.Remaining = r.Int()
	}
	s.Prediction = predictionOf(r.Optional(), r.Optional())
	s.Sample = readSample(r)
	if err := r.End(); err != nil {
		return Score{}, err
	}
	return s, nil
}
