package feedback

import (
	"errors"
	"fmt"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/schemas/output"
)

// Resumption says which partitions go on that are paused for their dead letters.
type Resumption struct {
	Limit     cycle.DeadLetterLimit
	Committed map[kafka.TP]kafka.Offset // by the group
	Ends      map[kafka.TP]int64        // of the log, for read-committed consumers
	Until     map[kafka.TP]int64        // the offset up to which a partition is not paused again
	// Named resumes all partitions. Otherwise those go on that have as many dead letters as the window allows, and
	// more input.
	Named  bool
	Author string
}

// Records returns the records for the feedback topic that have partitions of tps go on: their owners read them.
func (r *Resumption) Records(tps []kafka.TP) (list []output.Feedback, err error) {
	for _, tp := range tps {
		at, w := r.Committed[tp].Offset, cycle.LetterWindowOf(r.Committed[tp].Metadata)
		if at < 0 || !r.Named && (at >= r.Ends[tp] || !r.Limit.Full(w)) {
			continue
		}
		list = append(list, output.Feedback{ID: "resume/" + tp.String(), Kind: output.FeedbackResume, Author: r.Author,
			Resume: &output.Resume{Topic: tp.Topic, Partition: tp.Partition, Offset: at, Until: max(at, r.Until[tp])}})
	}
	if len(list) == 0 {
		return nil, errors.New("feedback: no partition has as many dead letters as stop_above allows; " +
			"name one with -topic and -partition to resume it all the same")
	}
	return list, nil
}

// Text describes a record of Of.
func (r *Resumption) Text(f *output.Feedback) string {
	tp := kafka.TP{Topic: f.Resume.Topic, Partition: f.Resume.Partition}
	w := cycle.LetterWindowOf(r.Committed[tp].Metadata)
	how := fmt.Sprintf("a window of %v begins there", r.Limit)
	if f.Resume.Until > f.Resume.Offset {
		how = fmt.Sprintf("the records before offset %d do not pause it again", f.Resume.Until)
	}
	return fmt.Sprintf(
		"%s goes on at offset %d; its window had %d dead letters among %d records; %s",
		tp,
		f.Resume.Offset,
		w.Dead,
		w.Records,
		how,
	)
}
