// Package kafka is the worker's client of a Kafka cluster: connections, metadata,
// transactional producing, offsets and topics, the consumer group, and fetching. Package record below it reads and writes
// the log's batches, without a client.
//
// This package alone imports the library segmentio/kafka-go. It uses its transport (connections, SASL
// mechanisms, version negotiation) and its protocol codec. Its Reader, Writer, ConsumerGroup and Client.Fetch
// are not used: they hand out aborted records and transaction markers, cannot produce in a transaction, lose
// heartbeat errors, and cost several times the CPU.
//
// # The path of a record
//
//  1. A Member says which partitions are this worker's, and until when.
//  2. A Fetcher asks each leader for its partitions and hands out chunks;
//     record.Iterator reads them.
//  3. record.Batches encodes what is to be written for one partition;
//     Producer.Produce stamps it (Seal) and sends it to the leader, and
//     Producer.CommitOffsets and End make it and the offsets visible together.
//
// # What is not obvious
//
// Routing is not kafka-go's. Every message travels inside a routed, which claims
// to need a raw exchange; that gives it the negotiated version and keeps
// Transport from looking the coordinator up before each request. There is a
// Transport for each broker address, so that a request goes to the address that
// our metadata names, and not to what kafka-go has cached.
//
// A request whose context ends is not cancelled: the transport continues to write and to read it until its
// deadline. A produce may still be appended (see Producer.Init), and a message that holds its own response
// must not be reused.
//
// A Client is composed of parts. Below are dialer (connections, TLS, logins), transport (one attempt of a request at
// one address) and metadataCache (brokers and leaders, as last told); on them stand Cluster (a request to a broker by
// its id, or to each leader until it answers) and coordinators. Offsets, Admin, Permissions and Producer are what
// callers see; Member and Fetcher use Cluster and Coordinator as they do. A Producer has its transaction,
// its calls of coordinators and its sender of batches apart.
package kafka
