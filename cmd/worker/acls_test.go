package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"odradek/cmd/internal/admin"
	"odradek/cmd/internal/config"
	"odradek/processor/kafka"
	"odradek/processor/kafkatest"
)

// aclKinds are the protocol's resources.
var aclKinds = map[kafka.Resource]kmsg.ACLResourceType{kafka.ResourceTopic: kmsg.ACLResourceTypeTopic,
	kafka.ResourceGroup: kmsg.ACLResourceTypeGroup, kafka.ResourceTransactionalID: kmsg.ACLResourceTypeTransactionalId}

// setACL allows, or no longer allows, what a says.
func setACL(t *testing.T, c *kafkatest.Cluster, user string, a *admin.ACL, allow bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pattern := kmsg.ACLResourcePatternTypeLiteral
	if a.Prefix {
		pattern = kmsg.ACLResourcePatternTypePrefixed
	}
	user, host, op := "User:"+user, "*", kmsg.ACLOperation(a.Operation)
	if !allow {
		req := kmsg.NewPtrDeleteACLsRequest()
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName, f.ResourcePatternType = aclKinds[a.Kind], &a.Name, pattern
		f.Principal, f.Host, f.Operation, f.PermissionType = &user, &host, op, kmsg.ACLPermissionTypeAllow
		req.Filters = append(req.Filters, f)
		res, err := req.RequestWith(ctx, c.Admin().Client())
		if err != nil || len(res.Results) != 1 || len(res.Results[0].MatchingACLs) != 1 {
			t.Fatalf("remove %+v: %v, %+v", a, err, res)
		}
		return
	}
	req := kmsg.NewPtrCreateACLsRequest()
	n := kmsg.NewCreateACLsRequestCreation()
	n.ResourceType, n.ResourceName, n.ResourcePatternType = aclKinds[a.Kind], a.Name, pattern
	n.Principal, n.Host, n.Operation, n.PermissionType = user, host, op, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, n)
	res, err := req.RequestWith(ctx, c.Admin().Client())
	if err != nil || res.Results[0].ErrorCode != 0 {
		t.Fatalf("add %+v: %v, %+v", a, err, res)
	}
}

// TestACLs: on brokers that allow nothing else a worker does all its work with the permissions that check -acls prints, and with one
// of them less check -online reports a fault.
func TestACLs(t *testing.T) {
	kafkatest.SkipAsked(t, "kafka")
	c, err := kafkatest.StartKafka(t.Context(), kafkatest.Options{Nodes: 1, SASL: true,
		Config: map[string]string{"allow.everyone.if.no.acl.found": "false"}})
	if err != nil {
		kafkatest.Missing(t, "kafka", err)
	}
	t.Cleanup(c.Close)
	input := kafkatest.Unique("in")
	term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
	args := strings.Fields("-topic " + input + " -partitions 2 -replication 1 -sensors 5 -records 500")
	if code := term.generate(t.Context(), args); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	u := c.Security.User(kafkatest.ScramSHA256)
	f := &fleet{t: t, c: c, input: input, group: "plant", dir: t.TempDir(), env: []string{"FORMAT=json",
		"KAFKA_BROKERS=" + strings.Join(c.Security.SASLBrokers, ","), "KAFKA_TLS=true", "KAFKA_TLS_CA_FILE=" + c.Security.CAFile,
		"KAFKA_SASL_MECHANISM=" + u.Mechanism, "KAFKA_USERNAME=" + u.Name, "KAFKA_PASSWORD=" + u.Password}}
	parsed, faults, _ := config.Parse(f.settings())
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	list := admin.ACLs(parsed)
	for i := range list {
		if list[i].Optional == "" {
			setACL(t, c, u.Name, &list[i], true)
		}
	}
	// check waits until check -online exits with a code: permissions reach the brokers a little later.
	check := func(what string, want int) {
		t.Helper()
		var code int
		var said string
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			term, out, _ := console(f.settings()...)
			if code = term.check(t.Context(), []string{"-online"}); code == want {
				return
			}
			said = out.String()
		}
		t.Errorf("%s: exit %d, want %d: %s", what, code, want, said)
	}
	without := func(is func(op kafka.Operation) bool) {
		t.Helper()
		check("with all", exitOK)
		for i := range list {
			if a := &list[i]; a.Optional == "" && is(a.Operation) {
				setACL(t, c, u.Name, a, false)
				check(fmt.Sprintf("without %v of %s", a.Operation, a.Name), exitFailed)
				setACL(t, c, u.Name, a, true)
			}
		}
		check("with all again", exitOK)
	}
	without(func(op kafka.Operation) bool { return op == kafka.OpCreate })
	w := f.start("least")
	defer w.kill()
	w.waitReady(t)
	f.waitDone()
	if code := w.drain(t); code != exitOK {
		t.Errorf("drain ended with %d", code)
	}
	if recs, err := c.Admin().ReadAll(t.Context(), "plant-scores", true); err != nil || len(recs) == 0 {
		t.Errorf("%d scores, %v", len(recs), err)
	}
	without(func(op kafka.Operation) bool { return op != kafka.OpCreate })
}

// TestPrintACLs: the commands are a shell's, and name patterns by their prefix.
func TestPrintACLs(t *testing.T) {
	term, out, errs := console("ODRADEK_GROUP=plant", "ODRADEK_TOPICS=sensors,site-*", "ODRADEK_KAFKA_BROKERS=one:9092", "ODRADEK_FORMAT=json",
		"ODRADEK_CREATE_TOPICS=false")
	if code := term.check(t.Context(), []string{"-acls", "-principal", "User:CN=worker"}); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	const add = "kafka-acls.sh --bootstrap-server one:9092 --add --allow-principal 'User:CN=worker' "
	for _, want := range []string{add + "--topic 'sensors' --operation Read\n",
		add + "--topic 'site-' --resource-pattern-type prefixed --operation Read\n",
		add + "--group 'plant' --operation Read\n", add + "--transactional-id 'plant-' --resource-pattern-type prefixed --operation Write\n",
		add + "--topic 'plant-scores' --operation Write\n", add + "--topic 'plant-sensors-changelog' --operation Read --operation Write\n",
		add + "--topic 'plant-site-' --resource-pattern-type prefixed --operation Read --operation Write\n",
		add + "--topic 'plant-feedback' --operation Read # optional: without it no mute is in force\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "Create") {
		t.Errorf("creates topics:\n%s", out)
	}
	sh := exec.Command("bash", "-n")
	sh.Stdin = strings.NewReader(out.String())
	if b, err := sh.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, b)
	}
}
