package admin

import (
	"context"
	"fmt"

	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// ChangelogOwner reads the first owner record of a changelog partition, which is
// near its front; nil without one.
func ChangelogOwner(ctx context.Context, offsets *kafka.Offsets, f *kafka.Fetcher, log kafka.TP) (owner *processor.Owner, err error) {
	first, err := offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	last, err := offsets.ListOffsets(ctx, []kafka.TP{log}, kafka.Latest)
	if err != nil {
		return nil, err
	}
	err = f.ReadRange(ctx, log, first[log], last[log], func(rec *record.Record) (bool, error) {
		if string(rec.Key) != processor.OwnerKey || rec.Value == nil {
			return true, nil
		}
		o, err := processor.ParseOwner(rec.Value)
		if err != nil {
			return false, fmt.Errorf("changelog %s at offset %d: %w", log, rec.Offset, err)
		}
		owner = &o
		return false, nil
	})
	return owner, err
}
