package config

import "testing"

// TestToy holds that the setting has its default, and that its limits are checked.
func TestToy(t *testing.T) {
	c, faults, _ := Parse(minimal())
	if len(faults) > 0 || c.Program.ToyTime.String() != "1s" {
		t.Errorf("%v, faults %v", c.Program.ToyTime, faults)
	}
	_, faults, _ = Parse(minimal("ODRADEK_TOY_TIME=2h"))
	if len(faults) != 1 || faults[0].Name != "ODRADEK_TOY_TIME" {
		t.Errorf("a time above the limit: %v", faults)
	}
}
