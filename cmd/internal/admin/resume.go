package admin

import (
	"context"
	"errors"
	"fmt"

	"odradek/cmd/internal/page"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
)

// Resume has partitions go on that ODRADEK_STOP_ABOVE has paused: the one that is named, or all. The workers read it
// from the feedback topic; they need not stop.
func (s *Group) Resume(ctx context.Context) error {
	r := feedback.Resumption{Limit: s.c.StopAbove(), Named: s.o.Partition >= 0, Author: s.o.Author}
	if r.Limit.Of == 0 {
		return errors.New("admin: ODRADEK_STOP_ABOVE is off: no partition is paused for its dead letters")
	}
	var err error
	if r.Committed, err = committedOffsets(ctx, s.c, s.client, s.tps); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	if r.Ends, err = s.client.ListStable(ctx, s.tps); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	switch s.o.To {
	case "committed":
	case "latest":
		r.Until = r.Ends
	default:
		r.Until = map[kafka.TP]int64{s.tps[0]: s.o.At}
	}
	reg, err := s.c.NewRegistry()
	if err != nil {
		return err
	}
	topic := page.FeedbackTopic(s.c, s.client, reg)
	list, err := r.Records(s.tps)
	if err != nil {
		return err
	}
	for i := range list {
		fmt.Fprintln(s.err, r.Text(&list[i]))
	}
	if err := s.o.Agree(fmt.Sprintf("have %d partitions go on?", len(list))); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for i := range list {
		if err := topic.Say(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}
