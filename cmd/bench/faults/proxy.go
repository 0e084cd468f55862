package faults

import (
	"fmt"
	"os"
	"regexp"

	"odradek/cmd/bench/testbed"
)

var proxied = regexp.MustCompile(`(?m)^(advertised\.)?listeners=.*PROXIED://([^,\s]+)`)

// newProxy returns the proxy of the node whose configuration is in the file: it listens where the node says to clients
// that it listens.
func newProxy(properties string) (*testbed.Proxy, error) {
	text, err := os.ReadFile(properties)
	if err != nil {
		return nil, fmt.Errorf("faults: proxy: %w", err)
	}
	var at, to string
	for _, m := range proxied.FindAllSubmatch(text, -1) {
		if len(m[1]) > 0 {
			at = string(m[2])
		} else {
			to = string(m[2])
		}
	}
	return testbed.NewProxy(at, to, testbed.Link{})
}
