// Package page serves the HTTP endpoints of a running worker: a page and its JSON API, liveness, readiness, metrics, and
// on loopback the profiler.
//
// The page (static) is fixed text, without data: its script requests the data from the API (routes.go). The API's description
// is made from the routes and the types of their answers (openapi.go). An Explorer answers requests about the whole group.
package page

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Source supplies the content of the pages. Every function but Explorer's is called from several goroutines at once and
// returns within milliseconds.
type Source struct {
	Status  func() Status
	Ready   func() error // nil in the group, with everything assigned restored and brokers that answer
	Healthy func() error // nil while there is progress or nothing to do
	Metrics prometheus.Gatherer
	// Explorer answers for the group; nil: the page shows this worker alone. Its result is nil until the worker has
	// reached the brokers.
	Explorer func() DataSource
	// Records reads input records; nil: the page shows none. Its result is nil as Explorer's is.
	Records func() RecordReader
	Access  Access
}

// Probes answers /healthz, /readyz and /metrics, which tell nothing of a series.
func Probes(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, src.Healthy()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := src.Ready()
		if err != nil {
			err = fmt.Errorf("not ready: %w", err)
		}
		answer(w, err)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(src.Metrics, promhttp.HandlerOpts{}))
	return mux
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Pprof answers /debug/pprof/, to names of this host and addresses. Serve it by ServeLoopback only: profiles and
// command lines show what is in memory.
func Pprof() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return onThisHost(mux)
}

// Server is a listening HTTP server.
type Server struct {
	Addr string // where it listens, with the port that was taken for :0
	srv  *http.Server
	open connections
	done chan struct{}
}

// Serve listens on addr and serves until Close, over TLS if t is not nil. The error says why it cannot listen.
func Serve(addr string, h http.Handler, t *tls.Config) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("page: listen on %s: %w", addr, err)
	}
	return serve(l, h, t, usualLimits), nil
}

// ServeLoopback is Serve for an address of this machine only; another one is
// refused. An answer may take as long as a profile.
func ServeLoopback(addr string, h http.Handler, t *tls.Config) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("page: listen on %s: %w", addr, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		l.Close()
		return nil, fmt.Errorf("page: %s is not a loopback address; use 127.0.0.1:port", addr)
	}
	return serve(l, h, t, profileLimits), nil
}

func serve(l net.Listener, h http.Handler, t *tls.Config, most limits) *Server {
	s := &Server{
		Addr: l.Addr().String(),
		open: connections{most: most.connections, open: map[net.Conn]*connection{}},
		srv: &http.Server{
			Handler:           h,
			TLSConfig:         t,
			ReadHeaderTimeout: min(5*time.Second, most.read),
			ReadTimeout:       most.read,
			WriteTimeout:      most.write,
			IdleTimeout:       most.idle,
			MaxHeaderBytes:    16 << 10,
			ErrorLog:          log.New(io.Discard, "", 0),
		}, // of clients that fail to agree on TLS
		done: make(chan struct{}),
	}
	s.srv.ConnState = s.open.track
	go func() {
		defer close(s.done)
		if t != nil {
			_ = s.srv.ServeTLS(l, "", "") // as below
			return
		}
		_ = s.srv.Serve(l) // ErrServerClosed, or the listener broke: /healthz then does not answer
	}()
	return s
}

// Close ends the server, giving requests in hand a second.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.srv.Shutdown(ctx)
	if err != nil {
		err = s.srv.Close()
	}
	<-s.done
	return err
}
