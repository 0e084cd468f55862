package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

// pressRecords makes records of machines with many sensors each, pumpRecords readings of pumps.
func pressRecords(topic string, rng *rand.Rand, n int) (recs []kafkatest.Record) {
	start := time.UnixMilli(1_760_000_000_000)
	for i := range n {
		at, machine := start.Add(time.Duration(i)*time.Second/4), i%4
		key := fmt.Sprint("press-", machine)
		var sensors []string
		for k, name := range []string{"temperature", "vibration", "load", "speed", "current"} {
			v := float64(100*k+20*machine) + 3*math.Sin(float64(i)/40+float64(k)) + 0.2*rng.NormFloat64()
			sensors = append(sensors, fmt.Sprintf("%q:%.4f", name, v))
		}
		recs = append(recs, kafkatest.Record{Topic: topic, Partition: int32(machine % 2), Key: []byte(key), Time: at.UnixMilli() + 40,
			Value: fmt.Appendf(nil, `{"machine":%q,"at":%d,"sensors":{%s}}`, key, at.UnixMilli(), strings.Join(sensors, ","))})
	}
	return recs
}

func pumpRecords(topic string, rng *rand.Rand, n int, more bool) (recs []kafkatest.Record) {
	start := time.Unix(1_760_000_000, 0)
	for i := range n {
		at, pump, flow := start.Add(time.Duration(i/3)*time.Second), i%3, ""
		if more {
			flow = fmt.Sprintf(`,"flow":%.4f`, 80+math.Cos(float64(i)/70)+0.05*rng.NormFloat64())
		}
		key := fmt.Sprint("pump-", pump)
		recs = append(recs, kafkatest.Record{Topic: topic, Partition: int32(pump % 2), Key: []byte(key), Time: at.UnixMilli() + 300,
			Value: fmt.Appendf(nil, `{"pump":%q,"ts":%d,"pressure":%.4f%s}`, key, at.Unix(),
				5+float64(pump)+math.Sin(float64(i)/70)+0.05*rng.NormFloat64(), flow)})
	}
	return recs
}

// TestSuggestSeveral: of topics of two shapes, one file is suggested, with a mapping for each; it passes check, and a worker with it
// scores the records of all topics. Topics of one shape get no mapping.
func TestSuggestSeveral(t *testing.T) {
	rng := seedtest.New(t)
	eachCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := rand.New(rand.NewPCG(rng.Uint64(), 2))
		prefix := kafkatest.Unique("plant")
		first, second, pumps, pairs := prefix+"-press.A", prefix+"-press.B", prefix+"-pumps", prefix+"-ps"
		records := map[string]int{}
		for _, topic := range []string{first, second, pumps, pairs} {
			must(t, c.Admin().CreateTopic(t.Context(), topic, 2, 0, nil))
			recs := pressRecords(topic, rng, 4000)
			if topic == pumps || topic == pairs {
				recs = pumpRecords(topic, rng, 4000, topic == pairs)
			}
			_, err := c.ProduceAcked(t.Context(), recs)
			must(t, err)
			if topic != pairs {
				records[topic] = len(recs)
			}
		}
		suggest := func(args ...string) (file, text string, cfg *config.Config) {
			t.Helper()
			file = filepath.Join(t.TempDir(), "plant.yaml")
			term, out, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
			// No threshold is raised, which may be one topic's by chance and give it a mapping of its own.
			if code := term.suggest(t.Context(), append(args, "-out", file, "-alarms", "1000")); code != exitOK {
				t.Fatalf("exit %d: %s%s", code, out, errs)
			}
			b, err := os.ReadFile(file)
			must(t, err)
			cfg, faults, warnings := config.Parse([]string{"ODRADEK_CONFIG=" + file})
			if len(faults)+len(warnings) > 0 {
				t.Fatalf("%v %v in\n%s", faults, warnings, b)
			}
			return file, string(b), cfg
		}
		_, text, cfg := suggest("-topic", first, "-topic", second)
		if strings.Contains(text, "mappings:") || !slices.Equal(cfg.Group.Topics, []string{first, second}) || cfg.Mapping.KeyField != "machine" ||
			len(cfg.Mapping.SeriesFields) != 5 {
			t.Errorf("topics of one shape:\n%s", text)
		}
		file, text, cfg := suggest("-topic", prefix+"-press*", "-topic", pumps)
		if !slices.Equal(cfg.Group.Topics, []string{prefix + "-press*", pumps}) || strings.Count(text, "key_field: ") != 2 {
			t.Errorf("topics of two shapes:\n%s", text)
		}
		for topic, want := range map[string]string{first: "machine at [] 5", second: "machine at [] 5", pumps: "pump ts [pressure] 0"} {
			m := &cfg.ForTopic(topic).Mapping
			fields := m.ValueFields
			if len(m.SeriesFields) > 0 {
				fields = nil
			}
			if got := fmt.Sprint(m.KeyField, " ", m.TimeField, " ", fields, " ", len(m.SeriesFields)); got != want {
				t.Errorf("%s: %s, want %s", topic, got, want)
			}
		}
		// Samples of two values have detectors of their own.
		_, mixed, three := suggest("-topic", prefix+"-p*")
		if want := "topics: [" + first + ", " + second + ", " + pairs + ", " + pumps + "]"; !strings.Contains(mixed, want) ||
			strings.Count(mixed, "key_field: ") != 3 {
			t.Errorf("a pattern of topics of three shapes: no %q in\n%s", want, mixed)
		}
		for topic, fields := range map[string][]string{first: nil, pumps: {"pressure"}, pairs: {"pressure", "flow"}} {
			settings := three.ForTopic(topic)
			for i := range settings.Detectors {
				d := &settings.Detectors[i]
				if !strings.HasSuffix(d.Name, strings.ToLower(strings.ReplaceAll(topic, ".", "-"))) || fields != nil && len(d.Members) == 0 &&
					!slices.Equal(d.Fields, fields) {
					t.Errorf("%s has detector %s of %v:\n%s", topic, d.Name, d.Fields, mixed)
				}
			}
		}
		if len(cfg.Mappings()) != 2 || cfg.ForTopic(first) != cfg.ForTopic(second) {
			t.Errorf("%d mappings, or the topics of one shape have two:\n%s", len(cfg.Mappings()), text)
		}
		term, out, errs := console("ODRADEK_CONFIG=" + file)
		if code := term.check(t.Context(), []string{"-online"}); code != exitOK {
			t.Errorf("check: exit %d: %s%s\n%s", code, out, errs, text)
		}
		group := cfg.Group.Group
		runUntil(t, c, []string{"ODRADEK_CONFIG=" + file, "ODRADEK_HTTP_ADDR=off", "ODRADEK_PAGE_ADDR=off"}, pumps, func() {
			for _, topic := range []string{first, second} {
				must(t, c.Admin().WaitCommitted(t.Context(), group, topic))
			}
		})
		scoredOffsets := map[string]map[int64]bool{first: {}, second: {}, pumps: {}}
		scores, err := c.Admin().ReadAll(t.Context(), group+"-scores", true)
		must(t, err)
		for i := range scores {
			s, err := output.DecodeScore(scores[i].Value)
			must(t, err)
			scoredOffsets[s.Topic][int64(s.Partition)<<32|s.Offset] = true
		}
		for topic, n := range records {
			if len(scoredOffsets[topic]) < n*9/10 {
				t.Errorf("%s: %d of %d records have scores", topic, len(scoredOffsets[topic]), n)
			}
		}
		if letters, err := c.Admin().ReadAll(t.Context(), group+"-dlq", true); err != nil || len(letters) > 0 {
			t.Errorf("%d dead letters, %v", len(letters), err)
		}
	})
}
