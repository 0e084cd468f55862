package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/try"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

// TestRecords: the last records of a topic, with their values before and after, or why they are left out.
func TestRecords(t *testing.T) {
	b := newBed(t, nil)
	b.topic("in", 1)
	b.topic("other", 2)
	c, faults, _ := config.Parse([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in,other", "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=id",
		"ODRADEK_TIME_FIELD=at", "ODRADEK_VALUE_FIELDS=temp,bytes", "ODRADEK_MISSING_IF=temp=-9999", "ODRADEK_TRANSFORM=bytes=rate",
		`ODRADEK_ONLY_IF=quality == "GOOD"`, "ODRADEK_DETECTORS=level", "ODRADEK_DETECTOR_LEVEL_OP=zscore"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	client, err := kafka.Open(t.Context(), kafka.Config{Brokers: b.cluster.Brokers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	read := Records(func() *config.Config { return c }, client, nil)
	var records []kafkatest.Record
	for i, value := range []string{
		`{"id":"old","at":0,"temp":1,"bytes":2,"quality":"GOOD"}`, // is not among the last four
		`{"id":"a","at":%d,"temp":20.5,"bytes":100,"quality":"GOOD"}`,
		`{"id":"a","at":%d,"temp":-9999,"bytes":400,"quality":"GOOD"}`,
		`{"id":"a","at":%d,"temp":21,"bytes":500,"quality":"BAD"}`,
		`{"id":"a","at":%d`,
	} {
		if i > 0 {
			value = fmt.Sprintf(value, b.at(10*i)/1000)
		}
		records = append(records, kafkatest.Record{Topic: "in", Key: []byte("k"), Time: b.at(10*i) / 1000, Value: []byte(value)})
	}
	b.write(records...)
	got, err := read(t.Context(), "", 4)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range got.Records {
		line := fmt.Sprintf("%d/%d %s %s", r.Partition, r.Offset, r.Outcome, r.Class)
		for _, s := range r.Samples {
			values, err := json.Marshal(s.Values)
			if err != nil {
				t.Fatal(err)
			}
			line += fmt.Sprintf(" %s %s %s", s.Series, s.Time.Format("15:04:05"), values)
		}
		lines = append(lines, line)
	}
	want := []string{
		`0/1 read  a 00:00:10 [{"field":"temp","read":20.5,"value":20.5},{"field":"bytes","read":100,"value":null,`,
		`0/2 read  a 00:00:20 [{"field":"temp","read":-9999,"value":null,`,
		`0/3 filtered `,
		`0/4 dead truncated`,
	}
	if len(lines) != len(want) || !slices.Equal(got.Topics, []string{"in", "other"}) || got.Topic != "in" ||
		!strings.HasSuffix(lines[1], `{"field":"bytes","read":400,"value":30}]`) || !strings.Contains(got.Summary, "1 filtered") {
		t.Fatalf("%s of %q\n%s", got.Topic, got.Topics, strings.Join(lines, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("record %d: %s, want %s", i, lines[i], want[i])
		}
	}
	for _, first := range []bool{false, true} { // fewer where they are large
		list, err := try.Topic(t.Context(), client, c.FetchConfig(), "in", 4, first, 100)
		if want := map[bool]int64{false: 4, true: 0}[first]; err != nil || len(list) == 0 || len(list) == 4 ||
			list[map[bool]int{false: len(list) - 1}[first]].Offset != want {
			t.Errorf("%d records of 100 bytes, %v", len(list), err)
		}
	}
	if got, err := read(t.Context(), "other", 4); err != nil || got.Topic != "other" || got.Records == nil || len(got.Records) != 0 {
		t.Errorf("an empty topic: %+v, %v", got, err)
	}
	var e *Error
	if _, err := read(t.Context(), "anomalies", 4); !errors.As(err, &e) || e.Code != http.StatusNotFound {
		t.Errorf("a topic of outputs: %v", err)
	}
}

// TestRecordIntervals: a record is shown with the interval that it closes.
func TestRecordIntervals(t *testing.T) {
	closed := 4.5
	list := recordList("in", []string{"in"}, []*try.Result{{Outcome: try.Read, Samples: []*try.Sample{{Key: "a", Outcome: try.Read}},
		Intervals: []*try.Sample{{Key: "a", Outcome: try.Read, Values: []try.Value{{Field: "x", Read: &closed, Value: &closed}}}}}})
	if r := list.Records[0]; len(r.Samples) != 1 || len(r.Intervals) != 1 || r.Intervals[0].Values[0].Value != 4.5 {
		t.Errorf("%+v", r)
	}
}

// TestRecordsQuery: the parameters of /records reach the reader.
func TestRecordsQuery(t *testing.T) {
	src, _, _ := testSource()
	asked := ""
	src.Records = func() RecordReader {
		return func(_ context.Context, topic string, n int) (*RecordList, error) {
			asked = fmt.Sprintf("%q %d", topic, n)
			return &RecordList{Topics: []string{}, Records: []ReadRecord{}}, nil
		}
	}
	for query, want := range map[string]string{"": `"" 20`, "?topic=in&limit=100": `"in" 100`} {
		if code, answer := request(Handler(src), "GET", "/records"+query, ""); code != 200 || asked != want {
			t.Errorf("%q: %d %v, asked %s, want %s", query, code, answer, asked, want)
		}
	}
	if code, _ := request(Handler(src), "GET", "/records?limit=101", ""); code != 400 {
		t.Errorf("101 records: %d", code)
	}
	src.Records = nil
	if code, _ := request(Handler(src), "GET", "/records", ""); code == 200 {
		t.Error("without a reader: 200")
	}
}
