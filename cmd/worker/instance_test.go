//go:build unix

package main

import (
	"log/slog"
	"testing"

	"odradek/cmd/internal/config"
)

// TestInstanceID: the id of the setting, or one that the state folder keeps, which no other worker has meanwhile.
func TestInstanceID(t *testing.T) {
	log, dir := slog.New(slog.DiscardHandler), t.TempDir()
	claim := func(lines ...string) (string, func()) {
		t.Helper()
		c, faults, _ := config.Parse(append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_SCHEMA_REGISTRY_URL=http://r",
			"ODRADEK_KEY_FIELD=k", "ODRADEK_TIME_FIELD=t", "ODRADEK_VALUE_FIELDS=v"}, lines...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		return instanceID(c, log)
	}
	state := "STATE_DIRECTORY=" + dir + ":/other"
	first, end := claim(state)
	second, endSecond := claim(state)
	defer endSecond()
	if first == "" || second == "" || first == second {
		t.Errorf("ids %q and %q", first, second)
	}
	end()
	if again, end := claim(state); again != first {
		t.Errorf("%q after a restart, want %q", again, first)
	} else {
		end()
	}
	for want, lines := range map[string][]string{
		"pod-0": {state, "ODRADEK_INSTANCE_ID=pod-0"},
		"":      {state, "ODRADEK_INSTANCE_ID=off"},
	} {
		if got, end := claim(lines...); got != want {
			t.Errorf("%q: %q, want %q", lines, got, want)
		} else {
			end()
		}
	}
	for _, lines := range [][]string{nil, {"STATE_DIRECTORY=relative"}, {"STATE_DIRECTORY=" + dir + "/none"}} {
		if got, end := claim(lines...); got != "" {
			t.Errorf("%q: %q, want none", lines, got)
		} else {
			end()
		}
	}
}
