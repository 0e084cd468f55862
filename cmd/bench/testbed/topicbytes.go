package testbed

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicBytes returns the bytes that the brokers keep of a topic, the markers of transactions included.
func (b *Bed) TopicBytes(ctx context.Context, topic string) (sum int64, err error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.Cluster.Brokers...))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for _, shard := range client.RequestSharded(ctx, kmsg.NewPtrDescribeLogDirsRequest()) {
		if shard.Err != nil {
			return 0, fmt.Errorf("testbed: the bytes of %s: %w", topic, shard.Err)
		}
		for _, dir := range shard.Resp.(*kmsg.DescribeLogDirsResponse).Dirs {
			if err := kerr.ErrorForCode(dir.ErrorCode); err != nil {
				return 0, fmt.Errorf("testbed: the bytes of %s: %w", topic, err)
			}
			for _, t := range dir.Topics {
				for _, p := range t.Partitions {
					if t.Topic == topic {
						sum += p.Size
					}
				}
			}
		}
	}
	return sum, nil
}
