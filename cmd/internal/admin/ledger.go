package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// LedgerTopic returns the name of the ledger of the dead-letter topic dlq: the topic in which Redrive records which dead
// letters were sent again, so that none is sent twice. Offsets of a consumer group would not do: brokers delete them seven
// days after the last member has left (offsets.retention.minutes), and they cannot express that letters between others were
// not sent.
func LedgerTopic(dlq string) string { return cycle.Ledger(dlq) }

// LedgerConfigs is the topic configuration of a new ledger (LedgerTopic), whose records are never deleted.
var LedgerConfigs = map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

// ledgerRecord is a record of the ledger: the letters of one partition that were sent again in one transaction.
type ledgerRecord struct {
	Partition int32      `json:"partition"`
	Offsets   [][2]int64 `json:"offsets"` // first and last of each run
	To        string     `json:"to"`      // topic
	At        time.Time  `json:"at"`
}

// runs is a set of offsets as ascending runs, first and last.
type runs [][2]int64

// add adds an offset that is not below the last one.
func (r *runs) add(offset int64) {
	if n := len(*r); n > 0 && (*r)[n-1][1] >= offset-1 {
		(*r)[n-1][1] = max((*r)[n-1][1], offset)
		return
	}
	*r = append(*r, [2]int64{offset, offset})
}

func (r runs) has(offset int64) bool {
	i, exact := slices.BinarySearchFunc(r, offset, func(run [2]int64, offset int64) int {
		switch {
		case run[1] < offset:
			return -1
		case run[0] > offset:
			return 1
		}
		return 0
	})
	return exact && i < len(r)
}

// merge sorts the runs and joins those that touch.
func (r runs) merge() runs {
	slices.SortFunc(r, func(a, b [2]int64) int { return int(min(max(a[0]-b[0], -1), 1)) })
	out := r[:0]
	for _, run := range r {
		if n := len(out); n > 0 && out[n-1][1] >= run[0]-1 {
			out[n-1][1] = max(out[n-1][1], run[1])
			continue
		}
		out = append(out, run)
	}
	return out
}

// sentTo names the letters of a partition that went to a topic.
type sentTo struct {
	partition int32
	topic     string
}

// readLedger reads which letters were sent again and where to; none where there is no ledger.
// With wait it waits for transactions that are open: one whose outcome is not known says what must not be
// sent again.
func readLedger(ctx context.Context, client *kafka.Client, fetcher *kafka.Fetcher, dlq string, wait bool) (map[sentTo]runs, error) {
	name := LedgerTopic(dlq)
	infos, err := client.Admin.Topics(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("admin: topic %q: %w", name, err)
	}
	sent := map[sentTo]runs{}
	if !infos[name].Exists {
		return sent, nil
	}
	for p := range infos[name].Partitions {
		tp := kafka.TP{Topic: name, Partition: int32(p)}
		first, err := client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, kafka.Earliest)
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		last, err := client.Offsets.ListStable(ctx, []kafka.TP{tp})
		if wait {
			last, err = client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, kafka.Latest)
		}
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
		err = fetcher.ReadRange(ctx, tp, first[tp], last[tp], func(rec *record.Record) (bool, error) {
			var e ledgerRecord
			if err := json.Unmarshal(rec.Value, &e); err != nil {
				return false, fmt.Errorf("%s at offset %d is no entry of a ledger: %w", tp, rec.Offset, err)
			}
			to := sentTo{e.Partition, e.To}
			sent[to] = append(sent[to], e.Offsets...)
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("admin: %w", err)
		}
	}
	for to := range sent {
		sent[to] = sent[to].merge()
	}
	return sent, nil
}
