package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caarlos0/env/v10"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/cycle"
	"odradek/processor/state"
	"odradek/schemas/formats"
)

// minimal returns the least environment that is without fault.
func minimal(more ...string) []string {
	return append([]string{
		"ODRADEK_GROUP=g", "ODRADEK_TOPICS=a,b", "ODRADEK_SCHEMA_REGISTRY_URL=http://r:8081", "PATH=/bin",
	}, more...)
}

func names(faults []Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, strings.TrimPrefix(f.Name, Prefix))
	}
	return out
}

func TestDefaults(t *testing.T) {
	c, faults, warnings := Parse(minimal())
	if len(faults)+len(warnings) != 0 {
		t.Fatalf("faults %v, warnings %v", faults, warnings)
	}
	for got, want := range map[string]string{
		c.Output.Topics[cycle.Scores]: "g-scores", c.Output.Topics[cycle.Anomalies]: "g-anomalies",
		c.Output.Topics[cycle.DeadLetters]: "g-dlq", c.Output.Topics[cycle.Late]: "g-late",
		c.Output.Topics[cycle.Rekeyed]: "g-rekey",
		c.ChangelogTopic("a"):          "g-a-changelog", c.Cycle.Guarantee: "exactly_once", c.Cycle.ReplayLimit.String(): "30s",
		c.Fetch.PartitionBytes.String(): "1MiB", strings.Join(c.Detectors[0].Fields, ","): "value", c.Kafka.Brokers[0]: "localhost:9092",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	os.WriteFile(empty, []byte("\n"), 0o600)
	notPEM := filepath.Join(dir, "ca.pem")
	os.WriteFile(notPEM, []byte("nothing"), 0o600)
	_, faults, warnings := Parse([]string{
		"ODRADEK_KAFKA_BROKERS=one:9092,two",
		"ODRADEK_KAFKA_TLS=yes please",
		"ODRADEK_KAFKA_SASL_MECHANISM=MAGIC",
		"ODRADEK_KAFKA_PASSWORD=x", "ODRADEK_KAFKA_PASSWORD_FILE=" + empty,
		"ODRADEK_TOPICS=a,a,no/slash",
		"ODRADEK_START=yesterday",
		"ODRADEK_SESSION_TIMEOUT=10",
		"ODRADEK_SCHEMA_REGISTRY_URL=ftp://u:p@r", "ODRADEK_SCHEMA_REGISTRY_PASSWORD_FILE=" + filepath.Join(dir, "absent"),
		"ODRADEK_SCHEMA_REGISTRY_CA_FILE=" + notPEM,
		"ODRADEK_MISSING=guess",
		"ODRADEK_LATENESS=-1s",
		"ODRADEK_MAX_KEYS=many",
		"ODRADEK_DETECTORS=x,y,9",
		"ODRADEK_DETECTOR_X_OP=magic", "ODRADEK_DETECTOR_X_THRESHOLD=3.5", "ODRADEK_DETECTOR_X_HISTORY=3", "ODRADEK_DETECTOR_X_OPEN_AFTER=0",
		"ODRADEK_DETECTOR_X_RELEASE=1.5", "ODRADEK_DETECTOR_X_MERGE_GAP=-1s", "ODRADEK_DETECTOR_Y_THRESHOLD=off",
		"ODRADEK_TTL=1m", "ODRADEK_SILENCE=2m",
		"ODRADEK_DETECTOR_Y_OP=zscore", "ODRADEK_DETECTOR_Y_RANK=3", "ODRADEK_DETECTOR_Y_WINDOW=1", "ODRADEK_DETECTOR_Y_FIELDS=other",
		"ODRADEK_SCORES=anomalous",
		"ODRADEK_COMPRESSION=rar", "ODRADEK_CARRY_HEADERS=a,a,content-type",
		"ODRADEK_TRANSACTION_TIMEOUT=50s",
		"ODRADEK_PARTITION_BYTES=12 apples",
		"ODRADEK_EXECUTOR=tpu",
		"ODRADEK_PPROF_ADDR=0.0.0.0:6060",
		"ODRADEK_LOG_LEVEL=loud",
		"ODRADEK_COMPRESION=zstd", //nolint:misspell // the fault that is looked for
	})
	want := []string{
		"KAFKA_BROKERS", "KAFKA_TLS", "KAFKA_SASL_MECHANISM", "KAFKA_USERNAME", "KAFKA_PASSWORD", "GROUP", "TOPICS", "START", "SESSION_TIMEOUT",
		"SCHEMA_REGISTRY_URL", "SCHEMA_REGISTRY_PASSWORD_FILE", "SCHEMA_REGISTRY_CA_FILE", "MISSING", "LATENESS", "MAX_KEYS",
		"SILENCE", "DETECTORS", "DETECTOR_X_OP", "DETECTOR_X_THRESHOLD", "DETECTOR_X_HISTORY", "DETECTOR_X_OPEN_AFTER", "DETECTOR_X_RELEASE",
		"DETECTOR_X_MERGE_GAP", "DETECTOR_Y_FIELDS", "DETECTOR_Y_WINDOW", "DETECTOR_Y_RANK",
		"DETECTOR_Y_THRESHOLD", "COMPRESSION", "CARRY_HEADERS", "PARTITION_BYTES", "EXECUTOR", "PPROF_ADDR", "LOG_LEVEL",
	}
	got := names(faults)
	for _, n := range want {
		if !slices.Contains(got, n) {
			t.Errorf("no fault for %s", n)
		}
	}
	for _, n := range got {
		if !slices.Contains(want, n) {
			t.Errorf("unexpected fault of %s", n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d faults, want %d:\n%v", len(got), len(want), faults)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Fix, "ODRADEK_COMPRESSION?") {
		t.Errorf("warnings %v", warnings)
	}
	for _, f := range faults {
		t.Log(f)
	}
}

func TestMaxJumpDefault(t *testing.T) {
	for _, c := range []struct {
		settings []string
		want     time.Duration
	}{
		{nil, 24 * time.Hour},
		{[]string{"LATENESS=15s"}, 10 * time.Minute},
		{[]string{"LATENESS=2m"}, 20 * time.Minute},
		{[]string{"LATENESS=15s", "SILENCE=1h"}, 10 * time.Hour},
		{[]string{"TTL=24h"}, 12 * time.Hour},
		{[]string{"TTL=720h"}, 24 * time.Hour},
		{[]string{"TTL=5m"}, 10 * time.Minute},
		{[]string{"TTL=24h", "LATENESS=15s"}, 10 * time.Minute},
		{[]string{"MAX_JUMP=0", "LATENESS=15s"}, 0},
		{[]string{"MAX_JUMP=3s", "LATENESS=15s"}, 3 * time.Second},
	} {
		var environ []string
		for _, s := range c.settings {
			environ = append(environ, "ODRADEK_"+s)
		}
		cfg, faults, _ := Parse(minimal(environ...))
		if len(faults) > 0 {
			t.Fatal(c.settings, faults)
		}
		ks, err := cfg.KeystateConfig()
		if err != nil || cfg.Keys.MaxJump != c.want || ks.Reading.MaxJump != c.want.Microseconds() {
			t.Errorf("%v: %v, want %v (%v)", c.settings, cfg.Keys.MaxJump, c.want, err)
		}
	}
}

// TestRekeyNeedsLateness: the internal topic interleaves source partitions, so
// without a lateness a part of its records would be late without a word.
func TestRekeyNeedsLateness(t *testing.T) {
	_, faults, _ := Parse(minimal("ODRADEK_REKEY=true"))
	if len(faults) != 1 || faults[0].Name != "ODRADEK_REKEY" || !strings.Contains(faults[0].String(), "interleaves") ||
		!strings.Contains(faults[0].Fix, "ODRADEK_LATENESS") {
		t.Errorf("faults %v, want one of ODRADEK_REKEY", faults)
	}
	if _, faults, _ = Parse(minimal("ODRADEK_REKEY=true", "ODRADEK_LATENESS=1m")); len(faults) > 0 {
		t.Errorf("with a lateness: %v", faults)
	}
}

func TestUnknownNames(t *testing.T) {
	for _, c := range []struct{ name, fix string }{
		{"ODRADEK_KAFKA_BROKER", "did you mean ODRADEK_KAFKA_BROKERS?"},
		{"ODRADEK_TOPIC", "did you mean ODRADEK_TOPICS?"},
		{"ODRADEK_KAFKA_PASWORD_FILE", "did you mean ODRADEK_KAFKA_PASSWORD_FILE?"},
		{"ODRADEK_DETECTOR_CHANGE_WINDO", "did you mean ODRADEK_DETECTOR_CHANGE_WINDOW?"},
		{"ODRADEK_DETECTOR_CHNAGE_RANK", "did you mean ODRADEK_DETECTOR_CHANGE_RANK?"},
		{"ODRADEK_DETECTOR_SOMETHINGELSE_OP", "add it to ODRADEK_DETECTORS=change"},
		{"ODRADEK_WHOLLY_OTHER_THING", "see docs"},
	} {
		_, faults, warnings := Parse(minimal("ODRADEK_DETECTORS=change", c.name+"=1"))
		if len(faults) != 0 || len(warnings) != 1 || warnings[0].Name != c.name || !strings.Contains(warnings[0].Fix, c.fix) {
			t.Errorf("%s: faults %v, warnings %v", c.name, faults, warnings)
		}
	}
	if _, _, w := Parse(minimal("ODRADEK_REQUIRE=kafka")); len(w) != 0 {
		t.Errorf("the tests' own variable is reported: %v", w)
	}
}

// A secret reaches the client and nothing else: not the printed configuration,
// not an error, not the log, however it is formatted.
func TestSecretsAreNeverPrinted(t *testing.T) {
	secret := fmt.Sprintf("s3cr3t%x", rand.Uint64())
	file := filepath.Join(t.TempDir(), "token")
	os.WriteFile(file, []byte(secret+"\r\n"), 0o600)
	environ := minimal("ODRADEK_KAFKA_SASL_MECHANISM=PLAIN", "ODRADEK_KAFKA_USERNAME=u", "ODRADEK_KAFKA_PASSWORD="+secret,
		"ODRADEK_SCHEMA_REGISTRY_TOKEN_FILE="+file, "ODRADEK_SCHEMA_REGISTRY_PASSWORD="+secret, // a fault: no user name
		"ODRADEK_SCHEMA_REGISTRY_URL=http://me:"+secret+"@r:8081,"+secret+"@r")
	c, faults, warnings := Parse(environ)
	if c.Kafka.Password.Reveal() != secret || c.Registry.Token.Reveal() != secret {
		t.Fatal("the secret was not read")
	}
	if len(faults) != 2 {
		t.Errorf("faults %v", faults)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%v %+v %#v %s %q %x %d", c, c, c, c.Kafka.Password, c.Kafka.Password, c.Kafka.Password, c.Kafka.Password)
	fmt.Fprintf(&out, "%v %+v", faults, warnings)
	fmt.Fprintln(&out, c.Print(), c.PrintEnv())
	b, err := json.Marshal(struct {
		C *Config
		F []Fault
	}{c, faults})
	if err != nil {
		t.Fatal(err)
	}
	out.Write(b)
	slog.New(slog.NewTextHandler(&out, nil)).Info("config", "password", c.Kafka.Password, "kafka", c.Kafka, "all", c)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("config", "password", c.Kafka.Password, "kafka", c.Kafka)
	text := strings.ReplaceAll(out.String(), fmt.Sprintf("%q", environ), "")
	// The URLs themselves are ordinary strings inside Config; only its printed
	// forms promise to hide what they carry.
	text = strings.ReplaceAll(text, "http://me:"+secret+"@r:8081", "")
	text = strings.ReplaceAll(text, secret+"@r", "")
	if i := strings.Index(text, secret); i >= 0 {
		t.Errorf("the secret shows: ...%s...", text[max(0, i-80):i+len(secret)])
	}
	for _, printed := range []string{c.Print(), c.PrintEnv(), fmt.Sprint(faults)} {
		if strings.Contains(printed, secret) {
			t.Errorf("the secret shows: %s", printed)
		}
	}
	if !strings.Contains(c.Print(), Hidden) {
		t.Error("nothing says that a secret is set")
	}
}

func TestSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pw")
	os.WriteFile(file, []byte("pw\n"), 0o600)
	c, faults, _ := Parse(minimal("ODRADEK_KAFKA_SASL_MECHANISM=PLAIN", "ODRADEK_KAFKA_USERNAME=u",
		"ODRADEK_KAFKA_PASSWORD_FILE="+file, "ODRADEK_TTL="))
	if len(faults) != 0 || c.Kafka.Password.Reveal() != "pw" {
		t.Fatalf("%v", faults)
	}
	for _, s := range c.settings {
		want := "default"
		switch strings.TrimPrefix(s.name, Prefix) {
		case "GROUP", "TOPICS", "SCHEMA_REGISTRY_URL", "KAFKA_SASL_MECHANISM", "KAFKA_USERNAME":
			want = "env"
		case "KAFKA_PASSWORD":
			want = "file"
		}
		name, ok := strings.CutPrefix(s.name, Prefix+"DETECTOR_")
		if ok && slices.ContainsFunc(Presets[0].Detectors, func(d PresetDetector) bool {
			setting, ok := strings.CutPrefix(name, envName(d.Name)+"_")
			return ok && strings.Contains(" "+d.One, " "+setting+"=")
		}) {
			want = "preset"
		}
		if s.source != want {
			t.Errorf("%s: source %s, want %s", s.name, s.source, want)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		list string
		key  string
		want bool
	}{
		{"*", "", true}, {"", "x", true}, {"pump-*", "pump-1", true}, {"pump-*", "pumps", false}, {"*a*b", "xaxxb", true},
		{"*a*b", "xaxxbc", false}, {"?-1", "p-1", true}, {"?", "", false}, {"a*,b*", "bcd", true},
		{"pump-*,!pump-test*", "pump-test1", false}, {"!x*", "y", true}, {"!x*", "x1", false}, {"a**", "a", true},
	} {
		_, f, err := keyPatterns(strings.Split(c.list, ","))
		if err != nil {
			t.Fatal(err)
		}
		if got := f == nil || f([]byte(c.key)); got != c.want {
			t.Errorf("%q on %q: %v", c.list, c.key, got)
		}
	}
	long := strings.Repeat("a", 5000)
	_, f, _ := keyPatterns([]string{strings.Repeat("*a", 40) + "*b"})
	start := time.Now()
	f([]byte(long))
	if d := time.Since(start); d > time.Second {
		t.Errorf("a hostile key took %v", d)
	}
}

// Fingerprints change with what the state depends on and with nothing else.
func TestFingerprints(t *testing.T) {
	base := []string{"ODRADEK_DETECTORS=a,b", "ODRADEK_DETECTOR_A_OP=ikasst", "ODRADEK_DETECTOR_B_OP=zscore"}
	fingerprints := func(more ...string) (a, b uint64) {
		c, faults, _ := Parse(minimal(append(slices.Clone(base), more...)...))
		if len(faults) != 0 {
			t.Fatal(faults)
		}
		return fingerprint(c.Detectors[0].canonical()), fingerprint(c.Detectors[1].canonical())
	}
	a, b := fingerprints()
	if a2, b2 := fingerprints("ODRADEK_DETECTOR_A_THRESHOLD=fixed:3", "ODRADEK_DETECTOR_A_HISTORY=99", "ODRADEK_DETECTOR_A_OPEN_AFTER=3",
		"ODRADEK_SILENCE=1h", "ODRADEK_DETECTOR_A_KEYS=x*", "ODRADEK_WORKERS=3"); a2 != a || b2 != b {
		t.Error("a threshold, key patterns or an unrelated setting change a fingerprint")
	}
	flat := "ODRADEK_DETECTOR_B_OP=flatline"
	_, b1 := fingerprints(flat)
	if _, b2 := fingerprints(flat, "ODRADEK_DETECTOR_B_AFTER=9"); b2 != b1 {
		t.Error("flatline's AFTER, which is a threshold, changes the fingerprint")
	}
	if _, b2 := fingerprints(flat, "ODRADEK_DETECTOR_B_TOLERANCE=0.5"); b2 == b1 {
		t.Error("flatline's TOLERANCE does not change the fingerprint")
	}
	for _, change := range []string{"WINDOW=60", "STRIDE=2", "RANK=4", "GAMMA=7", "POWER_STEPS=3", "EPSILON=0.1", "KRYLOV=7"} {
		if a2, b2 := fingerprints("ODRADEK_DETECTOR_A_" + change); a2 == a || b2 != b {
			t.Errorf("%s: changed a %v, b %v", change, a2 != a, b2 != b)
		}
	}
}

// TestFormatNames holds the values of FORMAT to the table of formats.
func TestFormatNames(t *testing.T) {
	c, _, _ := Parse(minimal())
	i := slices.IndexFunc(c.settings, func(s setting) bool { return s.name == "ODRADEK_FORMAT" })
	if got, want := c.settings[i].tag.Get("oneof"), strings.Join(formats.Names(), "|"); got != want {
		t.Errorf("values %q, formats %q", got, want)
	}
}

// The oneof of OP and the table of ops name the same methods.
func TestOpsAreDocumented(t *testing.T) {
	c, _, _ := Parse(minimal())
	for _, s := range c.settings {
		if strings.HasSuffix(s.name, "_NEAR_OP") {
			if want := strings.Join(opNames(), "|"); s.tag.Get("oneof") != want {
				t.Errorf("oneof %q, ops %q", s.tag.Get("oneof"), want)
			}
			return
		}
	}
	t.Fatal("no setting OP")
}

// TestMethodFaults: what a method finds wrong with its settings is reported in its words,
// without the packages that they went through.
func TestMethodFaults(t *testing.T) {
	for settings, want := range map[string]string{
		"OP=ikasst WINDOW=5000":               "window is 5000, use 2 to 4096",
		"OP=svdsst WINDOW=3":                  "rank is 3, use 1 to window-1",
		"OP=ikasst WINDOW=2":                  "rank is 3, use 1 to window-1, Krylov dimension is 2, use rank+1 to the lesser of window and 32",
		"OP=zscore WINDOW=2":                  "window is 2, use 3 to 16777216",
		"OP=lof WINDOW=20":                    "window of 20 points is too small for k = 20: use at least 2k = 40, or a smaller k",
		"OP=lof WINDOW=2 K=1 BINS=10 EMBED=2": "a summary is of samples, not of points of 2 rows: use cells 0 or an embedding of 1",
	} {
		list := []string{"ODRADEK_DETECTORS=change"}
		for _, s := range strings.Fields(settings) {
			list = append(list, "ODRADEK_DETECTOR_CHANGE_"+s)
		}
		_, faults, _ := Parse(minimal(list...))
		if len(faults) != 1 || faults[0].Name != "ODRADEK_DETECTOR_CHANGE_WINDOW" || faults[0].Problem != want {
			t.Errorf("%s: %q, want %q", settings, faults, want)
		}
	}
}

// TestChoiceFaults: of each op's settings that are one of several words, another word is that one fault.
func TestChoiceFaults(t *testing.T) {
	tried := 0
	for _, op := range detectors.Ops() {
		for _, p := range op.Spec().Params {
			if p.Type != detectors.Choice || !p.Setting() {
				continue
			}
			tried++
			name := "ODRADEK_DETECTOR_CHANGE_" + p.Name
			_, faults, _ := Parse(minimal("ODRADEK_DETECTORS=change", "ODRADEK_DETECTOR_CHANGE_OP="+op.String(), name+"=0"))
			if len(faults) != 1 || faults[0].Name != name {
				t.Errorf("op %v with %s=0: faults %v", op, p.Name, faults)
			}
		}
	}
	if tried < 3 {
		t.Errorf("%d settings tried", tried)
	}
}

// A faulty setting of a detector alone, with everything else in order, is that
// one fault.
func TestDetectorFaultAlone(t *testing.T) {
	for _, kv := range []string{"ODRADEK_DETECTOR_CHANGE_OP=zscroe", "ODRADEK_DETECTOR_CHANGE_WINDOW=1", "ODRADEK_DETECTOR_CHANGE_STRIDE=0",
		"ODRADEK_DETECTOR_CHANGE_RANK=99"} {
		_, faults, warnings := Parse(minimal("ODRADEK_DETECTORS=change", kv))
		if name, _, _ := strings.Cut(kv, "="); len(faults) != 1 || len(warnings) != 0 || faults[0].Name != name {
			t.Errorf("%s: faults %v, warnings %v", kv, faults, warnings)
		}
	}
}

// Thresholds and the policies of anomalies reach the state as they are set; with
// nobody to tell of verdicts nothing is judged.
func TestAlarmSettings(t *testing.T) {
	parsed := func(more ...string) (*Config, *state.Config) {
		c, faults, warnings := Parse(minimal(append([]string{"ODRADEK_DETECTORS=a,b", "ODRADEK_DETECTOR_B_OP=zscore"}, more...)...))
		if len(faults)+len(warnings) != 0 {
			t.Fatal(faults, warnings)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(err)
		}
		return c, ks
	}
	c, ks := parsed()
	if d := ks.Detectors[0]; d.Threshold.Kind != threshold.Conformal || d.Threshold.Value != 0.002 || d.Threshold.History != 1024 ||
		d.Threshold.Warmup != 64 || d.Events == nil || ks.Silence != 0 || !c.Anomalies() {
		t.Errorf("%+v %+v", d.Threshold, d.Events)
	}
	_, ks = parsed("ODRADEK_DETECTOR_A_THRESHOLD=quantile:0.99*2", "ODRADEK_DETECTOR_A_HISTORY=100", "ODRADEK_DETECTOR_A_WARMUP=7",
		"ODRADEK_DETECTOR_A_OPEN_AFTER=2",
		"ODRADEK_DETECTOR_A_CLOSE_AFTER=3", "ODRADEK_DETECTOR_A_RELEASE=0.5", "ODRADEK_DETECTOR_A_MIN_DURATION=1s",
		"ODRADEK_DETECTOR_A_MERGE_GAP=2s",
		"ODRADEK_DETECTOR_A_UPDATE_EVERY=9", "ODRADEK_DETECTOR_B_THRESHOLD=fixed:3.5", "ODRADEK_SILENCE=5m", "ODRADEK_TTL=10m")
	if got, want := *ks.Detectors[0].Threshold,
		(threshold.Params{Kind: threshold.Quantile, Value: 0.99, Margin: 2, History: 100, Warmup: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := *ks.Detectors[0].Events,
		(anomaly.Policy{OpenAfter: 2, CloseAfter: 3, Release: 0.5, MinDuration: 1e6, MergeGap: 2e6, UpdateEvery: 9}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, want := *ks.Detectors[1].Threshold,
		(threshold.Params{Kind: threshold.Fixed, Value: 3.5, History: 512}); got != want || ks.Silence != 300e6 {
		t.Errorf("%+v, want %+v; silence %d", got, want, ks.Silence)
	}
	if _, ks = parsed("ODRADEK_DETECTOR_A_OP=flatline", "ODRADEK_DETECTOR_A_AFTER=8"); ks.Detectors[0].Threshold.Value != 7 ||
		ks.Detectors[0].Threshold.Warmup != 0 {
		t.Errorf("%+v", ks.Detectors[0].Threshold)
	}
	c, ks = parsed("ODRADEK_ANOMALIES=false")
	if d := ks.Detectors[0]; d.Threshold != nil || d.Events != nil || c.Anomalies() {
		t.Errorf("%+v %+v", d.Threshold, d.Events)
	}
	c, ks = parsed("ODRADEK_ANOMALIES=false", "ODRADEK_SCORES=anomalous")
	if d := ks.Detectors[0]; d.Threshold == nil || d.Events != nil || c.Anomalies() {
		t.Errorf("%+v %+v", d.Threshold, d.Events)
	}
	c, ks = parsed("ODRADEK_DETECTOR_A_THRESHOLD=off", "ODRADEK_DETECTOR_B_THRESHOLD=off")
	if d := ks.Detectors[0]; d.Threshold != nil || d.Events != nil || c.Anomalies() {
		t.Errorf("%+v %+v", d.Threshold, d.Events)
	}
	if _, faults, _ := Parse(minimal("ODRADEK_DETECTORS=silence")); len(faults) != 1 || faults[0].Name != "ODRADEK_DETECTORS" {
		t.Errorf("a detector may be called silence: %v", faults)
	}
	if _, faults, _ := Parse(minimal("ODRADEK_ANOMALIES=false", "ODRADEK_SILENCE=1m")); len(faults) != 1 ||
		faults[0].Name != "ODRADEK_SILENCE" {
		t.Errorf("silence without anomalies: %v", faults)
	}
}

// The schema cache is kept wherever the platform has a place for it.
func TestPlatformCacheDir(t *testing.T) {
	for _, c := range []struct {
		goos, env, want string
	}{
		{"linux", "HOME=/home/o", "/home/o/.cache/odradek/schemas"},
		{"linux", "HOME=/home/o XDG_CACHE_HOME=/c", "/c/odradek/schemas"},
		{"linux", "HOME=/home/o XDG_CACHE_HOME=c", ""}, // not absolute: to be ignored, says the XDG specification
		{"linux", "HOME=/home/o CACHE_DIRECTORY=/var/cache/odradek:/x STATE_DIRECTORY=/s", "/var/cache/odradek/schemas"},
		{"linux", "HOME=/home/o STATE_DIRECTORY=/var/lib/odradek", "/var/lib/odradek/schemas"},
		{"darwin", "HOME=/Users/o", "/Users/o/Library/Caches/odradek/schemas"},
		{"linux", "", ""},
	} {
		environ := strings.Fields(c.env)
		if got := platformCacheDir(env.ToMap(environ), c.goos); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.goos, c.env, got, c.want)
		}
	}
	get := func(environ ...string) string {
		c, faults, _ := Parse(append(environ, "ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_SCHEMA_REGISTRY_URL=http://r:8081",
			"STATE_DIRECTORY=/s"))
		reg, _, err := c.RegistryConfig()
		if len(faults) > 0 || err != nil {
			t.Error(faults, err)
		}
		return reg.CacheDir
	}
	if a, b, c := get(), get("ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=/mine"), get("ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=off"); a != "/s/schemas" ||
		b != "/mine" || c != "" {
		t.Errorf("default %q, set %q, off %q", a, b, c)
	}
}

// TestPageAddr holds that the page, which shows names of series, is on loopback unless a
// setting says otherwise.
func TestPageAddr(t *testing.T) {
	for addr, want := range map[string]string{":9464": "127.0.0.1:9465", "0.0.0.0:80": "127.0.0.1:81", "127.0.0.1:7000": "127.0.0.1:7000",
		"localhost:7000": "localhost:7000", "off": "off"} {
		c, faults, _ := Parse(append(minimal(), "ODRADEK_HTTP_ADDR="+addr))
		if len(faults) > 0 || c.Program.PageAddr != want {
			t.Errorf("with %s the page is at %s, want %s (%v)", addr, c.Program.PageAddr, want, faults)
		}
	}
}

// TestWarmupFrom: a start without input before it has nothing to warm up from.
func TestWarmupFrom(t *testing.T) {
	for _, c := range []struct {
		fault    bool
		settings []string
	}{
		{false, []string{"START=latest", "WARMUP_FROM=24h"}},
		{false, []string{"START=2026-01-31T08:00:00Z", "WARMUP_FROM=90m"}},
		{false, []string{"WARMUP_FROM=0s"}},
		{true, []string{"WARMUP_FROM=24h"}},
		{true, []string{"START=earliest", "WARMUP_FROM=24h"}},
		{true, []string{"START=latest", "WARMUP_FROM=-1s"}},
		{true, []string{"START=latest", "WARMUP_FROM=24"}},
		{true, []string{"START=latest", "WARMUP_FROM=yesterday"}},
		{true, []string{"START=latest", "WARMUP_FROM=90000h"}},
		{true, []string{"START=latest", "WARMUP_FROM=1h", "REKEY=true", "LATENESS=1s"}},
	} {
		env := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=t"}
		for _, s := range c.settings {
			env = append(env, Prefix+s)
		}
		_, faults, _ := Parse(env)
		found := slices.ContainsFunc(faults, func(f Fault) bool { return f.Name == Prefix+"WARMUP_FROM" })
		if found != c.fault {
			t.Errorf("%v: faults %v", c.settings, faults)
		}
	}
}

// TestDerivedLimits: what follows from other settings fits settings at both of their ends.
func TestDerivedLimits(t *testing.T) {
	for _, c := range []struct {
		settings         []string
		heartbeat, stall time.Duration
		response         int
	}{
		{nil, 3 * time.Second, time.Minute, 8 << 20},
		{[]string{"ODRADEK_SESSION_TIMEOUT=6s", "ODRADEK_TRANSACTION_TIMEOUT=5s"}, 400 * time.Millisecond, time.Minute, 8 << 20},
		{[]string{"ODRADEK_SESSION_TIMEOUT=30m", "ODRADEK_TRANSACTION_TIMEOUT=15m", "ODRADEK_PARTITION_BYTES=1GiB"},
			3 * time.Second, 30 * time.Minute, 1 << 30},
	} {
		got, faults, _ := Parse(minimal(c.settings...))
		if len(faults) > 0 || got.Heartbeat() != c.heartbeat || got.StallLimit() != c.stall || got.FetchConfig().MaxBytes != c.response {
			t.Errorf("%v: %v, heartbeat %v, stall %v, response of %d bytes; want %+v", c.settings, faults, got.Heartbeat(), got.StallLimit(),
				got.FetchConfig().MaxBytes, c)
		}
	}
}
