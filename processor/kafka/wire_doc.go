package kafka

// This file writes and reads the fields of Kafka's protocol, for the requests that
// this module encodes itself: Fetch, Produce, OffsetFetch, OffsetForLeaderEpoch, and the
// metadata that the members of a group exchange. kafka-go encodes all others.
//
// https://kafka.apache.org/protocol#protocol_types
