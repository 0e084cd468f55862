package feedback

import (
	"context"
	"errors"
	"fmt"
	"io"

	"odradek/processor/kafka"
	"odradek/processor/limits"
	"odradek/schemas/output"
)

// Resumption says which partitions go on that are paused for their dead letters.
type Resumption struct {
	Limit     limits.DeadLetters
	Committed map[kafka.TP]kafka.Offset // by the group
	Ends      map[kafka.TP]int64        // of the log, for read-committed consumers
	Until     map[kafka.TP]int64        // the offset up to which a partition is not paused again
	// Named resumes all partitions. Otherwise those go on that have as many dead letters as the window allows, and
	// more input.
	Named  bool
	Author string
}

// Resume writes to the topic which of the partitions tps go on, and from where. Their owners read it. It reports each to out.
func (t *Topic) Resume(ctx context.Context, tps []kafka.TP, r *Resumption, out io.Writer) error {
	resumed := 0
	for _, tp := range tps {
		at, w := r.Committed[tp].Offset, limits.LetterWindowOf(r.Committed[tp].Metadata)
		if at < 0 || !r.Named && (at >= r.Ends[tp] || !r.Limit.Full(w)) {
			continue
		}
		f := output.Feedback{ID: "resume/" + tp.String(), Kind: output.FeedbackResume, Author: r.Author,
			Resume: &output.Resume{Topic: tp.Topic, Partition: tp.Partition, Offset: at, Until: max(at, r.Until[tp])}}
		if err := t.Say(ctx, &f); err != nil {
			return err
		}
		resumed++
		how := fmt.Sprintf("a window of %v begins there", r.Limit)
		if f.Resume.Until > at {
			how = fmt.Sprintf("the records before offset %d do not pause it again", f.Resume.Until)
		}
		fmt.Fprintf(out, "%s goes on at offset %d; its window had %d dead letters among %d records; %s\n", tp, at, w.Dead, w.Records, how)
	}
	if resumed == 0 {
		return errors.New("feedback: no partition has as many dead letters as ODRADEK_STOP_ABOVE allows; " +
			"name one with -topic and -partition to resume it all the same")
	}
	return nil
}
