//go:build !nobench

package main

import (
	"context"
	"regexp"
	"strconv"
	"testing"
)

// The demo runs to its end by itself and shows what README says: spikes, level
// shifts and drifts by the level detector, changes of frequency by the change
// detector.
func TestDemo(t *testing.T) {
	term, out, errs := console()
	if code := term.demo(context.Background(), []string{"-duration", "6s", "-http", "127.0.0.1:0", "-rate", "12000"}); code != exitOK {
		t.Fatalf("exit %d: %s\n%s", code, errs, out)
	}
	t.Log("\n" + out.String())
	for fault, column := range map[string]int{"spike": 3, "level_shift": 3, "drift": 3, "frequency": 2} {
		row := regexp.MustCompile(fault + ` +(\d+) +(\d+) +(\d+)`).FindStringSubmatch(out.String())
		if row == nil {
			t.Errorf("no row of %s", fault)
			continue
		}
		planted, _ := strconv.Atoi(row[1])
		shown, _ := strconv.Atoi(row[column])
		if planted < 5 || shown*2 < planted {
			t.Errorf("%s: %d of %d", fault, shown, planted)
		}
	}
}
