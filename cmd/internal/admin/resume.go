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
func (g *Group) Resume(ctx context.Context) error {
	r := feedback.Resumption{Limit: g.c.StopAbove(), Named: g.o.Partition >= 0, Author: g.o.Author}
	if r.Limit.Of == 0 {
		return errors.New("admin: ODRADEK_STOP_ABOVE is off: no partition is paused for its dead letters")
	}
	var err error
	if r.Committed, err = committedOffsets(ctx, g.c, g.client, g.tps); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	if r.Ends, err = g.client.Offsets.ListStable(ctx, g.tps); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	switch g.o.To {
	case "committed":
	case "latest":
		r.Until = r.Ends
	default:
		r.Until = map[kafka.TP]int64{g.tps[0]: g.o.At}
	}
	reg, err := g.c.NewRegistry()
	if err != nil {
		return err
	}
	topic := page.FeedbackTopic(g.c, g.client, reg)
	list, err := r.Records(g.tps)
	if err != nil {
		return err
	}
	for i := range list {
		fmt.Fprintln(g.err, r.Text(&list[i]))
	}
	if err := g.o.Agree(fmt.Sprintf("have %d partitions go on?", len(list))); err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	for i := range list {
		if err := topic.Say(ctx, &list[i]); err != nil {
			return err
		}
	}
	return nil
}
