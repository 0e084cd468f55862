package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func testSource() (Source, *bool, *error) {
	ready, fault := new(bool), new(error)
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "odradek_test_total", Help: "x"})
	c.Add(3)
	reg.MustRegister(c)
	return Source{
		Status: func() Status {
			return Status{
				Group: `g<script>alert(1)</script>`, State: "running", Rate: 1234567.4, Started: time.Now().Add(-time.Minute), GPUs: []GPU{},
				EventToScore: [2]Duration{Duration(1500 * time.Microsecond), Duration(2 * time.Second)},
				Partitions: []Partition{
					{Topic: "in", Partition: 3, Running: true, Committed: 10, End: 1010, Lag: 1000, Keys: 5, CommittedAt: time.Now()},
					{Topic: "in", Partition: 4, Hold: "the <registry> is away", HoldSince: time.Now().Add(-time.Hour)},
					{Topic: "in", Partition: 5, Running: true, FetchAge: Duration(90 * time.Second), Lost: true},
				},
				Outcomes: []Outcome{
					{Topic: "in", Consumed: 1000, Parts: []OutcomePart{{"scored", 990, 0.99}, {"dead: <magic>", 10, 0.01}}},
				},
				Detectors: []DetectorInfo{
					{Name: "change", Op: "ikasst", Fields: "value", Keys: "*", Window: 50, Stride: 1, Threshold: "conformal:0.001"},
				},
				Anomalies: []AnomalyChange{
					{Time: time.Date(2026, 3, 1, 2, 3, 4, 0, time.UTC), Kind: "open", Series: "pump<1>", Detector: "change",
						Severity: 83, Band: "critical"},
				},
				Faults: []FaultRecord{{Time: time.Now(), Level: "WARN", Text: "dead letter & <b>", Count: 7}},
			}
		},
		Ready: func() error {
			if !*ready {
				return errors.New("in/3: its state is being restored")
			}
			return nil
		},
		Healthy: func() error { return *fault },
		Metrics: reg,
	}, ready, fault
}

func get(t *testing.T, base, path string) (int, string) {
	t.Helper()
	res, err := http.Get(base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

func TestEndpoints(t *testing.T) {
	src, ready, fault := testSource()
	s, err := Serve("127.0.0.1:0", Handler(src), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base := "http://" + s.Addr

	if code, body := get(t, base, "/readyz"); code != 503 || !strings.Contains(body, "not ready: in/3") {
		t.Errorf("readyz before: %d %q", code, body)
	}
	*ready = true
	if code, _ := get(t, base, "/readyz"); code != 200 {
		t.Errorf("readyz after: %d", code)
	}
	if code, body := get(t, base, "/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("healthz: %d %q", code, body)
	}
	*fault = errors.New("in/3: 1000 records behind and nothing committed for 2m0s")
	if code, body := get(t, base, "/healthz"); code != 503 || !strings.Contains(body, "in/3") {
		t.Errorf("healthz with a fault: %d %q", code, body)
	}
	if code, body := get(t, base, "/metrics"); code != 200 || !strings.Contains(body, "odradek_test_total 3") {
		t.Errorf("metrics: %d %q", code, body)
	}
	if code, body := get(t, base, "/"); code != 200 || !strings.Contains(body, "</html>") {
		t.Errorf("page: %d %.80q", code, body)
	}
	code, body := get(t, base, "/status.json")
	var back map[string]any
	if err := json.Unmarshal([]byte(body), &back); code != 200 || err != nil || back["event_to_score"].([]any)[1] != 2.0 {
		t.Errorf("status.json: %d %v %s", code, err, body)
	}
	for _, path := range []string{"/debug/pprof/", "/nothing", "/metrics/x"} {
		if code, _ := get(t, base, path); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
	res, err := http.Post(base+"/healthz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.StatusCode)
	}
}

func TestPprofIsLoopbackOnly(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if s, err := ServeLoopback(addr, Pprof(), nil); err == nil {
			s.Close()
			t.Errorf("%s was served", addr)
		}
	}
	s, err := ServeLoopback("localhost:0", Pprof(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if code, body := get(t, "http://"+s.Addr, "/debug/pprof/goroutine?debug=1"); code != 200 ||
		!strings.Contains(body, "goroutine profile") {
		t.Errorf("%d %.80q", code, body)
	}
}

func TestListenError(t *testing.T) {
	s, err := Serve("127.0.0.1:0", http.NotFoundHandler(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Serve(s.Addr, http.NotFoundHandler(), nil); err == nil || !strings.Contains(err.Error(), s.Addr) {
		t.Errorf("error %v", err)
	}
}

func TestFaults(t *testing.T) {
	f := NewFaults(20)
	if text, err := json.Marshal(f.List()); string(text) != "[]" {
		t.Errorf("no faults are %s (%v)", text, err)
	}
	var out strings.Builder
	log := slog.New(f.Handler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelError}))).With("topic", "in")
	log.Info("fine")
	for range 3 {
		log.Warn("dead letter", "class", "magic")
	}
	log.Error("bad", "err", errors.New("broken"))
	list := f.List()
	if len(list) != 2 || list[0].Text != "bad topic=in err=broken" || list[1].Count != 3 ||
		list[1].Text != "dead letter topic=in class=magic" {
		t.Errorf("%+v", list)
	}
	if got := out.String(); strings.Contains(got, "dead letter") || !strings.Contains(got, "bad") {
		t.Errorf("the log itself: %q", got)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 100 {
				log.Warn(fmt.Sprint("w", i, j), "long", strings.Repeat("é", 1000))
			}
		})
	}
	wg.Wait()
	list = f.List()
	if len(list) != 20 || len(list[0].Text) > maxFaultText+3 {
		t.Errorf("%d faults of %d bytes", len(list), len(list[0].Text))
	}
}

// TestOutcomeShares: ten of a hundred records that cannot be read are 10 %, however many samples the others have.
func TestOutcomeShares(t *testing.T) {
	o := NewOutcome("in", 100, 370)
	o.Add("scored", 333)
	o.Add("dead: magic", 10)
	if o.Parts[0].Share != 0.9 || o.Parts[1].Share != 0.1 {
		t.Errorf("%+v", o.Parts)
	}
}
