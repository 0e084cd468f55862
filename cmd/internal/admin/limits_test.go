package admin

import (
	"fmt"
	"strings"
	"testing"

	"odradek/cmd/internal/config"
)

// TestLimits: timeouts that the brokers do not allow are faults.
func TestLimits(t *testing.T) {
	cfg, _, _ := config.Parse([]string{"ODRADEK_SESSION_TIMEOUT=20s", "ODRADEK_TRANSACTION_TIMEOUT=15s"})
	for _, c := range []struct{ name, ms, want string }{
		{"transaction.max.timeout.ms", "15000", ""}, {"transaction.max.timeout.ms", "14999", "ODRADEK_TRANSACTION_TIMEOUT"},
		{"group.min.session.timeout.ms", "20000", ""}, {"group.min.session.timeout.ms", "20001", "ODRADEK_SESSION_TIMEOUT"},
		{"group.max.session.timeout.ms", "20000", ""}, {"group.max.session.timeout.ms", "19999", "ODRADEK_SESSION_TIMEOUT"},
		{"transaction.max.timeout.ms", "unknown", ""},
	} {
		e := &examination{r: &Report{}, c: cfg}
		e.limits(map[string]string{c.name: c.ms})
		if got := fmt.Sprint(e.r.Findings); (c.want == "") != (len(e.r.Findings) == 0) || !strings.Contains(got, c.want) {
			t.Errorf("%s=%s: %s", c.name, c.ms, got)
		}
	}
}
