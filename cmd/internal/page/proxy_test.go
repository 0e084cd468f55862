package page

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestReverseProxy: behind a proxy that serves the page below a path of its own name, which signs people in and adds the token, all that
// the page loads is there, and what it writes is accepted.
func TestReverseProxy(t *testing.T) {
	const token = "0123456789abcdef"
	behind := httptest.NewServer(Handler(Source{Status: func() Status { return Status{} }, Access: Access{Token: token},
		Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }, Healthy: func() error { return nil },
		Explorer: func() DataSource { return nil }}))
	defer behind.Close()
	to, err := url.Parse(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/odradek", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
		r.Out.Host = "plant.example.com"
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}}))
	defer proxy.Close()
	get := func(path string) (int, string) {
		t.Helper()
		res, err := http.Get(proxy.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	code, index := get("/odradek/")
	if code != http.StatusOK {
		t.Fatalf("the page: %d", code)
	}
	links := regexp.MustCompile(`(?:src|href)="([^"#:]+)"`).FindAllStringSubmatch(index, -1)
	for _, l := range links {
		if strings.HasPrefix(l[1], "/") {
			t.Errorf("%s leads past the proxy's path", l[1])
		}
		if code, _ := get("/odradek/" + l[1]); code != http.StatusOK {
			t.Errorf("%s: %d", l[1], code)
		}
	}
	if len(links) < 3 {
		t.Errorf("the page loads %v", links)
	}
	_, script := get("/odradek/app.js")
	for _, m := range regexp.MustCompile("(?:fetch|api|get|send)\\([\"'`]/[^\"'`]*").FindAllString(script, -1) {
		t.Errorf("%s leads past the proxy's path", m)
	}
	if code, body := get("/odradek/status.json"); code != http.StatusOK {
		t.Errorf("status: %d %s", code, body)
	}
	for origin, want := range map[string]bool{"https://plant.example.com": true, "https://elsewhere.example.com": false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, proxy.URL+"/odradek/feedback", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if (res.StatusCode != http.StatusForbidden) != want {
			t.Errorf("written from %s: %d", origin, res.StatusCode)
		}
	}
}
