package kafka

import "github.com/segmentio/kafka-go/protocol/metadata"

// emptyMetadata asks for the brokers and no topic.
func emptyMetadata() *metadata.Request { return &metadata.Request{TopicNames: []string{}} }
