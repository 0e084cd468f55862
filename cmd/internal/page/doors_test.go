package page

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"odradek/cmd/internal/config"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serveLimited serves h on a port of this host.
func serveLimited(t *testing.T, h http.Handler, most limits) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(l, h, nil, most)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return c
}

func probes() http.Handler {
	return Probes(Source{Healthy: func() error { return nil }, Ready: func() error { return nil }, Metrics: prometheus.NewRegistry()})
}

// TestSlowClients: a client that announces a body and sends none, one that sends its header slowly, and one that never reads its answer
// lose their connections.
func TestSlowClients(t *testing.T) {
	most := usualLimits
	most.read, most.write, most.idle = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	h := http.NewServeMux()
	h.Handle("/", probes())
	ended := make(chan error, 1)
	h.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		var err error
		for b := make([]byte, 1<<20); err == nil; {
			_, err = w.Write(b)
		}
		ended <- err
	})
	s := serveLimited(t, h, most)
	for _, sent := range []string{"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n",
		"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", "GET /healthz HTTP/1.1\r\nHo", "",
		"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := dial(t, s)
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil && errors.Is(err, errDeadline(err)) {
			t.Errorf("%q: the connection is open after a minute", sent)
		}
	}
	c := dial(t, s)
	if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(5 * time.Minute):
		t.Error("an answer that nobody reads is written for a minute")
	}
	for _, l := range []limits{usualLimits, profileLimits} {
		if l.read <= 0 || l.write <= 0 || l.idle <= 0 || l.connections <= 0 || l.write <= seriesTimeout || l.write <= writeTimeout {
			t.Errorf("limits %+v", l)
		}
	}
}

// errDeadline returns err where it is a time-out.
func errDeadline(err error) error {
	if e := net.Error(nil); errors.As(err, &e) && e.Timeout() {
		return err
	}
	return errors.New("no time-out")
}

// TestConnectionsAreBounded: idle connections make room for a probe, the one that has waited longest first; where all have a request in
// hand, a further connection is closed, and those go on.
func TestConnectionsAreBounded(t *testing.T) {
	const most = 4
	l := usualLimits
	l.connections = most
	release := make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	h := http.NewServeMux()
	h.Handle("/", probes())
	arrived := make(chan struct{}, most)
	h.HandleFunc("/wait", func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		fmt.Fprint(w, "done")
	})
	s := serveLimited(t, h, l)
	ask := func(c net.Conn, path string) (string, error) {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
			return "", err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	// A client has its answer a moment before the server knows the connection to be idle.
	settle := func(active int) {
		t.Helper()
		for end := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Millisecond) {
			n := 0
			s.open.mu.Lock()
			for _, c := range s.open.open {
				if c.active {
					n++
				}
			}
			s.open.mu.Unlock()
			if n == active {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d connections have a request in hand after a minute, want %d", n, active)
			}
		}
	}
	var idle []net.Conn
	for range 3 * most {
		c := dial(t, s)
		if body, err := ask(c, "/healthz"); err != nil || body != "ok\n" {
			t.Fatalf("a probe beside %d idle connections: %q, %v", len(idle), body, err)
		}
		idle = append(idle, c)
		settle(0)
	}
	for i, c := range idle[:2*most] {
		if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, errDeadline(err)) {
			t.Errorf("idle connection %d of %d is open, the limit is %d", i, len(idle), most)
		}
	}
	answers := make(chan error, most)
	for range most {
		c := dial(t, s)
		go func() {
			body, err := ask(c, "/wait")
			if err == nil && body != "done" {
				err = fmt.Errorf("answer %q", body)
			}
			answers <- err
		}()
		select {
		case <-arrived:
		case err := <-answers:
			t.Fatalf("a request in place of an idle connection: %v", err)
		}
	}
	if body, err := ask(dial(t, s), "/healthz"); err == nil {
		t.Errorf("beside %d requests in hand a further connection is answered %q", most, body)
	}
	let()
	for range most {
		if err := <-answers; err != nil {
			t.Errorf("a request in hand: %v", err)
		}
	}
}

// TestHosts: without a token the API, and the profiler always, answer requests for names of this host and addresses, and for names that
// are configured. Any page could have another name resolve to this address and read.
func TestHosts(t *testing.T) {
	ask := func(h http.Handler, path, host string, headers ...string) int {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), "localhost") {
			t.Errorf("%s: %s", host, w.Body)
		}
		return w.Code
	}
	open, _ := apiHandler(Access{})
	named, _ := apiHandler(Access{Hosts: []string{"plant.example"}})
	anyone, _ := apiHandler(Access{Hosts: []string{config.AnyHost}})
	token, _ := apiHandler(Access{Token: "secret"})
	for _, c := range []struct {
		host        string
		own, listed bool
	}{
		{"localhost", true, true}, {"localhost:9465", true, true}, {"LOCALHOST.", true, true}, {"a.localhost", true, true},
		{"127.0.0.1:9465", true, true}, {"127.0.0.1", true, true}, {"[::1]:9465", true, true}, {"[::1]", true, true}, {"::1", true, true},
		{"[fe80::1%25eth0]:9465", true, true}, {"10.1.2.3:9465", true, true},
		{"attacker.example:9465", false, false}, {"attacker.example", false, false}, {"localhost.attacker.example", false, false},
		{"127.0.0.1.attacker.example", false, false}, {"", false, false}, {"plant.example:9465", false, true}, {"Plant.Example", false, true},
		{"a.plant.example", false, false},
	} {
		code := map[bool]int{true: http.StatusOK, false: http.StatusForbidden}
		for _, path := range []string{"/anomalies", "/status.json", "/feedback"} {
			if got := ask(open, path, c.host); got != code[c.own] {
				t.Errorf("%s of host %q: %d, want %d", path, c.host, got, code[c.own])
			}
			if got := ask(named, path, c.host); got != code[c.listed] {
				t.Errorf("%s of host %q, with a name: %d, want %d", path, c.host, got, code[c.listed])
			}
			if a, b := ask(anyone, path, c.host), ask(token, path, c.host, "Authorization", "Bearer secret"); a != http.StatusOK ||
				b != http.StatusOK {
				t.Errorf("%s of host %q: any %d, with a token %d", path, c.host, a, b)
			}
		}
		if got := ask(Pprof(), "/debug/pprof/cmdline", c.host); got != code[c.own] {
			t.Errorf("the profiler, host %q: %d, want %d", c.host, got, code[c.own])
		}
		if got := ask(open, "/healthz", c.host); got != http.StatusOK {
			t.Errorf("a probe of host %q: %d", c.host, got)
		}
	}
}
