package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

// TestMissingInputTopic: an input topic that no broker knows ends the start within
// seconds, with what to do about it. Nobody makes it meanwhile.
func TestMissingInputTopic(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		input := c.Topic(t, "in", 1)
		missing := input[:len(input)-1] + "-"
		f := newFleet(t, c, missing, input+"-g")
		began := time.Now()
		w := f.start("w")
		if code := w.exit(t); code != exitFailed {
			t.Errorf("exit code %d, want %d", code, exitFailed)
		}
		t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
		for _, want := range []string{missing, "does not exist", "ODRADEK_TOPICS", "worker setup", "did you mean " + input} {
			if !w.logged(want) {
				t.Errorf("the log lacks %q", want)
			}
		}
		client, err := kafka.Open(t.Context(), kafka.Config{Brokers: c.Brokers, ClientID: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if all, err := client.Admin.Topics(t.Context()); err != nil || all[missing].Exists || !all[input].Exists {
			t.Errorf("the topic was made (%v)", err)
		}
	})
}

// TestHiddenInputTopic: a topic that the worker may not describe is not called
// missing, and ends the start at once as well.
func TestHiddenInputTopic(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{SASL: true, Opts: []kfake.Opt{kfake.EnableACLs(), kfake.User("PLAIN", "poor", "poor1234")}})
	input := c.Topic(t, "in", 1)
	f := newFleet(t, c, input, "g", "KAFKA_SASL_MECHANISM=PLAIN", "KAFKA_USERNAME=poor", "KAFKA_PASSWORD=poor1234",
		"KAFKA_TLS=true", "KAFKA_TLS_CA_FILE="+c.Security.CAFile)
	w := f.start("w")
	if code := w.exit(t); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if !w.logged("topic "+input+": may not be described; allow Describe and Read to User:poor") || w.logged("does not exist") {
		t.Error("the log does not say what is not permitted")
	}
}

// TestUnsettledInputTopic: a topic without a leader, and one that a broker has not
// heard of yet, are no reason to give up: the error is one to try again after.
func TestUnsettledInputTopic(t *testing.T) {
	for name, answer := range map[string]func(c *kafkatest.Cluster) int16{
		"no leader": func(*kafkatest.Cluster) int16 { return kerr.LeaderNotAvailable.Code },
		"not everywhere": func(c *kafkatest.Cluster) int16 {
			if c.Fake.CurrentNode() == 0 {
				return 0
			}
			return kerr.UnknownTopicOrPartition.Code
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := kafkatest.Fake(t, kafkatest.FakeOptions{})
			cfg, faults, _ := config.Parse(minimal("ODRADEK_TOPICS="+c.Topic(t, "in", 1), "ODRADEK_KAFKA_BROKERS="+strings.Join(c.Brokers, ",")))
			if len(faults) > 0 {
				t.Fatal(faults)
			}
			client, err := kafka.Open(t.Context(), kafka.Config{Brokers: c.Brokers, ClientID: "test"})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			c.Fake.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.Fake.KeepControl()
				code := answer(c)
				if code == 0 {
					return nil, nil, false
				}
				res := req.ResponseKind().(*kmsg.MetadataResponse)
				topic := kmsg.NewMetadataResponseTopic()
				topic.Topic, topic.ErrorCode = kmsg.StringPtr(cfg.Group.Topics[0]), code
				res.Topics = append(res.Topics, topic)
				return res, nil, true
			})
			for range 20 { // some are answered by the broker that knows it
				found, faults, err := admin.InputTopics(t.Context(), cfg, client.Admin)
				if len(faults) > 0 {
					t.Fatalf("faults %v", faults)
				}
				var final admin.PermanentError
				if err != nil && (errors.As(err, &final) || kafka.ClassOf(err) == kafka.Fatal) || err == nil && len(found) != 1 {
					t.Fatalf("%v, %v", found, err)
				}
			}
		})
	}
}
