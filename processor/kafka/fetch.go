package kafka

// Chunk is what one fetch brought for one partition.
type Chunk struct {
	TP      TP
	From    int64
	Raw     []byte
	Aborted []AbortedTxn
}
