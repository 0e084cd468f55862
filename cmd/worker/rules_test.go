package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// pumpSettings judge the vectors of pumps by every rule that remembers scores: histories in time, of a number of
// their own and of as many as there are, trailing means, scaled fields, alarms a day, groups, and ensembles of
// members that fall behind by different lags: a sum of delayed scores, and one anomaly for all that three of them find in two lines.
var pumpSettings = []string{
	"FORMAT=json", "KEY_FIELD=pump", "TIME_FIELD=at", "VALUE_FIELDS=flow,heat,load", "MAX_JUMP=0s", "MAX_FUTURE=0s",
	`GROUP_BY=^line-\d`, "GROUP_WINDOW=1h", "DETECTORS=near,level,daily,change,shape,next,both,one",
	"DETECTOR_CHANGE_WINDOW=8", "DETECTOR_CHANGE_STRIDE=5", "DETECTOR_CHANGE_FIELDS=flow", "DETECTOR_CHANGE_HISTORY=3d:48",
	"DETECTOR_CHANGE_THRESHOLD=quantile:0.9", "DETECTOR_CHANGE_WARMUP=16", "DETECTOR_CHANGE_CLOSE_AFTER=2",
	"DETECTOR_LEVEL_SMOOTH=2", "DETECTOR_LEVEL_HISTORY=3d:96", "DETECTOR_LEVEL_ALARMS_PER_DAY=12", "DETECTOR_LEVEL_CLOSE_AFTER=2",
	"DETECTOR_NEAR_OP=knn", "DETECTOR_NEAR_WINDOW=24", "DETECTOR_NEAR_K=4", "DETECTOR_NEAR_EMBED=3", "DETECTOR_NEAR_SCALE=range",
	"DETECTOR_NEAR_SMOOTH=3", "DETECTOR_NEAR_HISTORY=3d", "DETECTOR_NEAR_THRESHOLD=mad:4", "DETECTOR_NEAR_WARMUP=16",
	"DETECTOR_NEAR_CLOSE_AFTER=2",
	"DETECTOR_DAILY_OP=season", "DETECTOR_DAILY_MEMORY=4", "DETECTOR_DAILY_ZONE=Europe/Berlin", "DETECTOR_DAILY_HISTORY=3d:64",
	"DETECTOR_DAILY_THRESHOLD=conformal:0.05", "DETECTOR_DAILY_CLOSE_AFTER=2", "DETECTOR_DAILY_SMOOTH=4",
	"DETECTOR_SHAPE_OP=discord", "DETECTOR_SHAPE_WINDOW=24", "DETECTOR_SHAPE_LENGTH=4", "DETECTOR_SHAPE_STRIDE=3",
	"DETECTOR_SHAPE_FIELDS=heat", "DETECTOR_SHAPE_HISTORY=3d:40", "DETECTOR_SHAPE_THRESHOLD=conformal:0.05",
	"DETECTOR_SHAPE_CLOSE_AFTER=2",
	"DETECTOR_NEXT_OP=ar", "DETECTOR_NEXT_ORDER=4", "DETECTOR_NEXT_MIN_POINTS=8", "DETECTOR_NEXT_STRIDE=2", "DETECTOR_NEXT_HISTORY=3d:64",
	"DETECTOR_NEXT_THRESHOLD=conformal:0.03", "DETECTOR_NEXT_CLOSE_AFTER=2",
	"DETECTOR_BOTH_OP=ensemble", "DETECTOR_BOTH_MEMBERS=near,change,shape,next", "DETECTOR_BOTH_MIN_POINTS=8", "DETECTOR_BOTH_SMOOTH=2",
	"DETECTOR_BOTH_ALIGN=true",
	"DETECTOR_BOTH_HISTORY=3d:64", "DETECTOR_BOTH_THRESHOLD=quantile:0.9", "DETECTOR_BOTH_WARMUP=16", "DETECTOR_BOTH_CLOSE_AFTER=2",
	"DETECTOR_ONE_OP=ensemble", "DETECTOR_ONE_COMBINE=any", "DETECTOR_ONE_MEMBERS=level,shape,change", "DETECTOR_ONE_KEYS=line-0/*,line-1/*",
	"DETECTOR_ONE_CLOSE_AFTER=2",
}

// pumps makes records of six pumps, two of a line, each with a sample about every ten minutes across a change of the
// clock: a daily cycle, noise, steps of one field, and values that are missing.
type pumps struct {
	rng   *rand.Rand
	n     int
	level [6]float64
}

func (p *pumps) records(t *testing.T, topic string, n int) []kafkatest.Record {
	t.Helper()
	start := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	recs := make([]kafkatest.Record, 0, n)
	for range n {
		at := start.Add(time.Duration(p.n) * 100 * time.Second)
		p.n++
		i := p.rng.IntN(6)
		if p.rng.IntN(100) == 0 {
			p.level[i] += 4 * p.rng.NormFloat64()
		}
		day := math.Sin(2 * math.Pi * float64(at.Unix()%86400) / 86400)
		values := map[string]any{"pump": fmt.Sprintf("line-%d/pump-%d", i%3, i), "at": at.UnixMilli()}
		for j, v := range []float64{day + p.level[i], 40 * day, 1e6 + p.level[i]} {
			if values[[]string{"flow", "heat", "load"}[j]] = v + 0.2*p.rng.NormFloat64(); p.rng.IntN(400) == 0 {
				values["heat"] = nil
			}
		}
		text, err := json.Marshal(values)
		must(t, err)
		key := []byte(values["pump"].(string))
		recs = append(recs, kafkatest.Record{Topic: topic, Partition: int32(i % 3), Key: key, Value: text})
	}
	return recs
}

// TestEveryRule: scores, judgements, anomalies and their groups are as in an undisturbed run, to the bit, although the
// worker is killed and comes back, another joins, and one leaves, after the histories in time have got
// full and while the members of an ensemble have scored different samples.
func TestEveryRule(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		source := pumps{rng: seedtest.New(t)}
		input := c.Topic(t, "in", 3)
		f := newFleet(t, c, input, input+"-g", pumpSettings...)
		total := 0
		got := f.killJoinLeave(func() {
			// Not at a multiple of the members' strides; some four of nine days are over when the worker is killed.
			recs := source.records(t, input, 1300+source.rng.IntN(7))
			total += len(recs)
			_, err := c.ProduceAcked(context.Background(), recs)
			must(t, err)
		})
		still, offsets := undisturbedFleet(t, c, input, append(slices.Clone(pumpSettings), "COMMIT_INTERVAL=300ms")...)
		compare(t, "every rule", original(t, still, offsets), got)
		lives, want := f.anomalies(), still.anomalies()
		noFaults(t, "lives", lifeFaults(lives))
		noFaults(t, "against the undisturbed run", sameLives(want, lives))
		n, scores, groups := tally(lives), map[string]int{}, map[string]map[string]bool{}
		for id, s := range got {
			if s.state == "scored" {
				scores[id.detector]++
			}
		}
		for _, a := range lives {
			if groups[a.group] == nil {
				groups[a.group] = map[string]bool{}
			}
			groups[a.group][a.key] = true
		}
		members := map[string]int{}
		for _, a := range lives {
			switch m := slices.Contains([]string{"level", "shape", "change"}, a.detector); {
			case m && !strings.HasPrefix(a.key, "line-2/"):
				t.Errorf("%s has an anomaly of %s, of which the ensemble makes the anomalies", a.detector, a.key)
			case a.detector == "one":
				members[a.member]++
			}
		}
		shared := 0
		for group, keys := range groups {
			if len(keys) > 1 && group != "" {
				shared++
			}
		}
		t.Log(total, "records;", n, scores, shared, "groups of several series")
		for _, d := range strings.Split("near level daily change shape next both one", " ") {
			least := total / 2
			if d == "one" { // it reads two of three lines
				least = total / 3
			}
			if n[d+" open "] < 3 || scores[d] < least { // daily has 6 to 42, the others more
				t.Errorf("%s: %d anomalies, %d scores of %d records: the test shows too little", d, n[d+" open "], scores[d], total)
			}
		}
		if len(members) != 3 {
			t.Errorf("members that have spoken first: %v", members)
		}
		if shared < 10 {
			t.Errorf("%d groups of several series: the test shows too little", shared)
		}
	})
}
