package kafka

import "net"

// Connections returns the connections that a client has at the moment.
func Connections(c *Client) map[net.Conn]struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[net.Conn]struct{}, len(c.conns))
	for t := range c.conns {
		out[t] = struct{}{}
	}
	return out
}
