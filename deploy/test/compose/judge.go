//go:build ignore

// Command judge looks, for scripts/compose-test.sh and scripts/cluster-test.sh, at a demo's topics, with a client that is not ours.
// ODRADEK_KAFKA_BROKERS and ODRADEK_GROUP name another broker and group than docker-compose.yml has.
//
//	judge first SECONDS     waits for the first score and the first anomaly, and says when they came
//	judge group N           waits until the group has N members and each partition an owner
//	judge live              waits until a sample of every partition is scored that was written after the call
//	judge faults            compares the anomalies with the labels, and looks for doubled scores
//	judge pause             until it is interrupted: the longest time without a score of a partition that is written to
//	judge complete GROUP    waits until all is read, and compares the scores with the other group's
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

const (
	input  = "sensors"
	labels = "sensors-labels"
)

var (
	group     = cmp.Or(os.Getenv("ODRADEK_GROUP"), "plant")
	scores    = group + "-scores"
	anomalies = group + "-anomalies"
	brokers   = []string{cmp.Or(os.Getenv("ODRADEK_KAFKA_BROKERS"), "localhost:9092")}
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	do := map[string]func(context.Context, []string) error{
		"first": first, "group": members, "live": live, "faults": faults, "pause": pause, "complete": complete,
	}
	if err := do[os.Args[1]](ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "judge:", os.Args[1]+":", err)
		os.Exit(1)
	}
}

// follow hands over what is committed in the topics, from the first record or from now on, until each says that it is enough.
func follow(ctx context.Context, from kgo.Offset, each func(*kgo.Record) (enough bool, err error), topics ...string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(from),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.MetadataMinAge(200*time.Millisecond), kgo.UnknownTopicRetries(-1),
		kgo.MetadataMaxAge(500*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i := fetches.RecordIter(); !i.Done(); {
			if enough, err := each(i.Next()); enough || err != nil {
				return err
			}
		}
	}
}

func first(ctx context.Context, args []string) error {
	limit, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	began := time.Now()
	came := map[string]time.Duration{} // by topic; a fetch may have the anomaly first
	err = follow(ctx, kgo.NewOffset().AtStart(), func(r *kgo.Record) (bool, error) {
		if r.Topic == scores {
			list, err := output.DecodeScores(nil, r.Value)
			if err != nil || !slices.ContainsFunc(list, func(s output.Score) bool { return s.Score == s.Score }) {
				return false, err
			}
		}
		if came[r.Topic] == 0 {
			came[r.Topic] = time.Since(began)
		}
		return len(came) == 2, nil
	}, scores, anomalies)
	fmt.Printf("first score after %.1f s, first anomaly after %.1f s\n", came[scores].Seconds(), came[anomalies].Seconds())
	if err == nil && came[anomalies] > time.Duration(limit)*time.Second {
		err = fmt.Errorf("later than %d s", limit)
	}
	return err
}

func members(ctx context.Context, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	admin, err := kafkatest.NewAdmin(brokers)
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.WaitGroup(ctx, group, n, input)
	return err
}

func live(ctx context.Context, _ []string) error {
	began := time.Now()
	left := map[int32]bool{0: true, 1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true}
	err := follow(ctx, kgo.NewOffset().AtEnd(), func(r *kgo.Record) (bool, error) {
		list, err := output.DecodeScores(nil, r.Value)
		for _, s := range list {
			if time.UnixMicro(s.EventTime).After(began) {
				delete(left, s.Partition)
			}
		}
		return len(left) == 0, err
	}, scores)
	if err != nil {
		return fmt.Errorf("no score of what is written now in partitions %v: %w", slices.Sorted(maps.Keys(left)), err)
	}
	fmt.Printf("every partition scores what is written now, after %.1f s\n", time.Since(began).Seconds())
	return nil
}

// pause has no deadline but the interrupt.
func pause(context.Context, []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	last, longest := map[int32]time.Time{}, map[int32]time.Duration{} // by partition of the input
	err := follow(ctx, kgo.NewOffset().AtEnd(), func(r *kgo.Record) (bool, error) {
		list, err := output.DecodeScores(nil, r.Value)
		for _, s := range list {
			if before := last[s.Partition]; !before.IsZero() {
				longest[s.Partition] = max(longest[s.Partition], time.Since(before))
			}
			last[s.Partition] = time.Now()
		}
		return false, err
	}, scores)
	if ctx.Err() == nil {
		return err
	}
	for p, at := range last {
		longest[p] = max(longest[p], time.Since(at))
	}
	var all []string
	for _, p := range slices.Sorted(maps.Keys(longest)) {
		all = append(all, fmt.Sprintf("%.1f", longest[p].Seconds()))
	}
	if len(all) == 0 {
		return errors.New("no scores came")
	}
	fmt.Printf("longest time without a score, by partition: %s s\n", strings.Join(all, " "))
	return nil
}

// complete compares with the scores of a group of one worker that nothing has stopped.
func complete(ctx context.Context, args []string) error {
	admin, err := kafkatest.NewAdmin(brokers)
	if err != nil {
		return err
	}
	defer admin.Close()
	unscored := map[kafkatest.TP]map[int64]bool{}
	records := 0
	err = admin.Read(ctx, input, true, func(r *kafkatest.Record) error {
		if unscored[r.TP()] == nil {
			unscored[r.TP()] = map[int64]bool{}
		}
		unscored[r.TP()][r.Offset] = true
		records++
		return nil
	})
	if err != nil {
		return err
	}
	type id struct {
		kafkatest.TP
		offset   int64
		detector string
	}
	type value struct {
		bits  uint64
		state output.ScoreState
	}
	doubled := 0
	read := func(group string) (map[id]value, error) {
		all := map[id]value{}
		if err := admin.WaitCommitted(ctx, group, input); err != nil {
			return nil, err
		}
		// The transaction that has the offsets may be open in the scores yet: each partition has a marker of its own.
		if err := admin.WaitStable(ctx, group+"-scores"); err != nil {
			return nil, err
		}
		return all, admin.Read(ctx, group+"-scores", true, func(r *kafkatest.Record) error {
			list, err := output.DecodeScores(nil, r.Value)
			for _, s := range list {
				k := id{kafkatest.TP{Topic: s.Topic, Partition: s.Partition}, s.Offset, s.Detector}
				if _, ok := all[k]; ok {
					doubled++
				}
				all[k] = value{math.Float64bits(s.Score), s.State}
			}
			return err
		})
	}
	want, err := read(args[0])
	if err != nil {
		return err
	}
	got, err := read(group)
	if err != nil {
		return err
	}
	lost, others := 0, 0
	for k, w := range want {
		switch g, ok := got[k]; {
		case !ok:
			lost++
		case g != w:
			others++
		}
		delete(unscored[k.TP], k.offset)
	}
	without, aside := 0, 0 // records without a score, and records in the topics for late ones and for dead letters
	for _, offsets := range unscored {
		without += len(offsets)
	}
	for _, topic := range []string{group + "-late", group + "-dlq"} {
		if err := admin.Read(ctx, topic, true, func(*kafkatest.Record) error { aside++; return nil }); err != nil {
			return err
		}
	}
	more := len(got) - (len(want) - lost)
	fmt.Printf("%d records, %d of them without a score and %d late or dead letters; %d scores: %d lost, %d doubled, %d others, %d too many\n",
		records, without, aside, len(got), lost, doubled, others, more)
	if lost != 0 || doubled != 0 || others != 0 || more != 0 || records == 0 {
		return errors.New("not the scores of a worker that nothing has stopped")
	}
	return nil
}

// label is a planted fault, as the generator writes it.
type label struct {
	Sensor   string
	Fault    string
	From, To time.Time
}

func faults(ctx context.Context, _ []string) error {
	admin, err := kafkatest.NewAdmin(brokers)
	if err != nil {
		return err
	}
	defer admin.Close()
	now := time.Now()
	planted := map[string][]*label{} // by sensor
	read := func(topic string, each func(kafkatest.Record) error) error {
		recs, err := admin.ReadAll(ctx, topic, true)
		for i := 0; err == nil && i < len(recs); i++ {
			err = each(recs[i])
		}
		return err
	}
	err = read(labels, func(r kafkatest.Record) error {
		l := new(label)
		err := json.Unmarshal(r.Value, l)
		planted[l.Sensor] = append(planted[l.Sensor], l)
		return err
	})
	if err != nil {
		return err
	}
	opened, strange := 0, map[string]int{}
	found := map[*label]bool{}
	err = read(anomalies, func(r kafkatest.Record) error {
		a, err := output.DecodeAnomaly(r.Value)
		if err != nil || output.AnomalyKinds[a.Kind] != "open" {
			return err
		}
		opened++
		hit := false
		for _, l := range planted[string(a.Key)] {
			at, start := time.UnixMicro(a.OpenedAt), time.UnixMicro(a.Start)
			if between(at, l.From.Add(-time.Second), l.To.Add(15*time.Second)) || between(start, l.From.Add(-time.Second), l.To.Add(5*time.Second)) {
				found[l], hit = true, true
			}
		}
		if !hit {
			strange[a.Detector]++
		}
		return nil
	})
	if err != nil {
		return err
	}
	count := map[string][2]int{}
	all, hits := 0, 0
	for _, list := range planted {
		for _, l := range list {
			if l.To.After(now.Add(-20 * time.Second)) {
				continue // it may be found yet
			}
			c := count[l.Fault]
			c[1]++
			all++
			if found[l] {
				c[0]++
				hits++
			}
			count[l.Fault] = c
		}
	}
	fmt.Printf("%d of %d planted faults found, by kind %v; %d anomalies, of no fault %v\n", hits, all, count, opened, strange)
	type id struct {
		partition int32
		offset    int64
		detector  string
	}
	seen, doubled := map[id]bool{}, 0
	err = read(scores, func(r kafkatest.Record) error {
		list, err := output.DecodeScores(nil, r.Value)
		for _, s := range list {
			k := id{s.Partition, s.Offset, s.Detector}
			if seen[k] {
				doubled++
			}
			seen[k] = true
		}
		return err
	})
	fmt.Printf("%d scores, %d doubled\n", len(seen), doubled)
	switch {
	case err != nil:
		return err
	case doubled > 0 || len(seen) == 0:
		return errors.New("scores are missing or doubled")
	case all == 0 || hits*100 < all*95:
		return errors.New("fewer than 95 % of the planted faults were found")
	}
	return nil
}

func between(t, from, to time.Time) bool { return !t.Before(from) && !t.After(to) }
