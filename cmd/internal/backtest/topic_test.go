package backtest

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// TestOffsetsThatExpireMeanwhile has a partition lose records between the begin of a run
// and their turn: the error names them, and the other partition is read to its end.
func TestOffsetsThatExpireMeanwhile(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	k, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.Admin().CreateTopic(ctx, "in", 2, 0, nil); err != nil {
		t.Fatal(err)
	}
	var recs []kafkatest.Record
	for i := range 600 {
		value := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(i%7)))
		if i == 599 {
			value = value[:3] // damaged
		}
		recs = append(recs, kafkatest.Record{Topic: "in", Partition: int32(i % 2), Key: fmt.Appendf(nil, "s%d", i%2), Value: value,
			Time: 1_700_000_000_000 + int64(i)*1000})
	}
	if _, err := k.ProduceAcked(ctx, recs); err != nil {
		t.Fatal(err)
	}
	client, err := kafka.Open(ctx, kafka.Config{Brokers: k.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	dec, err := formats.NewDecoder(schemas.Mapping{Fields: []string{"@value"}}, nil, formats.Options{Bare: `"double"`})
	if err != nil {
		t.Fatal(err)
	}
	c := settings(t)
	state, err := c.KeystateConfig()
	if err != nil {
		t.Fatal(err)
	}
	src, err := NewTopic(ctx, &TopicConfig{Client: client, Decoder: dec, State: state, Topic: "in", From: "2023-11-14T22:13:30Z", To: "end",
		Fetch: kafka.FetchConfig{ReadCommitted: true, MaxWait: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if n := src.Total(); n != 590 { // the time is ten seconds, and so records, after the first
		t.Errorf("%d offsets to read, want 590", n)
	}
	if err := k.Admin().DeleteRecords(ctx, "in", 0, 120); err != nil {
		t.Fatal(err)
	}
	s, err := Run(ctx, configOf(t, c, src))
	const want = "offsets 5 to 119 of in/0 expired before they were read; the first one there is 120 now"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(s.Partial, want) {
		t.Errorf("%v, partial %q; want %q", err, s.Partial, want)
	}
	if s.Rows != 294 || s.Series != 1 {
		t.Errorf("%d rows of %d series, want the other partition's 294 of 1", s.Rows, s.Series)
	}
	if len(s.Troubles) != 1 || !strings.Contains(s.Troubles[0], "in/1 at offset 299") {
		t.Errorf("%q, want the damaged record's", s.Troubles)
	}
	for _, bad := range []string{"yesterday", "-4"} {
		if _, err := NewTopic(ctx, &TopicConfig{Client: client, Decoder: dec, Topic: "in", From: bad, To: "end"}); err == nil {
			t.Errorf("-from %s is no fault", bad)
		}
	}
	if _, err := NewTopic(ctx, &TopicConfig{Client: client, Decoder: dec, Topic: "none", From: "earliest", To: "end"}); err == nil ||
		!strings.Contains(err.Error(), `"none" does not exist`) {
		t.Errorf("a topic that is not there: %v", err)
	}
}
