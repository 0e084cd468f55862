package kafka

// This file reads partitions, each from its leader, ahead of their consumer.
//
// # The path of a chunk
//
//  1. Fetcher.Add names a partition and an offset, Resume the leader epoch of the record
//     before it, too. findLeaders attaches the FetchSource to the broker that leads it, whose
//     lanes ask for it (take).
//  2. request.decode copies the partition's bytes from the socket into a pooled buffer;
//     finish moves the position by the batch headers (record.Scan), so that the next
//     request can leave before anything is decoded; send puts a Chunk into the FetchSource's
//     channel.
//  3. The consumer reads the chunk with record.Iterator. Chunk.Release returns the buffer
//     and lets the partition be asked for again.
//
// # What is not obvious
//
// Chunks are bounded by Release, not by receiving: a consumer that keeps chunks keeps its
// partition paused.
//
// A request whose context ends is not cancelled: the transport writes and reads it until its deadline, so it must not
// be reused (see broker.lane).
//
// A position carries the leader epoch of the record before it (KIP-320). A Fetch names
// the epoch that metadata gave the leader, and one that has another term refuses it, so
// that every new term is noticed; then the leader is asked where the position's epoch
// ends in its log, before it is fetched from (epochs.go). The epoch of a batch at or just after a position
// serves as well as the one before: a log that still has that batch has everything before it.
//
// The list of aborted transactions comes with each response (KIP-98) and is complete for
// its range, also for transactions that began before it. It is not in order.
