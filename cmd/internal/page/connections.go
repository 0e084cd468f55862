package page

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limits are a server's limits. A request with its body, and an answer, take so long at most, so that a client that sends or reads
// slowly holds a connection no longer.
type limits struct {
	connections       int
	read, write, idle time.Duration
}

// The answer of a page takes backtestTimeout at most. A profile lasts as long as it is asked for.
var (
	usualLimits   = limits{connections: 256, read: 10 * time.Second, write: time.Minute, idle: 2 * time.Minute}
	profileLimits = limits{connections: 32, read: 10 * time.Second, write: 10 * time.Minute, idle: 2 * time.Minute}
)

// connections bounds a server's connections. When there are as many as allowed, a new one takes the place of the one that has waited
// longest for a request; where all have one in hand, the new one is closed. So idle connections, however many, do not keep probes out.
type connections struct {
	most    int
	mu      sync.Mutex
	open    map[net.Conn]*connection
	changes uint64
}

// connection is an open connection.
type connection struct {
	since  uint64 // changes up to its last
	active bool   // a request is in hand
}

// track is the server's ConnState. The server calls it for a new connection before it reads of it.
func (cn *connections) track(c net.Conn, state http.ConnState) {
	if old := cn.change(c, state); old != nil {
		_ = old.Close()
	}
}

// change notes the state of a connection and returns one to close; nil: none.
func (cn *connections) change(c net.Conn, state http.ConnState) (out net.Conn) {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.changes++
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(cn.open, c)
		return nil
	case http.StateNew:
		if len(cn.open) < cn.most {
			break
		}
		var oldest *connection
		for other, at := range cn.open {
			if !at.active && (oldest == nil || at.since < oldest.since) {
				out, oldest = other, at
			}
		}
		if oldest == nil {
			return c
		}
		delete(cn.open, out)
	default:
		if cn.open[c] == nil { // it was closed
			return nil
		}
	}
	cn.open[c] = &connection{cn.changes, state == http.StateActive}
	return out
}
