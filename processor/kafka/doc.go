// Package kafka is the worker's session with a Kafka cluster: group membership,
// fetching, transactional producing, offsets and topics. It is the only package
// that imports the client (segmentio/kafka-go), and it uses of the client the
// transport (connections, TLS, SASL, version negotiation) and the protocol codec.
// The client's Reader, Writer, ConsumerGroup and Client.Fetch are not used: they
// hand out aborted records and transaction markers, cannot produce in a
// transaction, lose heartbeat errors, and cost several times the CPU.
package kafka
