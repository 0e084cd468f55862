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
// A transaction that a partition keeps open though its coordinator counts it as ended hangs (KIP-664), and readers of committed records
// stop there. hanging.go finds such transactions, and writes the marker that is missing.
//
// # What is not obvious
//
// This package chooses the broker of each request; kafka-go does not. The type routed (transport.go) wraps every message
// and implements kafka-go's RawExchanger: so kafka-go tells it the negotiated version, and sends the message without
// looking up a coordinator first. There is a Transport for each broker address, so that a request goes to the address that
// our metadata names, and not to what kafka-go has cached.
//
// A request whose context ends is not cancelled: the transport continues to write and to read it until its
// deadline. The batches of a Produce request may still be appended (see Producer.Init). Some requests are also the
// buffer that their response is read into (wireMessage); such a message must not be sent a second time.
//
// A Client is composed of layers. The lowest are dialer (connections, TLS, logins), transport (one attempt of a request at
// one address) and metadataCache (the brokers and leaders of the last metadata response). Cluster (sends a request to a
// broker by its id, or to each leader until it answers) and coordinators (finds the coordinator of a group or transaction)
// use these. Offsets, Admin, Permissions, Producer, Member and Fetcher use Cluster and coordinators. A Producer consists of
// a transaction (what is part of it), calls (its requests to coordinators) and a sender (its batches to leaders).
//
// # Errors and lost brokers
//
// ClassOf returns the class of an error, which says what the caller has to do next; errors.go lists the classes and the
// class of each error code. A Fetcher logs to FetchConfig.Log when requests to a broker fail and when it answers again;
// FetchSource.Seen reports a partition as lost that has been without a response for longer than FetchConfig.LostAfter.
package kafka
