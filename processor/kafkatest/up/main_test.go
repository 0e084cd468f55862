package main

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestFake: up says where its broker and its registry listen, and ends them with its context.
func TestFake(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error)
	go func() { ended <- run(ctx, []string{"kfake"}) }()
	var addrs []string
	for lines := bufio.NewScanner(r); len(addrs) < 2 && lines.Scan(); {
		_, value, _ := strings.Cut(lines.Text(), "=")
		addr, _, _ := strings.Cut(value, " ")
		if u, err := url.Parse(addr); err == nil && u.Host != "" {
			addr = u.Host
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
		addrs = append(addrs, addr)
	}
	stop()
	if err := <-ended; err != nil || len(addrs) != 2 {
		t.Errorf("%q, %v", addrs, err)
	}
	if c, err := net.Dial("tcp", addrs[0]); err == nil {
		_ = c.Close()
		t.Errorf("the broker listens on %s after the end", addrs[0])
	}
}
