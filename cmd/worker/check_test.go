package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
	"odradek/schemas/output"
)

func TestCheckOffline(t *testing.T) {
	for _, c := range []struct {
		name    string
		environ []string
		code    int
		want    []string
	}{
		{"fine", minimal(), exitOK, []string{"ok  configuration"}},
		{"unknown name is a fault here", minimal("ODRADEK_TOPIC=x"), exitFailed, []string{"fault", "did you mean ODRADEK_TOPICS?"}},
		{"every fault", []string{"ODRADEK_START=x", "ODRADEK_WORKERS=-1"}, exitFailed,
			[]string{"ODRADEK_GROUP", "ODRADEK_TOPICS", "ODRADEK_START", "ODRADEK_WORKERS", "ODRADEK_SCHEMA_FILE"}},
		{"warnings", minimal("ODRADEK_KAFKA_SASL_MECHANISM=PLAIN", "ODRADEK_KAFKA_USERNAME=u", "ODRADEK_KAFKA_PASSWORD=p",
			"ODRADEK_GUARANTEE=at_least_once"),
			exitOK, []string{"PLAIN without TLS sends", "dedupe scores by source"}},
	} {
		term, out, _ := console(c.environ...)
		if code := term.check(context.Background(), nil); code != c.code {
			t.Errorf("%s: exit %d\n%s", c.name, code, out)
		}
		for _, w := range c.want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: lacks %q\n%s", c.name, w, out)
			}
		}
		term, out, _ = console(c.environ...)
		term.check(context.Background(), []string{"-json"})
		for line := range strings.SplitSeq(strings.TrimSpace(out.String()), "\n") {
			var f admin.Finding
			if err := json.Unmarshal([]byte(line), &f); err != nil || f.Level == "" || f.What == "" {
				t.Errorf("%s: %q: %v", c.name, line, err)
			}
			var names map[string]any // Unmarshal into a struct takes any case
			if err := json.Unmarshal([]byte(line), &names); err != nil || names["level"] != string(f.Level) || names["what"] != f.What {
				t.Errorf("%s: %q has no fields level and what: %v", c.name, line, err)
			}
		}
	}
}

func TestCheckOfASchemaFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.avsc")
	os.WriteFile(file, []byte(output.ReadingSchema), 0o600)
	base := []string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=a", "ODRADEK_SCHEMA_FILE=" + file}
	if _, faults, _ := config.Parse(append(base, "ODRADEK_KEY_FIELD=sensor", "ODRADEK_TIME_FIELD=time")); len(faults) != 0 {
		t.Errorf("faults %v", faults)
	}
	_, faults, _ := config.Parse(append(base, "ODRADEK_KEY_FIELD=sensro", "ODRADEK_VALUE_FIELDS=value,site.plant"))
	if len(faults) != 1 || faults[0].Name != "ODRADEK_SCHEMA_FILE" || !strings.Contains(faults[0].Problem, "sensro") ||
		!strings.Contains(faults[0].Problem, "site.plant") {
		t.Errorf("faults %v", faults)
	}
	_, faults, _ = config.Parse(append(base, "ODRADEK_KEY_FIELD=a..b", "ODRADEK_TIME_FIELD=t[", "ODRADEK_VALUE_FIELDS=x[]"))
	if got := strings.Join(names(faults), " "); got != "KEY_FIELD TIME_FIELD VALUE_FIELDS" {
		t.Errorf("faults %v", faults)
	}
}

// checkFixture returns a topic with generated records.
func checkFixture(t *testing.T, c *kafkatest.Cluster, more ...string) (topic string, environ []string) {
	t.Helper()
	topic = kafkatest.Unique("check")
	environ = []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t)}
	term, _, errs := console(environ...)
	if code := term.generate(context.Background(),
		[]string{"-topic", topic, "-partitions", "4", "-replication", "1", "-sensors", "20", "-records", "6000", "-fault-every",
			"100"}); code != exitOK {
		t.Fatalf("generate: %s", errs)
	}
	return topic, append(environ, append([]string{"ODRADEK_GROUP=" + topic + "-g", "ODRADEK_TOPICS=" + topic,
		"ODRADEK_TIME_FIELD=time"}, more...)...)
}

func runCheck(t *testing.T, environ []string) (int, string) {
	t.Helper()
	term, out, errs := console(environ...)
	code := term.check(context.Background(), []string{"--online", "-timeout", "20s"})
	return code, out.String() + errs.String()
}

func TestCheckOnline(t *testing.T) { realCluster(t, testCheckOnline) }

func testCheckOnline(t *testing.T, c *kafkatest.Cluster) {
	topic, environ := checkFixture(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	expect := func(what string, wantCode int, environ []string, want ...string) {
		t.Helper()
		code, out := runCheck(t, environ)
		if code != wantCode {
			t.Errorf("%s: exit %d\n%s", what, code, out)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: lacks %q\n%s", what, w, out)
			}
		}
	}
	with := func(more ...string) []string { return append(append([]string(nil), environ...), more...) }

	expect("fine", exitOK, environ, "brokers", "reached", "has all mapped fields", "100 checked, all can be read", topic+"-g-anomalies",
		"will be created", "may be joined")
	if _, out := runCheck(t, with("ODRADEK_ANOMALIES=false")); strings.Contains(out, "-anomalies") {
		t.Errorf("without anomalies their topic is asked for\n%s", out)
	}
	expect("missing topic", exitFailed, with("ODRADEK_TOPICS="+topic+",nowhere"), "topic nowhere", "does not exist")
	expect("missing field", exitFailed, with("ODRADEK_VALUE_FIELDS=valeu"), "valeu", "missing_field")
	expect("no creation", exitFailed, with("ODRADEK_CREATE_TOPICS=false"), "ODRADEK_CREATE_TOPICS is false")
	expect("other key", exitOK, with("ODRADEK_KEY_FIELD=site.plant+sensor"), "record key that is not the series key", "ODRADEK_REKEY=true")
	expect("scattered series", exitFailed, with("ODRADEK_KEY_FIELD=site.plant"), "a series lies in several partitions", "ODRADEK_REKEY=true")
	expect("rekey", exitOK, with("ODRADEK_KEY_FIELD=site.plant", "ODRADEK_REKEY=true", "ODRADEK_LATENESS=1m"), "-rekey")
	expect("no broker", exitFailed, with("ODRADEK_KAFKA_BROKERS=127.0.0.1:1"), "ODRADEK_KAFKA_BROKERS")
	expect("no registry", exitFailed, with("ODRADEK_SCHEMA_REGISTRY_URL=http://127.0.0.1:1"), "schema registry", "ODRADEK_SCHEMA_REGISTRY_URL")

	if err := c.Admin().SetTopicConfig(ctx, topic, map[string]string{"retention.ms": "40000"}); err != nil {
		t.Fatal(err)
	}
	expect("retention", exitFailed, environ, "keeps records for 40s", "ODRADEK_REPLAY_LIMIT")
	if err := c.Admin().SetTopicConfig(ctx, topic, map[string]string{"retention.ms": "604800000", "retention.bytes": "1000000"}); err != nil {
		t.Fatal(err)
	}
	expect("retention by size", exitOK, environ, "keeps 1000000 bytes a partition")
	if err := c.Admin().SetTopicConfig(ctx, topic, map[string]string{"retention.bytes": "-1"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin().CreateTopic(ctx, config.ChangelogName(topic+"-g-", topic), 3, 1,
		map[string]string{"cleanup.policy": "delete"}); err != nil {
		t.Fatal(err)
	}
	expect("changelog", exitFailed, environ, "it has 4 partitions and its changelog", "has 3; keys may have moved",
		"worker state reset -topic "+topic, "deletes state by age")

	// Every other record is rubbish, and some have no key.
	var recs []kafkatest.Record
	for i := range 40 {
		r := kafkatest.Record{Topic: topic, Partition: int32(i % 4), Value: []byte("rubbish")}
		recs = append(recs, r)
	}
	if _, err := c.ProduceAcked(ctx, recs); err != nil {
		t.Fatal(err)
	}
	if _, out := runCheck(t, environ); !strings.Contains(out, "would be dead letters (magic)") || !strings.Contains(out, " at offset ") {
		t.Errorf("rubbish: %s", out)
	}
}

// The right password gets in, a wrong one is named as that, and neither is shown.
func TestCheckWrongPassword(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{SASL: true})
	u := c.Security.User(kafkatest.ScramSHA256)
	environ := []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=g", "ODRADEK_TOPICS=nowhere",
		"ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t), "ODRADEK_KAFKA_SASL_MECHANISM=" + u.Mechanism, "ODRADEK_KAFKA_USERNAME=" + u.Name,
		"ODRADEK_KAFKA_TLS=true", "ODRADEK_KAFKA_TLS_CA_FILE=" + c.Security.CAFile}
	if _, out := runCheck(t, append(environ, "ODRADEK_KAFKA_PASSWORD="+u.Password)); !strings.Contains(out, "SASL SCRAM-SHA-256 as "+u.Name) ||
		strings.Contains(out, u.Password) {
		t.Errorf("right password: %s", out)
	}
	code, out := runCheck(t, append(environ, "ODRADEK_KAFKA_PASSWORD=wrongpassword1"))
	if code != exitFailed || !strings.Contains(out, "refused user name or password") || strings.Contains(out, "wrongpassword1") {
		t.Errorf("wrong password: exit %d, %s", code, out)
	}
}

// Every missing permission is named with what to allow to whom.
func TestCheckPermissions(t *testing.T) {
	grant := func(r kmsg.ACLResourceType, name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: r, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	c := kafkatest.Fake(t, kafkatest.FakeOptions{SASL: true, Opts: []kfake.Opt{
		kfake.EnableACLs(),
		kfake.User("PLAIN", "poor", "poor1234",
			grant(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribe),
			grant(kmsg.ACLResourceTypeTopic, "in", kmsg.ACLOperationDescribeConfigs),
			grant(kmsg.ACLResourceTypeTopic, "g-dlq", kmsg.ACLOperationDescribe),
			grant(kmsg.ACLResourceTypeGroup, "g", kmsg.ACLOperationDescribe)),
	}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, topic := range []string{"in", "hidden", "g-dlq"} {
		if err := c.Admin().CreateTopic(ctx, topic, 2, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	code, out := runCheck(t, []string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=g", "ODRADEK_TOPICS=in,hidden",
		"ODRADEK_SCHEMA_REGISTRY_URL=" + c.RegistryURL(t), "ODRADEK_KAFKA_SASL_MECHANISM=PLAIN", "ODRADEK_KAFKA_USERNAME=poor",
		"ODRADEK_KAFKA_PASSWORD=poor1234", "ODRADEK_KAFKA_TLS=true", "ODRADEK_KAFKA_TLS_CA_FILE=" + c.Security.CAFile})
	if code != exitFailed {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"topic in", "reading it is not permitted -> allow Read to User:poor",
		"topic hidden", "may not be described -> allow Describe and Read to User:poor",
		"topic g-dlq", "writing it is not permitted -> allow Write to User:poor",
		"topic g-feedback", "so no mute is in force -> allow Describe and Read to User:poor",
		"group g", "joining it is not permitted -> allow Read to User:poor",
		"transactional id g-", `begin with "g-" to User:poor`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q", want)
		}
	}
	if t.Failed() || testing.Verbose() {
		t.Log("\n" + out)
	}
}

func names(faults []config.Fault) []string {
	var out []string
	for _, f := range faults {
		out = append(out, strings.TrimPrefix(f.Name, config.Prefix))
	}
	return out
}
