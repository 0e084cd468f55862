package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestSuggestAndCheck: check has no warning of what suggest proposes, also where suggest raises thresholds because there would be
// too many anomalies.
func TestSuggestAndCheck(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1, NoRegistry: true})
	brokers := "ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")
	topic := kafkatest.Unique("sensors")
	term, _, errs := console(brokers)
	if code := term.generate(t.Context(), strings.Fields(fmt.Sprintf(
		"-topic %s -partitions 2 -replication 1 -sensors 4 -records 40000 -fault-every 400 "+
			"-seed %d", topic, seedtest.New(t).Uint64()))); code != exitOK {
		t.Fatalf("generate: exit %d: %s", code, errs)
	}
	for _, alarms := range []string{"5", "0.01"} {
		file := filepath.Join(t.TempDir(), "sensors.yaml")
		term, out, errs := console(brokers)
		if code := term.suggest(t.Context(), []string{"-topic", topic, "-out", file, "-alarms", alarms}); code != exitOK {
			t.Fatalf("suggest: exit %d: %s%s", code, out, errs)
		}
		text, err := os.ReadFile(file)
		must(t, err)
		if !strings.Contains(string(text), "Raised, because") {
			t.Errorf("-alarms %s: no threshold was raised: the test tests nothing\n%s", alarms, text)
		}
		for _, args := range [][]string{nil, {"-online"}} {
			term, out, errs = console("ODRADEK_CONFIG=" + file)
			if code := term.check(t.Context(), args); code != exitOK || strings.Contains("\n"+out.String()+errs.String(), "\nwarn") {
				t.Errorf("-alarms %s: check %v: exit %d\n%s%s\n%s", alarms, args, code, out, errs, text)
			}
		}
	}
}
