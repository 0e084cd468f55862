package config

import (
	"maps"
	"strings"
	"testing"
)

// TestUnits: units belong to the fields that are values, and each has one at most.
func TestUnits(t *testing.T) {
	for _, c := range []struct {
		settings string
		want     map[string]string // nil: a fault
	}{
		{"VALUE_FIELDS=temperature,motor.current,accel[3] UNITS=temperature=°C,accel=m/s^2",
			map[string]string{"temperature": "°C", "accel": "m/s^2"}},
		{"SERIES_FIELDS=a.x,b[2] UNITS=a.x=bar,b=1/min", map[string]string{"/a.x": "bar", "/b": "1/min"}},
		{"VALUE_FIELDS=a,b,c UNITS=a=B,b=V,c=K TRANSFORM=a=rate,b=log,c=difference", map[string]string{"a": "B/s", "b": "ln(V)", "c": "K"}},
		{"UNITS=value=A=B", map[string]string{"value": "A=B"}},
		{"UNITS=temperature=°C", nil},
		{"UNITS=value", nil},
		{"UNITS=value=", nil},
		{"UNITS==°C", nil},
		{"UNITS=value=K,value=°C", nil},
		{"UNITS=value=" + strings.Repeat("m", 65), nil},
	} {
		environ := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t", "ODRADEK_FORMAT=json"}
		for _, s := range strings.Fields(c.settings) {
			environ = append(environ, Prefix+s)
		}
		parsed, faults, _ := Parse(environ)
		if c.want == nil {
			if len(faults) != 1 || faults[0].Name != Prefix+"UNITS" {
				t.Errorf("%s: faults %v", c.settings, faults)
			}
			continue
		}
		if len(faults) > 0 {
			t.Errorf("%s: %v", c.settings, faults)
			continue
		}
		if ks, err := parsed.KeystateConfig(); err != nil || !maps.Equal(ks.Units, c.want) {
			t.Errorf("%s: units %v, want %v; %v", c.settings, ks.Units, c.want, err)
		}
	}
}
