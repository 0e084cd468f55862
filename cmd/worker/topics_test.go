package main

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

// TestOutputCreator: a topic that was deleted is created with the partitions that are asked for and the configuration of a
// start, and none where the worker may not create topics.
func TestOutputCreator(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	ctx := context.Background()
	input := c.Topic(t, "in", 3, "max.message.bytes", "3000000")
	client, err := kafka.Open(ctx, kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=k",
		"ODRADEK_VALUE_FIELDS=v", "ODRADEK_GROUP=" + input + "-g", "ODRADEK_TOPICS=" + input, "ODRADEK_REPLICATION=1"}
	cfg, faults, _ := config.Parse(environ)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	create := admin.OutputCreator(cfg, client)
	if err := create(ctx, cycle.DeadLetters, 5); err != nil {
		t.Fatal(err)
	}
	name := cfg.OutputTopics()[cycle.DeadLetters]
	wantTopic(t, client, name, 5)
	if cfg, _, _ = config.Parse(append(environ, "ODRADEK_CREATE_TOPICS=false")); admin.OutputCreator(cfg, client) != nil {
		t.Error("a worker that may not create topics creates some")
	}
}

// TestTopicsForInput: topics that records of the input come to as they are take
// records as large, and have as many partitions as the scores. One that exists with
// a lower limit is named in the log.
func TestTopicsForInput(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	ctx := context.Background()
	input := c.Topic(t, "in", 3, "max.message.bytes", "3000000")
	client, err := kafka.Open(ctx, kafka.Config{Brokers: c.Brokers, ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cfg, faults, _ := config.Parse([]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","),
		"ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t),
		"ODRADEK_GROUP=" + input + "-g", "ODRADEK_TOPICS=" + input, "ODRADEK_REKEY=true", "ODRADEK_LATENESS=10s", "ODRADEK_REPLICATION=1"})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if err := admin.CreateTopics(ctx, cfg, client, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	topics := &cfg.Output.Topics
	for _, name := range []string{topics[cycle.Rekeyed], topics[cycle.DeadLetters], topics[cycle.Late]} {
		wantTopic(t, client, name, 3)
	}
	var log strings.Builder
	start := func() {
		t.Helper()
		if err := admin.CreateTopics(ctx, cfg, client, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Fatal(err)
		}
	}
	if start(); strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the next start says %q", &log)
	}
	if err := c.Admin().SetTopicConfig(ctx, topics[cycle.Rekeyed], map[string]string{"max.message.bytes": "1000000"}); err != nil {
		t.Fatal(err)
	}
	if start(); !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "3000000") {
		t.Errorf("the start says %q", &log)
	}
}

// wantTopic requires of a topic its number of partitions, and room for a record of 3 MB with what an output adds to it.
func wantTopic(t *testing.T, client *kafka.Client, name string, partitions int) {
	t.Helper()
	infos, err := client.Admin.Topics(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	conf, err := client.Admin.TopicConfig(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(conf["max.message.bytes"]); n < 3000000+10000 || infos[name].Partitions != partitions {
		t.Errorf("%s: max.message.bytes %s, %d partitions, want %d", name, conf["max.message.bytes"], infos[name].Partitions, partitions)
	}
}
