package kafka

import "net"

// Connections returns the connections that a client has at the moment.
func Connections(c *Client) map[net.Conn]struct{} {
	d := c.Cluster.transport.dialer
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[net.Conn]struct{}, len(d.conns))
	for t := range d.conns {
		out[t] = struct{}{}
	}
	return out
}
