package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"odradek/cmd/internal/size"
	"odradek/processor/kafkatest"
)

// sizeRows returns what worker size says, by name.
func sizeRows(t *testing.T, environ []string, args ...string) map[string]size.Row {
	t.Helper()
	term, out, errs := console(environ...)
	if code := term.size(context.Background(), append([]string{"-json"}, args...)); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	rows := map[string]size.Row{}
	for line := range bytes.Lines(out.Bytes()) {
		var r size.Row
		must(t, json.Unmarshal(line, &r))
		rows[r.Name] = r
	}
	return rows
}

// TestSizeOfAFleet: a worker takes what worker size says of its settings, within a quarter: state in memory, scores and the changelog
// as brokers have them.
func TestSizeOfAFleet(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	for name, settings := range map[string][]string{
		"small":  {"ODRADEK_DETECTORS=d", "ODRADEK_DETECTOR_D_OP=zscore", "ODRADEK_DETECTOR_D_WINDOW=64", "ODRADEK_ANOMALIES=false"},
		"preset": {"ODRADEK_PRESET=fast"},
	} {
		t.Run(name, func(t *testing.T) {
			const series, samples = 100, 600
			topic := c.Topic(t, "sensors", 2)
			addr := freeAddr(t)
			environ := append([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t),
				"ODRADEK_GROUP=" + topic + "-g", "ODRADEK_TOPICS=" + topic, "ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time",
				"ODRADEK_EXECUTOR=cpu", "ODRADEK_HTTP_ADDR=" + addr, "ODRADEK_PAGE_ADDR=off"}, settings...)
			term, _, errs := console(environ...)
			args := []string{"-topic", topic, "-sensors", "100", "-records", "60000", "-faults", "none"}
			if code := term.generate(t.Context(), args); code != exitOK {
				t.Fatal(errs)
			}
			state := 0.0
			runUntil(t, c, environ, topic, func() {
				for name, v := range scrape(t, addr) {
					if strings.HasPrefix(name, "odradek_state_bytes") {
						state += v
					}
				}
			})
			scores, records := 0, 0
			must(t, c.Admin().Read(t.Context(), topic+"-g-scores", true, func(r *kafkatest.Record) error {
				records++
				scores += len(r.Key) + len(r.Value)
				return nil
			}))
			lines, _ := stateLines(t, environ)
			log := int64(0)
			for _, p := range lines {
				log += p.Bytes
			}
			says := sizeRows(t, environ, "-series", "100", "-samples", "600", "-rate", "20", "-key", "sensor-00000")
			for _, m := range []struct {
				row    string
				is     float64
				within float64
			}{
				{"state of a series", state / series, 0.25},
				{"changelog of a series", float64(log) / series, 0.25},
				{"scores and anomalies", float64(scores) / (series * samples) * says["samples"].Value, 0.25},
			} {
				if want := says[m.row].Value; math.Abs(m.is/want-1) > m.within || math.IsNaN(m.is/want) {
					t.Errorf("%s: worker size says %.0f, a worker has %.0f", m.row, want, m.is)
				} else {
					t.Logf("%s: worker size says %.0f, a worker has %.0f", m.row, want, m.is)
				}
			}
			if records == 0 {
				t.Error("no scores")
			}
		})
	}
}

// TestSize holds what the plan of a command says, and that its faults are named.
func TestSize(t *testing.T) {
	environ := []string{"ODRADEK_DETECTORS=d", "ODRADEK_DETECTOR_D_OP=zscore", "ODRADEK_DETECTOR_D_WINDOW=16", "ODRADEK_EXECUTOR=cpu"}
	few := sizeRows(t, environ, "-samples", "1000", "-series", "1000", "-rate", "10")
	many := sizeRows(t, environ, "-samples", "1000", "-series", "100000000", "-rate", "10", "-cores", "4")
	if w := few["workers"].Value; w != 2 {
		t.Errorf("a small fleet has %v workers: one, and one that may fail", w)
	}
	for _, name := range []string{"workers", "partitions", "brokers in", "changelog, live", "state of the fleet"} {
		if few[name].Value <= 0 || many[name].Value <= 10*few[name].Value {
			t.Errorf("%s: %v of a small fleet, %v of a large one", name, few[name].Value, many[name].Value)
		}
		if !many[name].Extrapolated {
			t.Errorf("%s of 100 million series is not marked as extrapolated", name)
		}
	}
	none := sizeRows(t, append(environ, "ODRADEK_SCORES=none", "ODRADEK_ANOMALIES=false"), "-samples", "1000", "-series", "1000")
	if v := none["scores and anomalies"].Value; v != 0 {
		t.Errorf("%v bytes a second without scores", v)
	}
	for args, want := range map[string]string{
		"":                               "-series 0",
		"-series 5 -rate -1":             "-rate -1",
		"-series 5 -memory 1MiB":         "-memory 1MiB",
		"-series 5 -cores 0 -samples -1": "-samples -1",
	} {
		term, _, errs := console(environ...)
		if code := term.size(t.Context(), strings.Fields(args)); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	term, _, errs := console(append(environ, "ODRADEK_DETECTOR_D_OP=zscrooge")...)
	if code := term.size(t.Context(), []string{"-series", "5"}); code != exitUsage || !strings.Contains(errs.String(), "zscrooge") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// TestQuantity: figures have three digits and a unit.
func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		v          float64
		unit, want string
	}{{405 << 10, "B", "405 KiB"}, {1.5e6, "B/s", "1.5 MB/s"}, {1.4e-5, "s", "14 us"}, {407e-9, "s", "407 ns"},
		{0, "s", "0 ns"}, {52.26, "s", "52.26 s"},
		{100_000, "/s", "100 k/s"}, {3, "", "3"}, {3.25e6, "/s", "3.25 M/s"}} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("%v %s: %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}
