package config

import (
	"strings"
	"testing"
)

// TestMaxHeldDefault: held samples take about as much memory regardless of what they hold.
func TestMaxHeldDefault(t *testing.T) {
	c, faults, _ := Parse(minimal())
	if len(faults) > 0 || c.Keys.MaxHeld != 349525 {
		t.Errorf("%d by default, %v", c.Keys.MaxHeld, faults)
	}
	c, faults, _ = Parse(minimal("ODRADEK_VALUE_FIELDS=a[100]"))
	if ks, err := c.KeystateConfig(); len(faults) > 0 || err != nil || ks.Reading.MaxHeld != (16<<20)/840 {
		t.Errorf("%d by default of 100 values, %v, %v", ks.Reading.MaxHeld, faults, err)
	}
	if c, _, _ = Parse(minimal("ODRADEK_MAX_HELD=7")); c.Keys.MaxHeld != 7 {
		t.Errorf("%d, want what is set", c.Keys.MaxHeld)
	}
	if _, faults, _ = Parse(minimal("ODRADEK_MAX_HELD=0")); len(faults) != 1 || !strings.Contains(faults[0].String(), "ODRADEK_MAX_HELD") {
		t.Errorf("0: %v", faults)
	}
}
