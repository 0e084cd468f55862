package kafkatest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TP names a partition.
type TP struct {
	Topic     string
	Partition int32
}

// Admin creates and describes topics, groups and ACLs, and reads topics back, with franz-go.
type Admin struct {
	cl   *kgo.Client
	open func() (*kgo.Client, error) // another client like cl
}

// NewAdmin returns a client; options may add TLS and SASL.
func NewAdmin(brokers []string, opts ...kgo.Opt) (*Admin, error) {
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RequestTimeoutOverhead(5 * time.Second),
		kgo.RetryTimeout(20 * time.Second),
		kgo.DialTimeout(5 * time.Second),
	}, opts...)
	open := func() (*kgo.Client, error) { return kgo.NewClient(opts...) }
	cl, err := open()
	if err != nil {
		return nil, err
	}
	return &Admin{cl, open}, nil
}

// Close ends the client.
func (a *Admin) Close() { a.cl.Close() }

// Client returns the client below, for requests that have no method here.
func (a *Admin) Client() *kgo.Client { return a.cl }

func failed(what string, code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil {
		return nil
	}
	if message != nil {
		return fmt.Errorf("kafkatest: %s: %w: %s", what, err, *message)
	}
	return fmt.Errorf("kafkatest: %s: %w", what, err)
}

// Nodes returns the ids of the brokers that the cluster counts in, in order.
func (a *Admin) Nodes(ctx context.Context) ([]int32, error) {
	m, err := a.metadata(ctx)
	if err != nil {
		return nil, err
	}
	var ids []int32
	for _, b := range m.Brokers {
		ids = append(ids, b.NodeID)
	}
	slices.Sort(ids)
	return ids, nil
}

// SetFeature finalizes a feature of the cluster at a level, down from the present one or up.
func (a *Admin) SetFeature(ctx context.Context, name string, level int16, down bool) error {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.AllowDowngrade, update.UpgradeType = name, level, down, 1
	if down {
		update.UpgradeType = 2 // safe
	}
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	res, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: feature %s: %w", name, err)
	}
	code, message := res.ErrorCode, res.ErrorMessage
	for _, r := range res.Results {
		if code == 0 {
			code, message = r.ErrorCode, r.ErrorMessage
		}
	}
	return failed("feature "+name, code, message)
}

func (a *Admin) metadata(ctx context.Context, topics ...string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, t := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, rt)
	}
	m, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return nil, fmt.Errorf("kafkatest: metadata: %w", err)
	}
	return m, nil
}

// CreateTopic creates a topic and waits until every partition has a leader. A
// replication of 0 takes the cluster's default. Unless configs say otherwise nothing is
// deleted for its age: the records that are replayed are years old.
func (a *Admin) CreateTopic(ctx context.Context, name string, partitions, replication int, configs map[string]string) error {
	if replication == 0 {
		replication = -1
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(partitions), int16(replication)
	all := map[string]string{"retention.ms": "-1"}
	maps.Copy(all, configs)
	for k, v := range all {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: create topic %s: %w", name, err)
	}
	for _, t := range r.Topics {
		if err := failed("create topic "+name, t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	return a.waitPartitions(ctx, name, partitions)
}

// waitPartitions waits until every node knows that number of partitions with leaders.
func (a *Admin) waitPartitions(ctx context.Context, name string, partitions int) error {
	return poll(ctx, 20*time.Millisecond, nil, func(ctx context.Context) error {
		// Each node learns of it on its own; a client may ask any of them.
		nodes, err := a.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, id := range nodes {
			req := kmsg.NewPtrMetadataRequest()
			rt := kmsg.NewMetadataRequestTopic()
			rt.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, rt)
			m, err := req.RequestWith(ctx, a.cl.Broker(int(id)))
			if err != nil {
				return err
			}
			for _, t := range m.Topics {
				if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
					return err
				}
				if len(t.Partitions) != partitions {
					return fmt.Errorf("node %d: %d of %d partitions", id, len(t.Partitions), partitions)
				}
				for _, p := range t.Partitions {
					if p.ErrorCode != 0 || p.Leader < 0 {
						return fmt.Errorf("node %d: partition %d: no leader", id, p.Partition)
					}
				}
			}
		}
		return nil
	})
}

// DeleteTopic deletes a topic.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames = []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	req.Topics = append(req.Topics, t)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: delete topic %s: %w", name, err)
	}
	for _, t := range r.Topics {
		if err := failed("delete topic "+name, t.ErrorCode, t.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// AddPartitions grows a topic to total partitions.
func (a *Admin) AddPartitions(ctx context.Context, topic string, total int) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, int32(total)
	req.Topics = append(req.Topics, t)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: add partitions to %s: %w", topic, err)
	}
	if err := failed("add partitions to "+topic, r.Topics[0].ErrorCode, r.Topics[0].ErrorMessage); err != nil {
		return err
	}
	return a.waitPartitions(ctx, topic, total)
}

// DeleteRecords deletes the records of a partition before an offset, as
// retention would.
func (a *Admin) DeleteRecords(ctx context.Context, topic string, partition int32, before int64) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = partition, before
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: delete records of %s: %w", topic, err)
	}
	return failed("delete records of "+topic, r.Topics[0].Partitions[0].ErrorCode, nil)
}

// SetTopicConfig changes a topic's configuration and waits until every node
// knows of it.
func (a *Admin) SetTopicConfig(ctx context.Context, topic string, configs map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for k, v := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = k, kmsg.StringPtr(v)
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: configure %s: %w", topic, err)
	}
	if err := failed("configure "+topic, r.Resources[0].ErrorCode, r.Resources[0].ErrorMessage); err != nil {
		return err
	}
	return poll(ctx, 20*time.Millisecond, nil, func(ctx context.Context) error {
		nodes, err := a.Nodes(ctx)
		if err != nil {
			return err
		}
		for _, id := range nodes {
			req := kmsg.NewPtrDescribeConfigsRequest()
			res := kmsg.NewDescribeConfigsRequestResource()
			res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, topic
			req.Resources = append(req.Resources, res)
			r, err := req.RequestWith(ctx, a.cl.Broker(int(id)))
			if err != nil {
				return err
			}
			for _, c := range r.Resources[0].Configs {
				if want, ok := configs[c.Name]; ok && (c.Value == nil || *c.Value != want) {
					return fmt.Errorf("node %d does not know the new %s", id, c.Name)
				}
			}
		}
		return nil
	})
}

// waitReplicated waits until each partition has a leader and all of its
// replicas in sync.
func (a *Admin) waitReplicated(ctx context.Context) error {
	return poll(ctx, 100*time.Millisecond, nil, func(ctx context.Context) error {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = nil // all
		m, err := req.RequestWith(ctx, a.cl)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					return fmt.Errorf("%s/%d: leader %d, %d of %d replicas in sync", *t.Topic, p.Partition, p.Leader, len(p.ISR), len(p.Replicas))
				}
			}
		}
		return nil
	})
}

// Partition is one partition's place in the cluster.
type Partition struct {
	ID, Leader    int32
	Replicas, ISR []int32
}

// Partitions returns a topic's partitions in order.
func (a *Admin) Partitions(ctx context.Context, topic string) ([]Partition, error) {
	m, err := a.metadata(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := failed("topic "+topic, m.Topics[0].ErrorCode, nil); err != nil {
		return nil, err
	}
	var ps []Partition
	for _, p := range m.Topics[0].Partitions {
		ps = append(ps, Partition{p.Partition, p.Leader, p.Replicas, p.ISR})
	}
	sort.Slice(ps, func(i, j int) bool { return ps[i].ID < ps[j].ID })
	return ps, nil
}

// moveLeader puts the node first among the partition's replicas and elects it.
func (a *Admin) moveLeader(ctx context.Context, topic string, partition, node int32) error {
	ps, err := a.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	if int(partition) >= len(ps) || !slices.Contains(ps[partition].Replicas, node) {
		return fmt.Errorf("kafkatest: move leader: %s/%d has no replica on node %d", topic, partition, node)
	}
	order := []int32{node}
	for _, r := range ps[partition].Replicas {
		if r != node {
			order = append(order, r)
		}
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, order
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: move leader: %w", err)
	}
	if err := failed("move leader", r.ErrorCode, r.ErrorMessage); err != nil {
		return err
	}
	if err := failed("move leader", r.Topics[0].Partitions[0].ErrorCode, r.Topics[0].Partitions[0].ErrorMessage); err != nil {
		return err
	}
	return poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
		req := kmsg.NewPtrElectLeadersRequest()
		et := kmsg.NewElectLeadersRequestTopic()
		et.Topic, et.Partitions = topic, []int32{partition}
		req.Topics = append(req.Topics, et)
		if _, err := req.RequestWith(ctx, a.cl); err != nil {
			return err
		}
		ps, err := a.Partitions(ctx, topic)
		if err != nil {
			return err
		}
		if ps[partition].Leader != node {
			return fmt.Errorf("leader is %d", ps[partition].Leader)
		}
		return nil
	})
}

// Where a partition's log may be asked for.
const (
	Earliest      int64 = iota // the first offset still there
	HighWatermark              // after the last replicated record
	LastStable                 // before the first record of an open transaction
)

// Ends returns an offset of each of a topic's partitions: Earliest,
// HighWatermark or LastStable.
func (a *Admin) Ends(ctx context.Context, topic string, which int64) (map[int32]int64, error) {
	ps, err := a.Partitions(ctx, topic)
	if err != nil {
		return nil, err
	}
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range ps {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p.ID, -1
		if which == Earliest {
			rp.Timestamp = -2
		}
		t.Partitions = append(t.Partitions, rp)
	}
	if which == LastStable {
		req.IsolationLevel = 1
	}
	req.Topics = append(req.Topics, t)
	ends := make(map[int32]int64)
	for again := true; again; { // what a leader that was just elected does not know yet
		r, err := req.RequestWith(ctx, a.cl)
		if err != nil {
			return nil, fmt.Errorf("kafkatest: offsets of %s: %w", topic, err)
		}
		again = false
		for _, t := range r.Topics {
			for _, p := range t.Partitions {
				if err := failed(fmt.Sprintf("offset of %s/%d", topic, p.Partition), p.ErrorCode, nil); err != nil {
					if p.ErrorCode != kerr.OffsetNotAvailable.Code || ctx.Err() != nil {
						return nil, err
					}
					again = true
				}
				ends[p.Partition] = p.Offset
			}
		}
		if again {
			time.Sleep(50 * time.Millisecond)
		}
	}
	if len(ends) != len(ps) {
		return nil, fmt.Errorf("kafkatest: offsets of %s: %d of %d partitions answered", topic, len(ends), len(ps))
	}
	return ends, nil
}

// WaitStable waits until no transaction is open in the topics: until then a
// reader of committed records may see less than there is.
func (a *Admin) WaitStable(ctx context.Context, topics ...string) error {
	for _, topic := range topics {
		err := poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
			hw, err := a.Ends(ctx, topic, HighWatermark)
			if err != nil {
				return err
			}
			lso, err := a.Ends(ctx, topic, LastStable)
			if err != nil {
				return err
			}
			for p := range hw {
				if lso[p] < hw[p] {
					return fmt.Errorf("%s/%d: last stable offset %d, high watermark %d", topic, p, lso[p], hw[p])
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("kafkatest: open transactions: %w", err)
		}
	}
	return nil
}

// Coordinator returns the node that coordinates a group, or with txn a
// transactional id.
func (a *Admin) Coordinator(ctx context.Context, key string, txn bool) (int32, error) {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorKeys = key, []string{key}
	if txn {
		req.CoordinatorType = 1
	}
	node := int32(-1)
	err := poll(ctx, 50*time.Millisecond, nil, func(ctx context.Context) error {
		r, err := req.RequestWith(ctx, a.cl)
		if err != nil {
			return err
		}
		if len(r.Coordinators) == 1 {
			node = r.Coordinators[0].NodeID
			return failed("coordinator of "+key, r.Coordinators[0].ErrorCode, r.Coordinators[0].ErrorMessage)
		}
		node = r.NodeID
		return failed("coordinator of "+key, r.ErrorCode, r.ErrorMessage)
	})
	return node, err
}

// AddACL adds an ACL: it allows or denies a user ("plain-user", or
// "CN=client" by certificate) an operation on a resource. On the real clusters
// with secured listeners everyone may do everything with a resource that no ACL
// names, and only what an ACL allows with one that an ACL names. Clients of the plain
// listener may always do everything.
func (a *Admin) AddACL(ctx context.Context, user string, resource kmsg.ACLResourceType, name string, op kmsg.ACLOperation,
	allow bool,
) error {
	req := kmsg.NewPtrCreateACLsRequest()
	c := kmsg.NewCreateACLsRequestCreation()
	c.ResourceType, c.ResourceName, c.ResourcePatternType = resource, name, kmsg.ACLResourcePatternTypeLiteral
	c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+user, "*", op, kmsg.ACLPermissionTypeDeny
	if allow {
		c.PermissionType = kmsg.ACLPermissionTypeAllow
	}
	req.Creations = append(req.Creations, c)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: ACL: %w", err)
	}
	return failed("ACL", r.Results[0].ErrorCode, r.Results[0].ErrorMessage)
}

// DropACLs removes all ACLs of a resource.
func (a *Admin) DropACLs(ctx context.Context, resource kmsg.ACLResourceType, name string) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	f := kmsg.NewDeleteACLsRequestFilter()
	f.ResourceType, f.ResourceName, f.ResourcePatternType = resource, &name, kmsg.ACLResourcePatternTypeLiteral
	f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	req.Filters = append(req.Filters, f)
	r, err := req.RequestWith(ctx, a.cl)
	if err != nil {
		return fmt.Errorf("kafkatest: drop ACLs: %w", err)
	}
	return failed("drop ACLs", r.Results[0].ErrorCode, r.Results[0].ErrorMessage)
}
