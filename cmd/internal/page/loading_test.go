package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestFirstAnswer: the first answer, and the first one after a pause, has what the topics have: a program that asks once must not
// take "not read yet" for "no anomaly".
func TestFirstAnswer(t *testing.T) {
	b := newBed(t, nil)
	b.topic("anomalies", 3)
	srv := httptest.NewServer(Handler(Source{Explorer: func() DataSource { return b.Explorer }}))
	t.Cleanup(srv.Close)
	get := func(path string, answer any) *http.Response {
		t.Helper()
		r, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if err := json.NewDecoder(r.Body).Decode(answer); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for n := range 3 {
		b.write(b.anomaly(byte(n+1), 1, 0, "pump-1", 10+n, nil))
		var list AnomalyList
		if r := get("/anomalies", &list); list.Open != n+1 || list.Loading || r.Header.Get("Retry-After") != "" {
			t.Fatalf("answer %d: %d open, loading %v, Retry-After %q", n+1, list.Open, list.Loading, r.Header.Get("Retry-After"))
		}
		b.asked.Store(0) // nobody has asked for long
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
			b.mu.Lock()
			paused := !b.ready
			b.mu.Unlock()
			if paused {
				break
			}
			if time.Now().After(end) {
				t.Fatal("no pause")
			}
		}
	}
}

// TestLoading: before the topics have been read, the answers say so.
func TestLoading(t *testing.T) {
	e := New(&Config{Anomalies: "anomalies", Shadow: "shadow"}) // nothing runs it
	h := Handler(Source{Explorer: func() DataSource { return e }, Status: func() (none Status) { return }})
	for path, code := range map[string]int{"/anomalies": 200, "/shadow": 200, "/feedback": 200, "/anomalies/" + strings.Repeat("06", 16): 503,
		"/blocks?anomaly=" + strings.Repeat("06", 16): 503} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, http.NoBody)
		r.Host = "localhost"
		h.ServeHTTP(w, r)
		cancel()
		if body := w.Body.String(); w.Code != code || w.Header().Get("Retry-After") != "1" ||
			!strings.Contains(body, `"loading":true`) && !strings.Contains(body, "being read") {
			t.Errorf("%s: %d, Retry-After %q, %s", path, w.Code, w.Header().Get("Retry-After"), body)
		}
	}
}
