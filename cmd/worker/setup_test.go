package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/kafkatest"
)

// setup makes what a worker that may not create topics needs, as often as it is
// called; without -input-partitions the input has to be there.
func TestSetup(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		ctx := context.Background()
		group, input := kafkatest.Unique("setup"), kafkatest.Unique("setup-in")
		term, out, errs := console("ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL="+c.RegistryURL(t),
			"ODRADEK_GROUP="+group, "ODRADEK_TOPICS="+input, "ODRADEK_CREATE_TOPICS=false")
		for range 2 {
			if code := term.setup(ctx, []string{"-input-partitions", "3"}); code != exitOK {
				t.Fatalf("exit %d: %s%s", code, out, errs)
			}
		}
		for topic, want := range map[string]int{input: 3, group + "-scores": 3, group + "-anomalies": 3, group + "-dlq": 3, group + "-late": 3,
			config.ChangelogName(group+"-", input): 3} {
			if list, err := c.Admin().Partitions(ctx, topic); err != nil || len(list) != want {
				t.Errorf("%s has %d partitions, want %d: %v", topic, len(list), want, err)
			}
		}
		if n := strings.Count(errs.String(), "created topic"); n != 6 {
			t.Errorf("%d topics created, want 6: %s", n, errs)
		}
		before := subjectsOf(t, c.RegistryURL(t), group)
		f := newFleet(t, c, input, group, "CREATE_TOPICS=false")
		w := f.start("w")
		w.waitReady(t)
		if code := w.drain(t); code != exitOK {
			t.Errorf("the worker ended with %d", code)
		}
		if after := subjectsOf(t, c.RegistryURL(t), group); len(before) == 0 || !slices.Equal(before, after) {
			t.Errorf("setup registered %v, run needs %v", before, after)
		}

		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		term, out, errs = console("ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL="+c.RegistryURL(t),
			"ODRADEK_GROUP="+group+"2", "ODRADEK_TOPICS="+kafkatest.Unique("absent"))
		if code := term.setup(limited, nil); code != exitFailed || !strings.Contains(errs.String(), "does not exist") {
			t.Errorf("without the input: exit %d: %s%s", code, out, errs)
		}
	})
	for _, args := range []string{"-input-partitions -1", "-input-partitions many", "surplus"} {
		term, _, errs := console(minimal()...)
		if code := term.setup(t.Context(), strings.Fields(args)); code != exitUsage {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
	term, _, errs := console("ODRADEK_GROUP=g")
	if code := term.setup(t.Context(), nil); code != exitUsage || !strings.Contains(errs.String(), "ODRADEK_TOPICS") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// subjectsOf lists the registry's subjects that begin with a group's name.
func subjectsOf(t *testing.T, url, group string) (list []string) {
	t.Helper()
	res, err := client.Get(url + "/subjects")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all []string
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if strings.HasPrefix(s, group) {
			list = append(list, s)
		}
	}
	slices.Sort(list)
	return list
}

// A generator is healthy while it writes, and not when it has stalled.
func TestGeneratorHealth(t *testing.T) {
	p := newPulse(0.5)
	if p.limit != generatorStall+4*time.Second || newPulse(0).limit != generatorStall {
		t.Errorf("limits %v, %v", p.limit, newPulse(0).limit)
	}
	addr := freeAddr(t)
	stop, err := p.serve(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	code := func() int {
		res, err := client.Get("http://" + addr + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	batch := map[kafka.TP]*record.Batches{{Topic: "t"}: nil}
	fail := errors.New("no broker")
	var got []int
	for _, c := range []struct {
		err   error
		batch map[kafka.TP]*record.Batches
	}{{nil, batch}, {fail, batch}, {nil, nil}} {
		p.last.Store(time.Now().Add(-p.limit - time.Second).UnixNano())
		got = append(got, code())
		send := p.watch(slog.New(slog.DiscardHandler), func(context.Context, map[kafka.TP]*record.Batches) error { return c.err })
		if err := send(t.Context(), c.batch); err != c.err {
			t.Error(err)
		}
		got = append(got, code())
	}
	if want := []int{503, 200, 503, 503, 503, 503}; !slices.Equal(got, want) {
		t.Errorf("answers %v, want %v", got, want)
	}
	if _, err := newPulse(1).serve(addr); err == nil {
		t.Error("two on one address")
	}
}
