package admin

import (
	"fmt"
	"io"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
)

// ACL allows an operation on a resource.
type ACL struct {
	Kind      kafka.Resource
	Name      string
	Prefix    bool // all resources whose names begin with Name
	Operation kafka.Operation
	Optional  string // what does not work without it; empty: the worker does not start
}

// ACLs returns what run needs, and no more: Kafka's Read, Write and Alter imply Describe.
func ACLs(c *config.Config) (list []ACL) {
	add := func(kind kafka.Resource, name string, ops ...kafka.Operation) {
		for _, op := range ops {
			list = append(list, ACL{Kind: kind, Name: name, Operation: op})
		}
	}
	optional := func(name, without string, op kafka.Operation) {
		list = append(list, ACL{Kind: kafka.ResourceTopic, Name: name, Operation: op, Optional: without})
	}
	written := []kafka.Operation{kafka.OpWrite}
	if c.Output.CreateTopics {
		written = append(written, kafka.OpCreate)
	}
	for _, topic := range c.Group.Topics {
		from := len(list)
		add(kafka.ResourceTopic, topic, kafka.OpRead)
		optional(topic, "retention and the largest record are not checked", kafka.OpDescribeConfigs)
		if i := strings.IndexAny(topic, "*?"); i >= 0 {
			for k := range list[from:] {
				list[from+k].Name, list[from+k].Prefix = topic[:i], i > 0
				if i == 0 {
					list[from+k].Name = "*"
				}
			}
		}
	}
	for _, group := range c.Groups() {
		add(kafka.ResourceGroup, group, kafka.OpRead)
	}
	if c.Cycle.Guarantee == "exactly_once" {
		for _, group := range c.Groups() {
			if c.Group.InstanceID != "" {
				add(kafka.ResourceTransactionalID, processor.TransactionalID(group, c.Group.InstanceID), kafka.OpWrite)
				continue
			}
			add(kafka.ResourceTransactionalID, group+"-", kafka.OpWrite)
			list[len(list)-1].Prefix = true
		}
	}
	for i, name := range c.OutputTopics() {
		switch {
		case name == "":
			continue
		case cycle.Output(i) == cycle.Rekeyed:
			add(kafka.ResourceTopic, name, kafka.OpRead)
		}
		add(kafka.ResourceTopic, name, written...)
	}
	scored := c.Group.Topics // patterns too, whether or not a topic matches yet
	if c.Cycle.Rekey {
		scored = c.Scored()
	}
	for _, topic := range scored {
		name := c.ChangelogTopic(topic)
		from := len(list)
		add(kafka.ResourceTopic, name, append([]kafka.Operation{kafka.OpRead}, written...)...)
		optional(name, "the worker does not start after the topic has grown", kafka.OpAlter)
		if i := strings.IndexAny(name, "*?"); i >= 0 {
			for k := range list[from:] {
				list[from+k].Name, list[from+k].Prefix = name[:i], true
			}
		}
	}
	if c.Detect.Feedback != config.Off && c.Detect.Anomalies {
		optional(c.Detect.Feedback, "no mute is in force", kafka.OpRead)
	}
	return list
}

// aclFlags are the flags of kafka-acls by kind of resource.
var aclFlags = map[kafka.Resource]string{kafka.ResourceTopic: "--topic", kafka.ResourceGroup: "--group",
	kafka.ResourceTransactionalID: "--transactional-id"}

// PrintACLs prints commands of Kafka's kafka-acls that allow a principal what run needs, one for each resource, and after a # what
// does not work without it.
func PrintACLs(w io.Writer, c *config.Config, principal string) {
	list := ACLs(c)
	for i := 0; i < len(list); {
		a := list[i]
		fmt.Fprintf(w, "kafka-acls.sh --bootstrap-server %s --add --allow-principal '%s' %s '%s'", c.Kafka.Brokers[0], principal,
			aclFlags[a.Kind], a.Name)
		if a.Prefix {
			fmt.Fprint(w, " --resource-pattern-type prefixed")
		}
		for ; i < len(list) && list[i].Kind == a.Kind && list[i].Name == a.Name && list[i].Optional == a.Optional; i++ {
			fmt.Fprintf(w, " --operation %s", list[i].Operation)
		}
		if a.Optional != "" {
			fmt.Fprintf(w, " # optional: without it %s", a.Optional)
		}
		fmt.Fprintln(w)
	}
}
