package cycle

import (
	"time"

	"odradek/detectors"
	"odradek/processor/metrics"
	"odradek/processor/state"
	"odradek/schemas/output"
)

// This file writes what the worker publishes: a table of topics (Outputs), the
// encoders that turn a partition's results into their records (Writer), and the
// record batches of one transaction (Payload).
//
// It knows no cycle and no commit. A partition has its Writer add to the Payload that is
// open; the commit sends its batches.

// Output names a topic that the worker writes: a row of Outputs.
type Output int

// The rows of Outputs.
const (
	Scores Output = iota
	Anomalies
	ShadowAnomalies
	Blocks
	DeadLetters
	Late
	Rekeyed
	outputCount
)

// TopicSpec describes a topic that the worker writes. Its creation, checks, settings,
// schema, metrics and documentation follow from this row; only the function that writes
// its records is separate.
type TopicSpec struct {
	Name    string // label of metrics; <group>-<Name> is the topic's name if none is set
	Setting string // of the topic's name, such as SCORES_TOPIC
	Holds   string // name of the records, in messages
	Doc     string // of the setting
	Schema  string // Avro schema of the values, which are in Avro or JSON; "" for values of another form
	// Numbered is Schema with the number of a sample in its record (NewWriter).
	Numbered string
	// Copies marks a topic of input records with headers on top. A new one takes records as
	// large as the input topics do, and no batch is split for the sake of
	// max_message_bytes.
	Copies bool
	// Internal marks a topic that the worker itself reads.
	Internal bool
	// LargestRecord is the size of the largest record that the topic must accept; 0: any limit will do. Fix says what
	// to do if the topic's limit is lower.
	LargestRecord int
	Fix           string
	// Configs is the configuration of a new topic.
	Configs map[string]string

	// write adds the records for the topic to the payload: what the state s has for it since
	// the last write, or what w has copied. Where metrics count the records one by one,
	// it counts them in work. It returns about how many bytes they take.
	write func(w *Writer, p *Payload, s *state.State, work *metrics.Work, now time.Time) (bytes int, err error)
}

// TopicNames are topic names by Output; "" where the topic is not written.
type TopicNames [outputCount]string

// SchemaIDs are the registry's ids of the schemas of Outputs, by Output; output.SingleObject without a
// registry, output.JSON where the records are JSON.
type SchemaIDs [outputCount]int32

// Outputs lists the topics that the worker writes, apart from the changelogs (Changelog).
var Outputs = [outputCount]TopicSpec{
	Scores: {Name: "scores", Setting: "SCORES_TOPIC", Holds: "the scores", Schema: output.ScoreSchema,
		Numbered: output.NumberedScoreSchema,
		Doc:      "Topic of the scores.",
		write:    (*Writer).writeScores},
	Anomalies: {Name: "anomalies", Setting: "ANOMALIES_TOPIC", Holds: "the anomalies", Schema: output.AnomalySchema,
		Numbered: output.NumberedAnomalySchema,
		Doc:      "Topic of the anomalies.",
		write:    writeChanges(Anomalies)},
	ShadowAnomalies: {Name: "anomalies-shadow", Setting: "SHADOW_TOPIC", Holds: "the anomalies of detectors in shadow mode",
		Schema: output.AnomalySchema, Numbered: output.NumberedAnomalySchema,
		Doc:   "Topic of the anomalies of detectors in shadow mode. Needed if a detector has SHADOW set, to true or false.",
		write: writeChanges(ShadowAnomalies)},
	Blocks: {Name: "blocks", Setting: "BLOCKS_TOPIC", Holds: "the blocks",
		Doc:           "Topic of results of whole windows.",
		LargestRecord: detectors.MaxBlock + blockHeaders, Fix: "set blocks=false",
		write: (*Writer).writeBlocks},
	DeadLetters: {Name: "dlq", Setting: "DLQ_TOPIC", Holds: "the dead letters", Copies: true,
		Doc:   "Topic of records that could not be read.",
		write: writeCopies(DeadLetters, true)},
	Late: {Name: "late", Setting: "LATE_TOPIC", Holds: "the late records", Copies: true,
		Doc:   "Topic of late records.",
		write: writeCopies(Late, true)},
	Rekeyed: {Name: "rekey", Setting: "REKEY_TOPIC", Holds: "the records by series", Copies: true, Internal: true,
		Doc:   "Internal topic of re-keying.",
		write: writeCopies(Rekeyed, false)},
}

// ChangelogSpec describes the topic that holds the state of an input topic: one for each, with
// as many partitions. Its setting is the prefix of the name.
var ChangelogSpec = TopicSpec{Name: "changelog", Setting: "CHANGELOG_PREFIX", Holds: "the state",
	Configs: map[string]string{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5", "segment.ms": "3600000"}}

// Ledger returns the name of the topic in which `worker dlq redrive` records which dead letters of a topic were sent again.
func Ledger(deadLetters string) string { return deadLetters + "-redriven" }

// NewMetrics returns metrics of the worker's outputs.
func NewMetrics() *metrics.Metrics {
	names := make([]string, 0, len(Outputs))
	for i := range Outputs {
		names = append(names, Outputs[i].Name)
	}
	return metrics.New(names...)
}
