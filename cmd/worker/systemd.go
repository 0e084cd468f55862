package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// This file tells systemd how the worker is (sd_notify(3)), where the unit has Type=notify.

// The variables of systemd.
const (
	notifySocket = "NOTIFY_SOCKET"
	watchdogTime = "WATCHDOG_USEC" // after which systemd ends a service that says nothing
)

// notifyTick is how often the worker looks whether there is something to tell.
const notifyTick = 250 * time.Millisecond

// notify tells systemd once that the worker is ready, then within each third of the watchdog's time that it is healthy, and at the end of
// ctx that it drains; stop ends it. Without the variables it does nothing.
func notify(ctx context.Context, getenv func(string) string, ready, healthy func() error, log *slog.Logger) (stop func()) {
	socket := getenv(notifySocket)
	if socket == "" {
		return func() {}
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		log.Warn("systemd is not told how the worker is", "err", err)
		return func() {}
	}
	usec, _ := strconv.ParseInt(getenv(watchdogTime), 10, 64)
	n := notifier{conn: conn, watchdog: time.Duration(usec) * time.Microsecond, ready: ready, healthy: healthy}
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = conn.Close() }()
		tick := time.NewTicker(notifyTick)
		defer tick.Stop()
		draining := ctx.Done()
		for {
			n.report(time.Now())
			select {
			case <-tick.C:
			case <-draining:
				draining = nil
				n.send("STOPPING=1\nSTATUS=draining")
			case <-end:
				return
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}

// notifier has what was reported to systemd.
type notifier struct {
	conn           net.Conn
	watchdog       time.Duration // 0: none
	ready, healthy func() error

	isReady bool
	alive   time.Time // of the last report to the watchdog
	status  string
}

// report reports what has changed, and to the watchdog that the worker is healthy.
func (n *notifier) report(now time.Time) {
	status := "ready"
	if err := n.ready(); err != nil {
		status = err.Error()
	} else if !n.isReady {
		n.isReady = true
		n.send("READY=1")
	}
	err := n.healthy()
	if err != nil {
		status = err.Error()
	}
	if status != n.status {
		n.status = status
		n.send("STATUS=" + fmt.Sprintf("%.200s", status))
	}
	if n.watchdog > 0 && err == nil && now.Sub(n.alive) >= n.watchdog/3 {
		n.alive = now
		n.send("WATCHDOG=1")
	}
}

// send leaves out what systemd does not take: the next comes soon.
func (n *notifier) send(text string) { _, _ = n.conn.Write([]byte(text)) }
