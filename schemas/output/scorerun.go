package output

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"odradek/schemas/avro"
)

// ScoreRunSchema is the Avro schema of records of the scores topic that hold several scores.
//
//go:embed score_run.avsc
var ScoreRunSchema string

// ScoreRunName is the full name of its records.
const ScoreRunName = "io.odradek.ScoreRun"

var compiledScoreRun = compile(ScoreRunSchema)

// MaxRun is the most scores that the worker writes into one record.
const MaxRun = 64

// runVersion is the first field of a run. It is negative, so that its first byte is odd; the first byte of a score's record, which
// begins with the length of a key, is even.
const runVersion = -1

// RunScore is one score of a run.
type RunScore struct {
	EventTime, ScoreTime int64
	Offset               int64   // as ScoreEncoder.Put takes it
	Score                float32 // NaN: none (null)
	Remaining            int32   // 0: none (null)
	State                ScoreState
	Prediction
}

// Runs makes e an encoder of runs, of which AppendRun and PutRun write records. It then writes no single scores.
func (e *ScoreEncoder) Runs() *ScoreEncoder {
	e.compiled = compiledScoreRun
	e.room -= len(e.head)
	e.head = e.compiled.head(e.schemaID)
	e.room += len(e.head)
	return e
}

// mostRunScore is the most bytes of a score in a run, with the number of its sample.
const mostRunScore = 3*binary.MaxVarintLen64 + 5 + 1 + 1 + 2*binary.MaxVarintLen32 + 9 + 5

// mostRunRest is the most bytes of a run beside the record of one score, and mostRunScore for each.
const mostRunRest = 8 * binary.MaxVarintLen64

// MostRun returns an upper bound of the bytes that a run of n scores of the series takes in Avro.
func (e *ScoreEncoder) MostRun(key []byte, n int) int {
	return e.Most(key) + mostRunRest + n*mostRunScore
}

// AppendRun appends a run with its framing; see PutRun. Where dst has room nothing is allocated.
func (e *ScoreEncoder) AppendRun(dst, key []byte, detector int, run []RunScore) []byte {
	n, most := len(dst), e.MostRun(key, len(run))
	dst = slices.Grow(dst, most)
	dst = dst[:n+e.PutRun(dst[n:n+most], key, detector, run)]
	if e.schemaID == JSON {
		return e.compiled.asJSON(dst, n)
	}
	return dst
}

// PutRun writes scores of one series and detector, at least one, with their framing to the front of b, which has MostRun bytes, and
// returns how many it took. It is not for an encoder of JSON.
func (e *ScoreEncoder) PutRun(b, key []byte, detector int, run []RunScore) int {
	if len(b) != e.room+len(key)+mostRunRest+len(run)*mostRunScore {
		key = hexKey(key)
	}
	time, offset := run[0].EventTime, run[0].Offset>>e.bits
	i := copy(b, e.head)
	i += avro.PutLong(b[i:], runVersion)
	i += avro.PutLong(b[i:], int64(len(key)))
	i += copy(b[i:], key)
	i += copy(b[i:], e.detectors[detector])
	i += copy(b[i:], e.source)
	i += avro.PutLong(b[i:], offset)
	i += avro.PutLong(b[i:], time)
	i += avro.PutLong(b[i:], int64(len(run)))
	for k := range run {
		s := &run[k]
		at := s.Offset >> e.bits
		i += avro.PutLong(b[i:], at-offset)
		i += avro.PutLong(b[i:], s.EventTime-time)
		i += avro.PutLong(b[i:], s.EventTime-s.ScoreTime)
		offset, time = at, s.EventTime
		i += putOptional32(b[i:], s.Score)
		b[i] = byte(s.State) << 1
		i++
		if s.Remaining > 0 {
			b[i] = 2
			i++
			i += avro.PutLong(b[i:], int64(s.Remaining))
		} else {
			b[i] = 0
			i++
		}
	}
	b[i] = 0 // the end of the scores
	i++
	if !e.numbered || e.bits == 0 {
		b[i] = 0
		i++
	} else {
		b[i] = 2
		i++
		i += avro.PutLong(b[i:], int64(len(run)))
		for k := range run {
			i += avro.PutLong(b[i:], run[k].Offset&(1<<e.bits-1))
		}
		b[i] = 0
		i++
	}
	return i + putPredictions(b[i:], run)
}

// putPredictions writes what was expected of the samples of a run, the end of its record.
func putPredictions(b []byte, run []RunScore) (i int) {
	if !slices.ContainsFunc(run, func(s RunScore) bool { return s.Predicted }) {
		b[0], b[1] = 0, 0
		return 2
	}
	b[i] = 2
	i++
	i += avro.PutLong(b[i:], int64(len(run)))
	for k := range run {
		expected, _ := run[k].Numbers()
		i += putOptional(b[i:], expected)
	}
	b[i], b[i+1] = 0, 2
	i += 2
	i += avro.PutLong(b[i:], int64(len(run)))
	for k := range run {
		_, spread := run[k].Numbers()
		i += putOptional32(b[i:], float32(spread))
	}
	b[i] = 0
	return i + 1
}

// putOptional32 is putOptional for a float.
func putOptional32(b []byte, v float32) int {
	if v != v {
		b[0] = 0
		return 1
	}
	b[0] = 2
	binary.LittleEndian.PutUint32(b[1:], math.Float32bits(v))
	return 5
}

// DecodeScores appends the scores of a record of the scores topic to dst: the one of a record of a single score, or all of a run,
// in any framing or in JSON. The schema id is not compared with anything: the caller knows the topic. Keys may alias b.
func DecodeScores(dst []Score, b []byte) ([]Score, error) {
	body, err := unframe(b, compiledScore, compiledNumberedScore, compiledScoreRun)
	if err != nil {
		return dst, fmt.Errorf("output: score: %w", err)
	}
	if len(body) == 0 || body[0]&1 == 0 {
		s, err := readScore(body)
		if err != nil {
			return dst, fmt.Errorf("output: score: %w", err)
		}
		return append(dst, s), nil
	}
	n := len(dst)
	if dst, err = readRun(dst, body); err != nil {
		return dst[:n], fmt.Errorf("output: run of scores: %w", err)
	}
	return dst, nil
}

func readRun(dst []Score, body []byte) ([]Score, error) {
	r := avro.NewFieldReader(body)
	if v := r.Int(); r.OK() && v != runVersion {
		return dst, fmt.Errorf("it has version %d, and this program reads version %d: read it with a newer one", v, runVersion)
	}
	first := len(dst)
	s := Score{Key: r.Text(), Detector: string(r.Text()), Topic: string(r.Text()), Partition: r.Int(), Offset: r.Long(), EventTime: r.Long()}
	for n := r.Block(); n > 0; n = r.Block() {
		for ; n > 0 && r.OK(); n-- {
			s.Offset += r.Long()
			s.EventTime += r.Long()
			s.ScoreTime = s.EventTime - r.Long()
			s.Score = math.NaN()
			if r.Index(2) == 1 {
				s.Score = float64(r.Float())
			}
			s.State = ScoreState(r.Index(int(scoreStates)))
			s.Remaining = 0
			if r.Index(2) == 1 {
				s.Remaining = r.Int()
			}
			dst = append(dst, s)
		}
	}
	run := dst[first:]
	err := readEach(r, run, "numbers", func(s *Score) {
		n := r.Int()
		s.Sample = &n
	})
	if err == nil {
		err = readEach(r, run, "predictions", func(s *Score) { s.Prediction = predictionOf(r.Optional(), 0) })
		if err == nil {
			err = readEach(r, run, "predictions", func(s *Score) {
				if r.Index(2) == 1 {
					s.Spread = float64(r.Float())
				}
			})
		}
	}
	if err != nil {
		return dst, err
	}
	return dst, r.End()
}

// readEach reads an array with an item for each score of a run, or null. what names the items.
func readEach(r *avro.FieldReader, run []Score, what string, read func(s *Score)) error {
	if r.Index(2) == 0 {
		return nil
	}
	got := 0
	for n := r.Block(); n > 0; n = r.Block() {
		for ; n > 0 && r.OK(); n-- {
			if got == len(run) {
				return fmt.Errorf("it has %d scores and %s of more samples", len(run), what)
			}
			read(&run[got])
			got++
		}
	}
	if r.OK() && got != len(run) {
		return fmt.Errorf("it has %d scores and %s of %d samples", len(run), what, got)
	}
	return nil
}
