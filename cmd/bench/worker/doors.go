package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
)

// Doors: a worker scores at a fixed rate series whose keys are hostile, first alone, then with many clients at its page, and alone again.

const (
	doorClients = 1000 // half of them ask once a second, half read an answer a byte at a time
	doorRate    = 10_000
	doorSeries  = 1000
	doorSlow    = 500 * time.Millisecond // between the bytes that a slow client reads
)

// hostileKey returns the i-th key: markup, quotes, control characters, bytes that are no text, and lengths up to a kilobyte.
func hostileKey(i int) []byte {
	texts := []string{"<script>alert(%d)</script>", "../../etc/passwd%d", "a\x00b\r\nX: %d", "\xff\xfe\xc0%d", `"'};--%d`,
		"\u202eabc%d", "*?[%d", "%%2e%%n%d"}
	key := fmt.Appendf(nil, texts[i%len(texts)], i)
	if i%97 == 0 {
		key = append(key, strings.Repeat("long/", 200)...)
	}
	return key
}

// Doors measures the latency of scores while clients ask the page.
func (b *Bench) Doors(ctx context.Context) ([]testbed.Row, error) {
	in, err := b.NewEmptyInput(ctx, "doors", testbed.Partitions)
	if err != nil {
		return nil, err
	}
	for i := range doorSeries {
		key := hostileKey(i)
		p := kafka.Partition(key, testbed.Partitions)
		in.Keys[p] = append(in.Keys[p], key)
	}
	page, err := testbed.FreeAddr()
	if err != nil {
		return nil, err
	}
	w, err := b.StartWorker(in, in.Topic+"-g", config.Prefix+"PRESET=fast", config.Prefix+"PAGE_ADDR="+page)
	if err != nil {
		return nil, err
	}
	defer w.Kill()
	defer b.Drop(in.Topic, w.Scores, w.Changelog, w.Group+"-anomalies", w.Group+"-dlq", w.Group+"-late")
	if err := w.Ready(ctx); err != nil {
		return nil, err
	}
	rate := float64(doorRate)
	if b.Rate > 0 {
		rate = b.Rate
	}
	gctx, stop := context.WithCancel(ctx)
	var sent atomic.Int64
	generated := make(chan error, 1)
	go func() { generated <- b.generateAt(gctx, in, in.EvenMix(rand.New(rand.NewPCG(1, 2))), rate, &sent) }()
	defer stop()
	var p99 [3]float64
	var heap [3]float64
	others := 0.0
	var asked, answered, bytes atomic.Int64
	for turn := range p99 {
		cctx, leave := context.WithCancel(ctx)
		var clients sync.WaitGroup
		if turn == 1 {
			for i := range doorClients {
				clients.Go(func() { visit(cctx, page, i, &asked, &answered, &bytes) })
			}
		}
		l := &testbed.Latencies{}
		from := time.Now().Add(b.Span(10 * time.Second))
		before := b.Load(w)
		err := l.Read(ctx, b.Cluster.Brokers, w.Scores, from, from.Add(b.Span(30*time.Second)))
		l.Others = b.Load(w).OthersSince(before)
		others = max(others, l.Others)
		if err == nil {
			heap[turn], _, err = w.Heap()
		}
		leave()
		clients.Wait()
		if err = errors.Join(err, ctx.Err(), w.Ended()); err != nil {
			return nil, err
		}
		if p99[turn] = l.Quantile(0.99); p99[turn] == 0 {
			return nil, w.Failed(errors.New("no score became visible"))
		}
		b.Say("doors %d: p50 %.1f ms, p99 %.1f ms of %d scores, heap %s MB; others %.0f%%", turn, l.Quantile(0.5), p99[turn], len(l.Micros),
			testbed.Figure(heap[turn]/1e6), 100*l.Others)
	}
	stop()
	if err := <-generated; err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d clients, %d requests, %d answered, %s MB; %d series with hostile keys at %s records/s, preset fast, "+
		"exactly once, %s",
		doorClients, asked.Load(), answered.Load(), testbed.Figure(float64(bytes.Load())/1e6), doorSeries, testbed.Figure(rate), b.Cluster.Kind)
	if others > testbed.MaxOthers {
		note += fmt.Sprintf("; DISTURBED: other processes took up to %.0f%% of the cores", 100*others)
	}
	alone, memory := (p99[0]+p99[2])/2, max(heap[0], heap[2])
	return []testbed.Row{
		testbed.NewRow("event to score, p99, with clients", p99[1], "ms").Against("without, before and after", alone, true).
			Want("within 25 %", p99[1] <= 1.25*alone).Noted("before %.1f, after %.1f ms; %s", p99[0], p99[2], note),
		testbed.NewRow("heap in use, with clients", heap[1]/1e6, "MB").Against("without", memory/1e6, true).Noted("peak resident %s MB; %s",
			testbed.Figure(float64(w.PeakBytes())/1e6), note),
	}, w.Stop(30 * time.Second)
}

// visit is one client, until ctx ends.
func visit(ctx context.Context, addr string, i int, asked, answered, bytes *atomic.Int64) {
	if i%2 == 1 {
		for ctx.Err() == nil {
			readSlowly(ctx, addr, asked, bytes)
			_ = testbed.Pause(ctx, time.Second)
		}
		return
	}
	client := &http.Client{Timeout: 30 * time.Second}
	paths := []string{"/", "/anomalies?series=%s", "/series?key=%s", "/status.json", "/partitions", "/anomalies/%s", "/feedback", "/app.js",
		"/%s"}
	for n := i; ctx.Err() == nil; n++ {
		path := paths[n%len(paths)]
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, url.QueryEscape(string(hostileKey(n))))
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
		if err == nil {
			asked.Add(1)
			var res *http.Response
			if res, err = client.Do(req); err == nil {
				answered.Add(1)
				read, _ := io.Copy(io.Discard, res.Body)
				bytes.Add(read)
				res.Body.Close()
			}
		}
		_ = testbed.Pause(ctx, time.Second)
	}
}

// readSlowly asks for the anomalies and reads the answer a byte at a time, until the worker closes the connection.
func readSlowly(ctx context.Context, addr string, asked, bytes *atomic.Int64) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer c.Close()
	asked.Add(1)
	if _, err := fmt.Fprintf(c, "GET /anomalies HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return
	}
	one := make([]byte, 1)
	for ctx.Err() == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(one); err != nil {
			return
		}
		bytes.Add(1)
		_ = testbed.Pause(ctx, doorSlow)
	}
}
