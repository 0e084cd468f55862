// Command up starts the clusters and the registry that the tests start for
// themselves, and leaves them up, so that many runs share them:
//
//	go run ./processor/kafkatest/up [version ...]
//	go run ./processor/kafkatest/up kfake
//
// It prints what to export, and ends them all at an interrupt. kfake is a broker with a registry in memory, which needs Go
// alone: to try the worker on a topic of one's own, which its first record creates.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"odradek/processor/kafkatest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runFake starts a broker and a registry in memory.
func runFake(ctx context.Context) error {
	c, err := kafkatest.StartFake(kafkatest.FakeOptions{Brokers: 1, AutoCreate: true})
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Printf("export ODRADEK_KAFKA_BROKERS=%s\n", strings.Join(c.Brokers, ","))
	fmt.Printf("export ODRADEK_SCHEMA_REGISTRY_URL=%s # not for plain JSON, which needs none\n", c.Registry)
	<-ctx.Done()
	return nil
}

func run(ctx context.Context, versions []string) error {
	if len(versions) == 1 && versions[0] == kafkatest.KindFake {
		return runFake(ctx)
	}
	if len(versions) == 0 {
		versions = kafkatest.Versions
	}
	r, err := kafkatest.StartRegistry(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	fmt.Printf("export ODRADEK_TEST_REGISTRY=%s\n", r.URL)
	died := make(chan error)
	for _, v := range versions {
		c, err := kafkatest.StartKafka(ctx, kafkatest.Options{Version: v, SASL: true})
		if err != nil {
			return err
		}
		defer c.Close()
		c.Registry = r.URL
		name, err := c.Describe()
		if err != nil {
			return err
		}
		fmt.Printf("export ODRADEK_TEST_KAFKA_%s=%s\n", strings.ReplaceAll(v, ".", "_"), name)
		for _, n := range c.Nodes() {
			go func() {
				n.Wait()
				died <- fmt.Errorf("up: node %d of %s ended by itself; its log is gone with it, set ODRADEK_TEST_KEEP=1 to keep it", n.ID, c.Kind)
			}()
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-died:
		return err
	}
}
