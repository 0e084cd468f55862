//go:build ignore

// Command pause holds the namespaces of a pod, in scripts/cluster-test.sh.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	<-end
}
