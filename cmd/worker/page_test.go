package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/page"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// TestPageOfGroup: what a running worker answers of the group is what its topics have, a mute that is made there holds, and
// nobody without the token reads or writes.
func TestPageOfGroup(t *testing.T) { realCluster(t, testPageOfGroup) }

func testPageOfGroup(t *testing.T, c *kafkatest.Cluster) {
	const token = "0123456789abcdef"
	topic, environ := stateFixture(t, c)
	addr := freeAddr(t)
	environ = append(environ, "ODRADEK_DETECTOR_CHANGE_THRESHOLD=fixed:1.8", "ODRADEK_PAGE_ADDR="+addr, "ODRADEK_PAGE_TOKEN="+token)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ask := func(method, path, body string, answer any) int {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, strings.NewReader(body))
		must(t, err)
		if answer != nil {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(r)
		must(t, err)
		defer res.Body.Close()
		if answer != nil {
			must(t, json.NewDecoder(res.Body).Decode(answer))
		}
		return res.StatusCode
	}
	runUntil(t, c, environ, topic, func() {
		for method, path := range map[string]string{"GET": "/anomalies", "POST": "/feedback", "DELETE": "/feedback?id=a"} {
			if code := ask(method, path, "{}", nil); code != http.StatusUnauthorized {
				t.Errorf("%s %s without the token: %d", method, path, code)
			}
		}
		must(t, c.Admin().WaitStable(ctx, topic+"-g-anomalies"))
		recs, err := c.Admin().ReadAll(ctx, topic+"-g-anomalies", true)
		must(t, err)
		last, opened := map[string]output.Anomaly{}, 0
		for i := range recs {
			a, err := output.DecodeAnomaly(recs[i].Value)
			must(t, err)
			if a.Kind == 0 {
				opened++
			}
			last[hex.EncodeToString(a.ID[:])] = a
		}
		var list page.AnomalyList
		for list.Open+list.Closed < opened || list.Loading {
			if code := ask("GET", "/anomalies?limit=2000", "", &list); code != 200 || ctx.Err() != nil {
				t.Fatalf("%d: %d open, %d closed of %d: %s", code, list.Open, list.Closed, opened, list.Fault)
			}
		}
		if opened == 0 || len(list.Anomalies) != len(last) {
			t.Fatalf("%d anomalies are listed, the topic has %d, of which %d opened", len(list.Anomalies), len(last), opened)
		}
		for i := range list.Anomalies {
			a := &list.Anomalies[i]
			want := last[a.ID]
			if a.Revision != want.Revision || (a.State == "closed") != (want.Kind == 2) || a.Series != string(want.Key) ||
				a.Source.Offset != want.Offset || a.Start.UnixMicro() != want.Start {
				t.Errorf("%+v, the topic has %+v", a, want)
			}
		}
		one := list.Anomalies[0]
		var s page.Series
		if code := ask("GET", "/series?key="+one.Series+"&anomaly="+one.ID+"&samples=20000", "", &s); code != 200 {
			t.Fatalf("series: %d", code)
		}
		scored := 0
		scores, err := c.Admin().ReadAll(ctx, topic+"-g-scores", true)
		must(t, err)
		for i := range scores {
			if string(scores[i].Key) == one.Series {
				scored++
			}
		}
		if len(s.Scores) != 1 || len(s.Scores[0].Scores) != scored || len(s.Times) < scored || len(s.Anomalies) == 0 {
			t.Errorf("%d samples, %d scores of %d, %d anomalies, %q", len(s.Times), len(s.Scores), scored, len(s.Anomalies), s.Notes)
		}
		var said page.Feedback
		if code := ask("POST", "/feedback", fmt.Sprintf(`{"kind":"mute","keys":%q}`, one.Series), &said); code != 200 || said.ID == "" {
			t.Fatalf("mute: %d %+v", code, said)
		}
		for list.Anomalies[0].Muted != true {
			if ask("GET", "/anomalies?series="+one.Series, "", &list); ctx.Err() != nil {
				t.Fatal("the anomaly is never muted")
			}
		}
		var parts struct {
			Partitions []struct {
				Keys      int64
				Watermark time.Time
			}
		}
		if code := ask("GET", "/partitions", "", &parts); code != 200 || len(parts.Partitions) == 0 || parts.Partitions[0].Keys == 0 ||
			parts.Partitions[0].Watermark.IsZero() {
			t.Errorf("partitions: %d %+v", code, parts)
		}
		if ask("DELETE", "/feedback?id="+said.ID, "", &struct{}{}) != 200 {
			t.Error("the mute cannot be removed")
		}
	})
}
