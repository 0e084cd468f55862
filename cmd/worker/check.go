package main

import (
	"cmp"
	"context"
	"time"

	"odradek/cmd/internal/admin"
)

func (t terminal) check(ctx context.Context, args []string) int {
	fs := t.flags("check", `Names every fault of the configuration at once. With -online it also asks the cluster and the schema registry:
brokers, TLS and SASL, topics, permissions, retention against the replay limit, schemas, live records and whether they
will have scores, and whether workers can continue from the stored state. It writes nothing. Exits with 1 if there is a
fault: run does not start with it, unless the fault says that it does. run makes the same checks at its start, but for
the scores and the stored state.`,
		"  worker check\n  worker check -online\n  worker check -online -json | jq 'select(.level != \"ok\")'\n"+
			"  worker check -acls -principal User:worker | bash")
	online := fs.Bool("online", false, "ask the cluster and the schema registry, too")
	asJSON := fs.Bool("json", false, "print one JSON object a line")
	timeout := fs.Duration("timeout", 30*time.Second, "time limit of -online")
	acls := fs.Bool("acls", false, "print in place of the checks the least permissions that run needs, as commands of Kafka's kafka-acls")
	principal := fs.String("principal", "", "principal of -acls, as User:worker; default: the one of ODRADEK_KAFKA_USERNAME")
	if code, done := parse(fs, args); done {
		return code
	}
	if *acls {
		c, code, ok := t.configFor("KAFKA_", "GROUP", "TOPICS")
		if ok {
			admin.PrintACLs(t.out, c, cmp.Or(*principal, "User:"+cmp.Or(c.Kafka.Username, "worker")))
		}
		return code
	}
	var r admin.Report
	c := admin.Offline(&r, t.environ, checkExecutor)
	if *online {
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		admin.Online(ctx, &r, c)
	}
	if *asJSON {
		if err := r.PrintJSON(t.out); err != nil {
			return t.fail(err)
		}
	} else {
		r.Print(t.out)
	}
	if r.Faulty() {
		return exitFailed
	}
	return exitOK
}
