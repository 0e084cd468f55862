// Package kafka is the worker's session with a Kafka cluster: group membership,
// fetching, transactional producing, offsets and topics. It is the only package
// that imports the client (segmentio/kafka-go), and it uses of the client the
// transport (connections, SASL mechanisms, version negotiation) and the protocol
// codec.
// The client's Reader, Writer, ConsumerGroup and Client.Fetch are not used: they
// hand out aborted records and transaction markers, cannot produce in a
// transaction, lose heartbeat errors, and cost several times the CPU.
//
// # The path of a record
//
//  1. Fetcher.Add names a partition and an offset; findLeaders attaches the
//     Source to a fetchBroker, whose lanes ask for it (take).
//  2. fetchRequest.decode copies the partition's bytes from the socket into a
//     pooled buffer; scan moves the position by the batch headers, so that the
//     next request can leave; send puts a Chunk into the Source's channel.
//  3. record.Iterator checks CRCs, decompresses, drops markers and aborted batches,
//     and hands out Records that alias the chunk; Chunk.Release returns the buffer
//     and lets the partition be asked for again.
//  4. record.Batches encodes what is to be written for one partition;
//     Producer.Produce stamps it (Seal) and sends it to the leader, and
//     Producer.CommitOffsets and End make it and the offsets visible together.
//
// Member (group.go) says which partitions are this worker's, and until when.
//
// # What is not obvious
//
// Routing is not kafka-go's. Every message travels inside a routed, which claims
// to need a raw exchange; that gives it the negotiated version and keeps
// Transport from looking the coordinator up before each request. There is a
// Transport for each broker address, so that a request goes to the address that
// our metadata names, and not to what kafka-go has cached.
//
// A request whose context ends is not taken back: the transport goes on to write
// and to read it until its deadline. A produce may still be appended (see
// Producer.Init); a fetchRequest must not be reused.
//
// A position carries the leader epoch of the record before it (Epoch). A Fetch and
// a ListOffsets name the epoch that metadata gave the leader, and one that has
// another term refuses them, so that every new term is noticed; then the leader is
// asked where the position's epoch ends in its log, before it is fetched from.
// Any epoch of a batch at or just behind a position serves for it as well as the
// one before: where the log still has that, it has all before it.
//
// The list of aborted transactions comes with each response and is complete for
// its range, also for transactions that began before it. It is not in order.
//
// Chunks are bounded by Release, not by receiving: a consumer that keeps chunks
// keeps its partition paused.
package kafka
