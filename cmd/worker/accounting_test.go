package main

import (
	"context"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// scrape reads the metrics of a worker, by name and labels as they are printed.
func scrape(t *testing.T, addr string) map[string]float64 {
	t.Helper()
	res, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^(odradek_[^ ]+) (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		out[m[1]], _ = strconv.ParseFloat(m[2], 64)
	}
	return out
}

// Everything that was consumed is accounted for, partition by partition, and
// the parts are those that the input has: dead letters, late, missing, filtered,
// duplicate and held records. The sums agree with the topics.
func TestEverythingIsAccountedFor(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	addr := freeAddr(t)
	topic, environ := checkFixture(t, c,
		"ODRADEK_HTTP_ADDR="+addr, "ODRADEK_KEY_FIELD=sensor", "ODRADEK_DETECTORS=change",
		"ODRADEK_DETECTOR_CHANGE_OP=zscore", "ODRADEK_DETECTOR_CHANGE_WINDOW=8",
		"ODRADEK_DETECTOR_CHANGE_KEYS=!sensor-00007", "ODRADEK_REPLICATION=1", "ODRADEK_LATENESS=5s", "ODRADEK_DUPLICATES=drop")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	recs, err := c.Admin().ReadAll(ctx, topic, true)
	if err != nil {
		t.Fatal(err)
	}
	more := []kafkatest.Record{}
	for i := range 10 {
		first, last := recs[i], recs[len(recs)-1-i]
		first.Partition, last.Partition = -1, -1 // by key, as they were
		more = append(more, first, last, kafkatest.Record{Topic: topic, Partition: -1, Key: first.Key, Value: []byte("rubbish")})
	}
	if _, err := c.ProduceAcked(ctx, more); err != nil {
		t.Fatal(err)
	}
	var m map[string]float64
	sum := func(name string) (n float64) {
		for k, v := range m {
			if strings.HasPrefix(k, "odradek_"+name+"{") {
				n += v
			}
		}
		return n
	}
	runUntil(t, c, environ, topic, func() {
		for ctx.Err() == nil { // the commit was seen before it was counted
			time.Sleep(200 * time.Millisecond)
			if m = scrape(t, addr); sum("records_consumed_total") >= float64(len(recs)+len(more)) {
				time.Sleep(200 * time.Millisecond) // the other counters are raised after this one
				m = scrape(t, addr)
				break
			}
		}
	})
	for p := range 4 {
		labels := `{partition="` + strconv.Itoa(p) + `",topic="` + topic + `"}`
		in := m["odradek_records_consumed_total"+labels] + m["odradek_records_held_assigned_total"+labels]
		var out float64
		for _, name := range strings.Fields(`scored_total warming_up_total missing_total filtered_total late_total duplicate_total
			dead_lettered_total forwarded_total held held_evicted_total held_revoked_total backfilled_total`) {
			out += m["odradek_records_"+name+labels]
		}
		if in != out || in == 0 {
			t.Errorf("partition %d: %v in, %v accounted for", p, in, out)
		}
		if lag := m["odradek_consumer_lag_records"+labels]; lag != 0 {
			t.Errorf("partition %d: lag %v", p, lag)
		}
	}
	for name, want := range map[string]float64{
		"records_consumed_total": float64(len(recs) + len(more)), "records_dead_lettered_total": 10, "decode_errors_total": 10,
		"records_late_total": 10, "records_duplicate_total": 10,
	} {
		if got := sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"records_scored_total", "records_warming_up_total", "records_missing_total",
		"records_filtered_total", "records_held"} {
		if sum(name) == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	count := func(suffix string) float64 {
		recs, err := c.Admin().ReadAll(ctx, topic+"-g-"+suffix, true)
		if err != nil {
			t.Fatal(err)
		}
		return float64(len(recs))
	}
	if got := count("dlq"); got != 10 {
		t.Errorf("%v dead letters", got)
	}
	if got := count("late"); got != 10 {
		t.Errorf("%v late records", got)
	}
	// After the drain, so nothing is missing between the scrape and the topic.
	if got := count("scores"); math.Abs(got-m["odradek_scores_published_total"]) > 0 ||
		got != sum("records_scored_total")+sum("records_warming_up_total") {
		t.Errorf("%v scores, the metrics say %v published, %v scored, %v warming up", got, m["odradek_scores_published_total"],
			sum("records_scored_total"), sum("records_warming_up_total"))
	}
}
