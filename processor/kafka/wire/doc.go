// Package wire writes and reads the fields of Kafka's protocol, for the requests that
// the client and the packages beside it encode by hand: Fetch, Produce, OffsetFetch,
// OffsetForLeaderEpoch, and what the members of a group write to each other. All
// others are kafka-go's.
//
// https://kafka.apache.org/protocol#protocol_types
package wire
