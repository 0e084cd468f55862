package config

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/seedtest"
)

// writeSettings writes a settings file that only its owner may read and returns the variable that names it.
func writeSettings(t *testing.T, text string) (variable, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "plant.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return configSetting + "=" + file, file
}

// TestSettingsFile: a file sets what variables do, and they override it.
func TestSettingsFile(t *testing.T) {
	variable, _ := writeSettings(t, `group: plant
topics: [sensors, pumps]
schema_registry_url: http://r:8081
ttl: 24h
rebalance_timeout: 2s
detectors:
  vibration: {op: knn, window: 512, keys: [pump-*, "!pump-test*"]}
  level:
`)
	c, faults, warnings := Parse([]string{variable, "ODRADEK_TTL=1h", "ODRADEK_GROUP=", "ODRADEK_DETECTOR_VIBRATION_WINDOW=256"})
	if len(faults)+len(warnings) > 0 {
		t.Fatal(faults, warnings)
	}
	if c.Group.Group != "plant" || len(c.Group.Topics) != 2 || c.Keys.TTL != time.Hour || c.Group.RebalanceTimeout != 2*time.Second ||
		len(c.Detectors) != 2 || c.Detectors[0].Window != 256 || len(c.Detectors[0].Keys) != 2 || c.Detectors[1].Name != "level" {
		t.Errorf("%s", c.Print())
	}
	printed := strings.Join(strings.Fields(c.Print()), " ")
	for _, want := range []string{"ODRADEK_TOPICS sensors,pumps plant.yaml:2", "ODRADEK_TTL 1h0m0s env", "VIBRATION_WINDOW 256 env",
		"VIBRATION_OP knn plant.yaml:7", "LEVEL_OP knn default", "ODRADEK_DETECTORS vibration,level plant.yaml:6"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the printed configuration lacks %q", want)
		}
	}
	// A variable may leave a detector out.
	if c, faults, _ := Parse([]string{variable, "ODRADEK_DETECTORS=level"}); len(faults) > 0 || len(c.Detectors) != 1 {
		t.Errorf("%v, %d detectors", faults, len(c.Detectors))
	}
	// Beside a preset the mapping changes its detectors.
	variable, _ = writeSettings(t, "group: g\ntopics: a\nschema_registry_url: http://r:8081\npreset: fast\ndetectors: {near: {k: 7}}\n")
	c, faults, _ = Parse([]string{variable})
	if _, list := c.Expanded(); len(faults) > 0 || len(list) != 3 ||
		!strings.Contains(list[0], "K=7") || !strings.Contains(list[0], "WINDOW=512") {
		t.Errorf("%v, %q", faults, list)
	}
}

// TestSettingsFileFaults: all faults of a file are reported at once, each with its line.
func TestSettingsFileFaults(t *testing.T) {
	variable, file := writeSettings(t, `group: g
topics: [a]
schema_registry_url: http://r:8081
kafka_broker: [one:9092]
ttl: [1h]
group: h
lateness: 10
config: other.yaml
workers: many
detectors:
  near: {op: lof, windo: 5, rank: 3, window: 1}
  change: {op: nothing}
scores: most
topics_pattern: {a: b}
`)
	want := map[int]string{
		4: "no such setting: kafka_broker; did you mean kafka_brokers?", 5: "ttl takes one value, not a list",
		6: "group is given twice, first in line 1", 7: "ODRADEK_LATENESS: \"10\" is not a duration", 8: "names no other",
		9: "is not a whole number", 12: "ODRADEK_DETECTOR_CHANGE_OP", 13: "ODRADEK_SCORES", 14: "topics_pattern is a mapping",
	}
	near := []string{"did you mean window?", "op lof has no such parameter", "window is 1 points"} // all of line 11
	_, faults, _ := Parse([]string{variable})
	for _, f := range faults {
		s, at := f.String(), 0
		var ok bool
		if rest, found := strings.CutPrefix(f.At, "plant.yaml:"); found {
			at, _ = strconv.Atoi(rest)
		}
		if at == 11 {
			i := slices.IndexFunc(near, func(n string) bool { return strings.Contains(s, n) })
			if ok = i >= 0; ok {
				near = slices.Delete(near, i, i+1)
			}
		} else {
			ok = want[at] != "" && strings.Contains(s, want[at])
			delete(want, at)
		}
		if !ok || !strings.HasPrefix(s, "plant.yaml:") {
			t.Errorf("unexpected fault %s", s)
		}
	}
	if len(want)+len(near) > 0 {
		t.Errorf("no faults of %v, %v", want, near)
	}
	for text, want := range map[string]string{
		"group: [": "plant.yaml:1: ODRADEK_CONFIG: not YAML",
		"group":    "plant.yaml:1: ODRADEK_CONFIG: the file is",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults, _ := Parse([]string{variable, "ODRADEK_SCORES=some"}); len(faults) != 2 || !strings.HasPrefix(faults[0].String(), want) {
			t.Errorf("%q: %v, want %q and the fault of the variable alone", text, faults, want)
		}
	}
	if _, faults, _ := Parse([]string{configSetting + "=/nowhere/plant.yaml"}); len(faults) != 1 ||
		!strings.Contains(faults[0].Problem, "no such file") {
		t.Errorf("no file: %v", faults)
	}
	if _, faults, _ := Parse([]string{configSetting + "=/nowhere/plant.yaml"}); len(FaultsOf(faults, []string{"KAFKA"})) != 1 {
		t.Error("a command that needs only some settings does not report a file that cannot be read")
	}
}

// TestSettingsFileSecrets: a secret in a file that others may read is warned of, a variable overrides it in
// either form, and nothing prints it.
func TestSettingsFileSecrets(t *testing.T) {
	secret := fmt.Sprintf("s3cr3t%x", rand.Uint64())
	variable, file := writeSettings(t, "group: g\ntopics: [a]\nkafka_sasl_mechanism: PLAIN\nkafka_username: u\nkafka_password: "+secret+
		"\nschema_registry_url: https://me:"+secret+"@r\n")
	c, faults, warnings := Parse([]string{variable})
	if len(faults)+len(warnings) > 0 || c.Kafka.Password.Reveal() != secret {
		t.Fatalf("%v, %v", faults, warnings)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	c, faults, warnings = Parse([]string{variable})
	if len(faults) > 0 || len(warnings) != 2 || warnings[0].At != "plant.yaml:5" || !strings.Contains(warnings[0].Problem, "0644") ||
		warnings[1].At != "plant.yaml:6" {
		t.Errorf("%v, %v", faults, warnings)
	}
	if text := c.Print() + c.PrintEnv() + c.PrintYAML() + fmt.Sprint(warnings); strings.Contains(text, secret) {
		t.Error("the secret is printed")
	}
	other := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(other, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, faults, _ = Parse([]string{variable, "ODRADEK_KAFKA_PASSWORD_FILE=" + other})
	if len(faults) > 0 || c.Kafka.Password.Reveal() != "other" {
		t.Errorf("%v, %q", faults, c.Kafka.Password.Reveal())
	}
	if text := c.PrintYAML(); !strings.Contains(text, "\nkafka_password_file: "+other+"\n") {
		t.Errorf("the password's file is not printed:\n%s", text)
	}
}

// TestPrintYAML: what is printed reads as the same configuration, for any settings.
func TestPrintYAML(t *testing.T) {
	rng := seedtest.New(t)
	again := func(environ ...string) {
		t.Helper()
		a, faults, _ := Parse(environ)
		text := a.PrintYAML()
		variable, _ := writeSettings(t, text)
		b, faultsB, warnings := Parse([]string{variable})
		for i := range faultsB {
			faultsB[i].At = ""
		}
		if !reflect.DeepEqual(faults, faultsB) || len(warnings) > 0 {
			t.Fatalf("%q: faults %v, from the file %v (%v)\n%s", environ, faults, faultsB, warnings, text)
		}
		if diff := differ(a, b); diff != "" {
			t.Fatalf("%q: %s\n%s", environ, diff, text)
		}
	}
	for i := range Presets {
		changed := DetectorPrefix(Presets[i].Detectors[0].Name)
		again(minimal("ODRADEK_PRESET=" + Presets[i].Name)...)
		again(minimal("ODRADEK_PRESET="+Presets[i].Name, changed+"HISTORY=1024")...)
		again(minimal("ODRADEK_PRESET="+Presets[i].Name, "ODRADEK_VALUE_FIELDS=a,b", changed+"OP=lof")...)
	}
	again(minimal("ODRADEK_FEEDBACK_TOPIC=off", "ODRADEK_DETECTORS=grid,b-1,both", "ODRADEK_DETECTOR_GRID_OP=scan",
		"ODRADEK_DETECTOR_GRID_COLUMNS=4", "ODRADEK_DETECTOR_GRID_WINDOW=16", "ODRADEK_DETECTOR_GRID_GRID=1h",
		"ODRADEK_DETECTOR_GRID_GRID_BOX=0,0,8.5,8", "ODRADEK_VALUE_FIELDS=x,y", "ODRADEK_DETECTOR_B_1_OP=zscore",
		"ODRADEK_DETECTOR_B_1_ONLY_IF=x>80,y<1", "ODRADEK_DETECTOR_B_1_KEYS=pump-*,!pump-t*",
		"ODRADEK_DETECTOR_BOTH_OP=ensemble", "ODRADEK_DETECTOR_BOTH_MEMBERS=b-1,grid", "ODRADEK_DETECTOR_B_1_HISTORY=3d:4096",
		"ODRADEK_GROUP_BY=^[^/]+ #: '\"", "ODRADEK_START=2026-01-01T00:00:00Z")...)
	// Each setting by itself, of each op, with a value that is not its default.
	c, _, _ := Parse(minimal())
	list := slices.DeleteFunc(slices.Clone(c.settings), func(s setting) bool { return strings.Contains(s.name, "_DETECTOR_") })
	for _, s := range list {
		if s.name != configSetting && s.name != Prefix+"PRESET" && s.name != Prefix+"DETECTORS" { // see above
			again(minimal("ODRADEK_DETECTORS=x", s.name+"="+drawn(rng, s))...)
		}
	}
	for _, op := range opNames() {
		base := minimal("ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP="+op)
		c, _, _ := Parse(base)
		for _, s := range c.settings {
			name, ok := strings.CutPrefix(s.name, "ODRADEK_DETECTOR_X_")
			own := slices.ContainsFunc(specOf(op).Params, func(p detectors.Param) bool { return p.Name == name })
			if ok && (own || op == "knn") { // the others are the same for each op
				again(append(base, s.name+"="+drawn(rng, s))...)
			}
		}
	}
}

// differ returns the first difference between two configurations other than where values come from.
func differ(a, b *Config) string {
	if len(a.settings) != len(b.settings) {
		return fmt.Sprintf("%d settings and %d", len(a.settings), len(b.settings))
	}
	for i := range a.settings {
		s, o := &a.settings[i], &b.settings[i]
		if s.name != configSetting && (s.name != o.name || s.value != o.value || !reflect.DeepEqual(s.field.Interface(), o.field.Interface())) {
			return fmt.Sprintf("%s=%s and %s=%s", s.name, s.value, o.name, o.value)
		}
		if was, is := s.source == "default", o.source == "default"; s.name != configSetting && s.name != Prefix+"PRESET" &&
			s.value != "" && was != is {
			return fmt.Sprintf("%s comes from %s and %s", s.name, s.source, o.source)
		}
	}
	if !reflect.DeepEqual(a.Detect, b.Detect) || len(a.Detectors) != len(b.Detectors) {
		return "the detectors differ"
	}
	return ""
}

// drawn returns a value of a setting that can be parsed, regardless of the other settings.
func drawn(rng *rand.Rand, s setting) string {
	if allowed := s.tag.Get("oneof"); allowed != "" {
		list := strings.Split(strings.TrimPrefix(allowed, "|"), "|")
		return list[rng.IntN(len(list))]
	}
	if s.tag.Get("url") != "" { // what may be a password is not printed
		return "https://a,http://b:1/c"
	}
	switch v := s.field.Interface().(type) {
	case bool:
		return strconv.FormatBool(!v)
	case time.Duration:
		return (v + time.Duration(1+rng.IntN(5000))*time.Millisecond).String()
	case ByteSize:
		return (v + ByteSize(rng.IntN(4096))).String()
	case HistoryLength:
		return []string{"64", "36h", "3d", "3d:4096"}[rng.IntN(4)]
	case int, int64:
		return strconv.FormatInt(s.field.Int()+1+int64(rng.IntN(9)), 10)
	case float64:
		return strconv.FormatFloat(v+rng.Float64(), 'g', -1, 64)
	case []string:
		return []string{"a", "a,b", "null,~", "x y,[z", "@key,*", "#,'"}[rng.IntN(6)]
	case Secret:
		return "" // has no text to print
	case string:
		return []string{"a", "off", "null", "~x", "a: b #c", "- [", "5", `q"'`, "true"}[rng.IntN(9)]
	}
	panic("no value of " + s.name)
}
