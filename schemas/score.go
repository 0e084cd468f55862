package schemas

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// ScoreSchema is the Avro schema of the scores topic.
//
//go:embed score.avsc
var ScoreSchema string

// ScoreState says what a score rests on.
type ScoreState uint8

// The states, in the order of the schema's enum.
const (
	Scored    ScoreState = iota // on measured values
	WarmingUp                   // too little history, no score
	Imputed                     // a value was missing and the last one stood in
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
	ScoreTime int64 // the time that the score speaks of
	Detector  string
	Score     float64 // NaN: none (null)
	State     ScoreState
	Topic     string // of the input record, with Partition and Offset
	Partition int32
	Offset    int64
}

// ScoreEncoder writes the scores of one input partition. What is the same in
// all its records is encoded once. It is not changed by use, so that several
// goroutines may share it.
type ScoreEncoder struct {
	head      []byte
	detectors [][]byte
	source    []byte // topic and partition
	room      int    // bytes of a record beside its key, at most
}

// NewScoreEncoder makes an encoder for the scores of topic's partition by the
// detectors of these names. schemaID is the id of ScoreSchema in the registry
// (Confluent framing); below 0 records are in the single-object encoding.
func NewScoreEncoder(schemaID int32, topic string, partition int32, detectors []string) *ScoreEncoder {
	e := &ScoreEncoder{head: frameHead(schemaID, scoreFingerprint)}
	longest := 0
	for _, d := range detectors {
		b := AppendText(nil, d)
		longest = max(longest, len(b))
		e.detectors = append(e.detectors, b)
	}
	e.source = AppendLong(AppendText(nil, topic), int64(partition))
	e.room = len(e.head) + longest + len(e.source) + 4*binary.MaxVarintLen64 + 1 + 8 + 1
	return e
}

var scoreFingerprint = mustFingerprint(ScoreSchema)

func mustFingerprint(schema string) uint64 {
	crc, err := Fingerprint(schema)
	if err != nil {
		panic("schemas: a schema of this package is not Avro: " + err.Error())
	}
	return crc
}

// frameHead is what goes before the Avro bytes of a record.
func frameHead(schemaID int32, fingerprint uint64) []byte {
	if schemaID < 0 {
		return binary.LittleEndian.AppendUint64([]byte{singleObject0, singleObject1}, fingerprint)
	}
	return binary.BigEndian.AppendUint32([]byte{magicID}, uint32(schemaID))
}

// Append appends one score with its framing; see Put. Where dst has room nothing
// is allocated.
func (e *ScoreEncoder) Append(dst []byte, key []byte, eventTime, scoreTime int64, detector int, score float64, state ScoreState,
	offset int64) []byte {
	n, most := len(dst), e.Most(key)
	dst = slices.Grow(dst, most)
	return dst[:n+e.Put(dst[n:n+most], key, eventTime, scoreTime, detector, score, state, offset)]
}

// Most is the most bytes that a score of the series takes.
func (e *ScoreEncoder) Most(key []byte) int {
	if !utf8.Valid(key) {
		return e.room + 2 + 2*len(key)
	}
	return e.room + len(key)
}

// Put writes one score with its framing to the front of b, which has Most(key)
// bytes, and returns how many it took. Times are microseconds; detector is the
// index of its name; a NaN score is written as null.
func (e *ScoreEncoder) Put(b []byte, key []byte, eventTime, scoreTime int64, detector int, score float64,
	state ScoreState, offset int64) int {
	if len(b) != e.room+len(key) {
		key = hexKey(key)
	}
	i := copy(b, e.head)
	i += PutLong(b[i:], int64(len(key)))
	i += copy(b[i:], key)
	i += PutLong(b[i:], eventTime)
	i += PutLong(b[i:], scoreTime)
	i += copy(b[i:], e.detectors[detector])
	if score == score {
		b[i] = 2
		binary.LittleEndian.PutUint64(b[i+1:], math.Float64bits(score))
		i += 9
	} else {
		b[i] = 0
		i++
	}
	b[i] = byte(state) << 1
	i++
	i += copy(b[i:], e.source)
	i += PutLong(b[i:], offset)
	return i
}

// hexKey is how a key that is not text is written into a string field: a
// reader would put one and the same sign for all bytes that it does not know,
// and different keys would become one.
func hexKey(key []byte) []byte { return fmt.Appendf(nil, "0x%x", key) }

// PutLong writes a long to the front of b, which has room for the longest one,
// and returns how many bytes it took. Up to 8 bytes are made at once: the groups
// of seven bits are drawn apart pairwise, the reverse of what varint does.
func PutLong(b []byte, v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	if u < 0x80 {
		b[0] = byte(u)
		return 1
	}
	if u < 1<<56 {
		n := (bits.Len64(u) + 6) / 7
		u = u&0x000000000fffffff | u&0x00fffffff0000000<<4
		u = u&0x00003fff00003fff | u&0x0fffc0000fffc000<<2
		u = u&0x007f007f007f007f | u&0x3f803f803f803f80<<1
		u |= 0x8080808080808080 & (1<<(8*(n-1)) - 1)
		binary.LittleEndian.PutUint64(b, u)
		return n
	}
	return binary.PutUvarint(b, u)
}

// AppendLong appends a long or an int in Avro's binary encoding.
func AppendLong(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// AppendText appends a string or bytes.
func AppendText[T string | []byte](dst []byte, s T) []byte {
	return append(AppendLong(dst, int64(len(s))), s...)
}

// DecodeScore reads a record of the scores topic in either framing, for tests
// and tools. The schema id is not compared with anything: the caller knows the
// topic. Key aliases b.
func DecodeScore(b []byte) (Score, error) {
	var s Score
	b, err := unframe(b, scoreFingerprint)
	if err != nil {
		return s, fmt.Errorf("schemas: score: %w", err)
	}
	r := fieldReader{buf: b}
	s.Key = r.text()
	s.EventTime = r.long()
	s.ScoreTime = r.long()
	s.Detector = string(r.text())
	s.Score = r.optional()
	s.State = ScoreState(r.index(int(scoreStates)))
	s.Topic = string(r.text())
	s.Partition = r.int()
	s.Offset = r.long()
	if err := r.end(); err != nil {
		return Score{}, fmt.Errorf("schemas: score: %w", err)
	}
	return s, nil
}
