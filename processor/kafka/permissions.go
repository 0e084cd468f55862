package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// Operation is what an ACL allows on a resource, numbered as in the protocol
// (org.apache.kafka.common.acl.AclOperation).
type Operation uint8

// The operations that a worker needs on some resource.
const (
	OpRead            Operation = 3
	OpWrite           Operation = 4
	OpCreate          Operation = 5
	OpDelete          Operation = 6
	OpAlter           Operation = 7
	OpDescribe        Operation = 8
	OpClusterAction   Operation = 9
	OpDescribeConfigs Operation = 10
	OpAlterConfigs    Operation = 11
	OpIdempotentWrite Operation = 12
)

var operationNames = map[Operation]string{
	OpRead: "Read", OpWrite: "Write", OpCreate: "Create", OpDelete: "Delete", OpAlter: "Alter",
	OpDescribe: "Describe", OpClusterAction: "ClusterAction", OpDescribeConfigs: "DescribeConfigs",
	OpAlterConfigs: "AlterConfigs", OpIdempotentWrite: "IdempotentWrite",
}

// String returns the name that kafka-acls uses.
func (o Operation) String() string {
	if n, ok := operationNames[o]; ok {
		return n
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Operations is a set of operations that the client may do on something
// (KIP-430). Without Known the broker has not said.
type Operations struct {
	Known bool
	bits  uint32
}

// Has reports whether o is in the set; false when the set is not known.
func (op Operations) Has(o Operation) bool { return op.Known && op.bits&(1<<o) != 0 }

// String lists the operations.
func (op Operations) String() string {
	if !op.Known {
		return "unknown"
	}
	var names []string
	for o := range operationNames {
		if op.Has(o) {
			names = append(names, o.String())
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func operations(bits int32) Operations {
	if bits == math.MinInt32 { // what brokers send for "not asked for"
		return Operations{}
	}
	return Operations{Known: true, bits: uint32(bits)}
}

// Resource is a kind of thing that ACLs are about.
type Resource uint8

// The resources whose operations a worker asks about.
const (
	ResourceTopic Resource = iota
	ResourceGroup
	ResourceCluster         // its name is not used
	ResourceTransactionalID // only Describe can be found out without touching the id
)

// operationsSince returns the operations that a response names, unknown ones where the broker supports the
// API only in versions before the one given, and leaves the field at zero.
func operationsSince(c *Cluster, api protocol.ApiKey, version int16, bits int32) Operations {
	if c.transport.newest(api) < version {
		return Operations{}
	}
	return operations(bits)
}

// Permissions is the part of a Client that finds out what the client may do.
type Permissions struct {
	cluster      *Cluster
	admin        *Admin
	coordinators *coordinators
}

// Operations returns what the client may do on a topic, a group, the cluster or a
// transactional id. It changes nothing. Of a transactional id only Describe can be
// found out; whether the client may also write to it shows at Producer.Init.
func (p *Permissions) Operations(ctx context.Context, kind Resource, name string) (Operations, error) {
	switch kind {
	case ResourceTopic:
		infos, err := p.admin.Topics(ctx, name)
		if err != nil {
			return Operations{}, err
		}
		if !infos[name].Authorized {
			return Operations{Known: true}, nil // not even Describe
		}
		return infos[name].Operations, nil
	case ResourceCluster:
		m, err := p.cluster.roundTrip(ctx, -1, &metadata.Request{TopicNames: []string{}, IncludeClusterAuthorizedOperations: true})
		if err != nil {
			return Operations{}, err
		}
		return operationsSince(p.cluster, protocol.Metadata, 8, m.(*metadata.Response).ClusterAuthorizedOperations), nil
	case ResourceGroup:
		return p.groupOperations(ctx, name)
	case ResourceTransactionalID:
		p.coordinators.forget(txnCoordinator, name)
		switch _, err := p.coordinators.findWithin(ctx, txnCoordinator, name); {
		case errors.Is(err, kafkago.TransactionalIDAuthorizationFailed):
			return Operations{Known: true}, nil
		case err != nil:
			return Operations{}, err
		}
		return Operations{Known: true, bits: 1 << OpDescribe}, nil
	}
	return Operations{}, fmt.Errorf("kafka: operations of resource kind %d", kind)
}

func (p *Permissions) groupOperations(ctx context.Context, group string) (Operations, error) {
	delay := newBackoff(10*time.Millisecond, 500*time.Millisecond)
	for {
		id, err := p.coordinators.findWithin(ctx, groupCoordinator, group)
		var m protocol.Message
		if err == nil {
			m, err = p.cluster.roundTrip(ctx, id, &describegroups.Request{Groups: []string{group}, IncludeAuthorizedOperations: true})
		}
		if err == nil {
			for _, g := range m.(*describegroups.Response).Groups {
				switch code := kafkago.Error(g.ErrorCode); code {
				case 0, kafkago.GroupIdNotFound:
					return operationsSince(p.cluster, protocol.DescribeGroups, 3, g.AuthorizedOperations), nil
				default:
					err = fmt.Errorf("kafka: describe group %q: %w", group, code)
				}
			}
		}
		switch {
		case errors.Is(err, kafkago.GroupAuthorizationFailed):
			return Operations{Known: true}, nil
		case err == nil:
			return Operations{}, fmt.Errorf("kafka: describe group %q: missing from the broker's response", group)
		case !p.coordinators.retry(groupCoordinator, group, err) || delay.Wait(ctx) != nil:
			return Operations{}, err
		}
	}
}
