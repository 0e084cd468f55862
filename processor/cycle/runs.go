package cycle

import (
	"slices"

	"odradek/processor/kafka/record"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// runs has scores written as runs: all that a Write has of a series and detector, at most output.MaxRun in a record. Nothing waits for
// a run to become longer.
type runs struct {
	next    []int32             // by row: the next one of the same series; -1: none
	first   []int32             // the first row of each series
	pending [][]output.RunScore // by detector, of one series
}

// Runs has the scores written as runs. It follows Number, if that is called at all.
func (w *Writer) Runs() {
	w.runs = &runs{pending: make([][]output.RunScore, len(w.state.Detectors))}
	w.scores.Runs()
}

// link finds the rows of each series.
func (r *runs) link(rows []state.Row) {
	r.next, r.first = slices.Grow(r.next[:0], len(rows))[:len(rows)], r.first[:0]
	for i := range rows {
		k := rows[i].Key
		r.next[i] = -1
		// Last may be of another Write. Then row Last, if it comes before i, is of another series: i is the first of this one.
		if last := k.Last; int(last) < i && rows[last].Key == k {
			r.next[last] = int32(i)
		} else {
			r.first = append(r.first, int32(i))
		}
		k.Last = int32(i)
	}
}

// writeRuns encodes rows as runs. The rows of a series come by detector, each detector's in their order.
func (w *Writer) writeRuns(to *target, ms int64, rows []state.Row) (bytes int, err error) {
	r := w.runs
	r.link(rows)
	for detector := range r.pending { // after an error they are not empty
		r.pending[detector] = r.pending[detector][:0]
	}
	for _, i := range r.first {
		key := rows[i].Key
		for ; i >= 0; i = r.next[i] {
			row := &rows[i]
			if w.mode == ScoresAnomalous && !row.Exceeds {
				continue
			}
			offset := row.Offset
			if !w.numbered {
				offset = w.state.Record(offset)
			}
			r.pending[row.Detector] = append(r.pending[row.Detector], output.RunScore{EventTime: row.Time, ScoreTime: row.About,
				Offset: offset, Score: row.Score, Remaining: row.Remaining, State: output.ScoreState(row.State),
				Prediction: PredictionOf(row)})
		}
		for detector, run := range r.pending {
			if len(run) == 0 {
				continue
			}
			name := key.Name()
			n, err := w.writeRun(to.batches(key, name), ms, name, detector, run)
			if err != nil {
				return bytes, scoreTooLarge(n, to.topic, err)
			}
			bytes += n
			r.pending[detector] = run[:0]
		}
	}
	return bytes, nil
}

// writeRun adds scores of a series and detector to b, in as few records as they fit. It returns their bytes, or how many a record of
// one score may have where that does not fit.
func (w *Writer) writeRun(b *record.Batches, ms int64, name []byte, detector int, run []output.RunScore) (bytes int, err error) {
	for most := output.MaxRun; len(run) > 0; {
		part := run[:min(len(run), most)]
		n, err := w.putRun(b, ms, name, detector, part)
		if err != nil && len(part) > 1 {
			most = len(part) / 2
			continue
		}
		if err != nil {
			return n, err
		}
		bytes += n + len(name) + 12
		run = run[len(part):]
	}
	return bytes, nil
}

// putRun adds a record. Headers of single records are not carried to it.
func (w *Writer) putRun(b *record.Batches, ms int64, name []byte, detector int, run []output.RunScore) (n int, err error) {
	if headers := w.headers[Scores]; len(headers) > 0 {
		w.value = w.scores.AppendRun(w.value[:0], name, detector, run)
		return len(w.value), b.Append(ms, name, w.value, headers)
	}
	most := w.scores.MostRun(name, len(run))
	value, err := b.Open(ms, name, most)
	if err != nil {
		return most, err
	}
	n = w.scores.PutRun(value, name, detector, run)
	b.Close(n)
	return n, nil
}
