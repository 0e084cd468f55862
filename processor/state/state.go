package state

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"odradek/processor/anomaly"
	"odradek/processor/state/checkpoint"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// NoTime is the largest event time of a partition without a sample.
const NoTime = checkpoint.NoTime

type (
	// Floor is the replay floor of a partition; see checkpoint.Floor.
	Floor = checkpoint.Floor
	// Jump is a largest leap of event time; see checkpoint.Jump.
	Jump = checkpoint.Jump
	// HeldSuspect is a sample that may be a leap of event time; see checkpoint.HeldSuspect.
	HeldSuspect = checkpoint.HeldSuspect
)

// ParseFloor parses the text of a floor; see checkpoint.ParseFloor.
func ParseFloor(text string) (Floor, error) { return checkpoint.ParseFloor(text) }

// Repaired returns the text of a floor with another time; see checkpoint.Repaired.
func Repaired(text string, maxTime int64, jump Jump) (string, error) {
	return checkpoint.Repaired(text, maxTime, jump)
}

// MaxRecord is the default of Config.MaxRecord, in bytes.
const MaxRecord = 512 << 10

// leastReading is a number of bytes that a reading may have in the changelog even where MaxRecord is less.
const leastReading = 8 << 10

// Sample is a row of values of one key at one instant.
type Sample struct {
	Key    []byte    // any bytes; not retained
	Time   int64     // event time in microseconds since the epoch
	Ahead  int64     // of the latest sample of its record, microseconds after Time: a record is judged as one
	Offset int64     // Config.Place of its record and its number there; rises from sample to sample
	Values []float64 // Config.Dim values, NaN or infinite where missing; not retained
}

// Config configures a State. Nothing changes it after New.
type Config struct {
	Dim       int // values a sample
	Windows   []series.WindowConfig
	Detectors []series.DetectorConfig

	// Reading is how records are read, but for its Windows and Detectors, which follow from those below. It holds from the
	// next live record on (package rules).
	Reading rules.Reading

	TTL     int64 // microseconds without a sample after which a key is forgotten; 0: never
	MaxKeys int   // keys of the partition; 0: no limit

	// Silence in microseconds is how far a key's last sample may be behind the
	// watermark before a silence of the key is opened; 0: never. See silencewatch.go.
	Silence int64

	// Grouping puts anomalies that open together into groups; nil: there are none.
	Grouping *Grouping

	DropMismatched bool // stored state of another fingerprint is dropped instead of refused
	Blocks         bool // Output.Blocks is wanted; otherwise detectors are not asked for blocks

	// Units are the units of values by the name of their field, of an array without the index of an element. Those that begin with
	// a slash are of series whose key ends in them (one sensor of a record that holds many).
	Units map[string]string

	// Watch takes each judged score with what it was computed from; nil: nothing does. It is part of neither the state nor
	// the results.
	Watch func(*Watched)

	// Transformed takes what the values of a sample become by the transforms of its series; nil: nothing does. Like Watch it is
	// part of neither the state nor the results.
	Transformed func(offset int64, values []float64)

	// Closed takes the values of each interval that a sample closes: its key, its start, the sample's offset; nil: nothing does. Like
	// Watch it is part of neither the state nor the results.
	Closed func(key []byte, start, offset int64, values []float64)

	// SampleBits is 0 where each record is one sample: a sample then has the offset of its record. Where a record may be
	// several samples (an array of readings), it is the number of low bits of a sample's offset that contain the sample's
	// number in its record; the other bits are the record's offset (Place). The methods of a State and its floors take and
	// return offsets of records; the fields of Sample, Row, EventRow and BlockRow are offsets of samples.
	SampleBits uint8

	// MaxRecord bounds key and value of a changelog record in bytes, as long as
	// a key's name and one row leave a choice; 0: the constant MaxRecord.
	MaxRecord int
}

// UnitOf returns the unit of a field of a series; empty: none is known.
func (c *Config) UnitOf(key []byte, field string) string {
	name, _, _ := strings.Cut(field, "[")
	if unit, ok := c.Units[name]; ok || field == "" {
		return unit
	}
	path, _, _ := strings.Cut(string(key[max(0, bytes.LastIndexByte(key, '/')):]), "[")
	return c.Units[path]
}

func (c *Config) maxRecord() int {
	if c.MaxRecord > 0 {
		return c.MaxRecord
	}
	return MaxRecord
}

// SeveralBits is the value of Config.SampleBits where a record may be several samples, at most MaxSamples. It leaves
// offsets of records up to 2^42.
const SeveralBits = 20

// MaxSamples is the most samples of a record.
const MaxSamples = 1 << SeveralBits

// Place returns the offset of a sample, from the offset of its record and its number in the record, from 0 (SampleBits).
func (c *Config) Place(record int64, number int) int64 { return record<<c.SampleBits | int64(number) }

// Record returns the offset of the record that contains the sample at offset.
func (c *Config) Record(offset int64) int64 { return offset >> c.SampleBits }

// Number returns the number, from 0, that the sample at offset has in its record.
func (c *Config) Number(offset int64) int { return int(offset & (1<<c.SampleBits - 1)) }

// Check returns all faults of the configuration at once.
func (c *Config) Check() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("state: "+format, args...))
	}
	if c.Dim < 1 || c.Dim > series.MaxDim {
		bad("%d values a sample, use 1 to %d", c.Dim, series.MaxDim)
	}
	if r := &c.Reading; len(r.Fields) > 0 && r.Dim() != c.Dim {
		bad("%d values a sample, but the fields %q", c.Dim, r.Fields)
	}
	if r := &c.Reading; r.Lateness < 0 || r.MaxHeld < 0 || r.MaxJump < 0 || r.MaxFuture < 0 || r.MaxGap < rules.OwnGap {
		bad("lateness, limit of held samples, jump, future and gap must not be negative")
	}
	if c.Reading.BySeries && (c.Grouping != nil || slices.ContainsFunc(c.Windows, func(w series.WindowConfig) bool { return w.Grid != nil })) {
		bad("grids and groups need the lateness by partition")
	}
	if n, most := len(c.decided().Encode()), max(c.maxRecord(), leastReading); n > most {
		bad("the settings of how records are read take %d bytes in the changelog, %d at most: shorten the schema file or the value fields",
			n, most)
	}
	if r := &c.Reading; r.Every < 0 || r.Every > 0 && r.Dim() == 0 {
		bad("intervals of a negative length, or of values without fields")
	}
	if c.Grouping != nil && (c.Grouping.By == nil || c.Grouping.Window < 0) {
		bad("groups without a name, or of a negative window")
	}
	if c.TTL < 0 || c.Silence < 0 || c.MaxKeys < 0 || c.MaxRecord < 0 {
		bad("ttl, silence, key limit and record limit must not be negative")
	}
	for _, err := range series.Check(c.Dim, c.Windows, c.Detectors) {
		errs = append(errs, fmt.Errorf("state: %w", err))
	}
	return errors.Join(errs...)
}

// DefaultMaxHeld returns the number of samples of dim values that fit into about 16 MiB.
func DefaultMaxHeld(dim int) int { return series.DefaultMaxHeld(dim) }

// Outcome says how a sample was processed.
type Outcome uint8

// The outcomes. All samples ever folded are the sum of Counts and Held.
const (
	Scored     Outcome = iota // at least one detector has, or will have with its stride, a score for it
	WarmingUp                 // no detector has enough of the past
	Held                      // waits for the watermark, or is a suspect; counted as something else when released
	Missing                   // every window lacks a value
	Filtered                  // no detector reads its key
	Late                      // older than Config.Lateness allows, or than its key's newest; not folded
	Duplicate                 // same key and time as another; not folded
	Evicted                   // was held when its key was evicted; never returned by Fold
	Rejected                  // was held as a suspect, and was refused; never returned by Fold
	Aggregated                // is in an open interval, whose scores follow when it closes
	Backfilled                // any of these, of the backfill (BackfillTo); never returned by Fold
	outcomes
)

// accepted reports whether a sample with an outcome before it is folded will be folded or held.
func (o Outcome) accepted() bool { return o == Scored || o == Held }

// Counts are records by outcome. Counts[Held] is always 0: see State.Held.
type Counts [outcomes]int64

// RowState says whether a row has a score, and why not.
type RowState uint8

// The states of a row.
const (
	RowScored    RowState = iota
	RowWarmingUp          // no score: too little of the past
	RowImputed            // scored, but a value of the sample was missing and repeated
)

// Row is one score, or the lack of one, of one sample by one detector.
type Row struct {
	Key      *Key
	Detector int32 // index into Config.Detectors
	State    RowState
	Exceeds  bool  // the score is above the detector's threshold
	Severity uint8 // 0 to 100, see threshold.Judgement; 0 without a threshold
	// Predicted says that the detector expected a value of the sample: Expected, and its usual distance from the readings, Spread,
	// which is NaN where it is not known. See detectors.Predictor.
	Predicted bool
	Score     float32 // NaN where there is none
	// Judged is the score that the threshold judges: Score, or with DetectorConfig.Smooth the mean of
	// the last ones; NaN where there is none.
	Judged float32
	// Threshold is the bound the score was judged by, as threshold.Judgement has it;
	// NaN where it was not judged.
	Threshold float32
	// Behind is how many records after the one of Offset the log was read when the score became due: the offset
	// of the sample or decision with which its task became due, less the record's.
	Behind uint32
	// Remaining is how many further samples of the key come, at the least, until the first with a score: 1 where it is the next.
	// 0 unless State is RowWarmingUp.
	Remaining int32
	Spread    float32
	Expected  float64
	Offset    int64 // of the scored sample
	Time      int64 // of the scored sample
	// About and Until are the times of the first and the last sample that the
	// score is about.
	About, Until int64
}

// Values of EventRow.Detector that are no index into Config.Detectors.
const (
	SilenceDetector = -1 // the key had no sample for Config.Silence
	RemovedDetector = -2 // a detector that is not configured any more: see Name
)

// EventRow is a change of one anomaly of one key and detector.
type EventRow struct {
	Key      *Key
	Detector int32  // index into Config.Detectors, SilenceDetector or RemovedDetector
	Name     string // of the detector
	Change   anomaly.Change
	Behind   uint32 // how many records after the one of Change.Offset the log was read: see Row.Behind
}

// BlockRow is the block that a detector made of one task; see detectors.Blocker.
type BlockRow struct {
	Key      *Key
	Detector int32 // index into Config.Detectors
	Offset   int64 // of the task's newest sample
	// About and Until are the times of the first and the last sample of the rows that the task reads (detectors.Task.X).
	About, Until int64
	MediaType    string
	Data         []byte
}

// Tally counts samples and keys since New, less what was rolled back. Replay counts nothing.
type Tally struct {
	// Counts are the samples by outcome.
	Counts Counts
	// Early are the held samples released because MaxHeld offsets had passed them, before the watermark had.
	Early int64
	// Fields counts what transforms (by rules.ColumnTransform.ID) and aggregates (by rules.ColumnAggregate.ID) did; nil: nothing.
	Fields map[uint64]FieldCount
	// EvictedKeys are the keys evicted.
	EvictedKeys int64
}

// FieldCount counts what a transform or an aggregate did.
type FieldCount struct {
	Resets        int64 // counters that began again (rules.Rate)
	Closed, Empty int64 // intervals that were closed, with samples of their series and without
}

// count counts what the transform or aggregate with an ID did.
func (t *Tally) count(id uint64, resets, closed, empty int64) {
	if t.Fields == nil {
		t.Fields = map[uint64]FieldCount{}
	}
	n := t.Fields[id]
	t.Fields[id] = FieldCount{n.Resets + resets, n.Closed + closed, n.Empty + empty}
}

// Copy returns a copy that further counts do not change.
func (t Tally) Copy() Tally {
	t.Fields = maps.Clone(t.Fields)
	return t
}

// State is the fold of one partition's samples.
type State struct {
	Output // rows, events and blocks for the caller
	// Tally counts samples and keys.
	Tally Tally

	// Keys are those that have samples.
	Keys Keys
	// Suspects are the samples that may be leaps of event time.
	Suspects Suspects
	// Rulings are the thresholds, guards and policies of anomalies in force.
	Rulings rulings
	// Grids are the windows of grids that are open.
	Grids Grids
	// Restore is what the state is restored from.
	Restore Restore

	transformed []float64 // see transform
	source      []byte    // the input partition, a part of the ids of anomalies

	cfg  *Config
	dets []*series.Setup
	sets *series.Sets
	slow bool // Fold has to take its slow path

	// How far the log is folded. Within the State, offsets are samples' offsets (Config.Place).
	bits      uint8       // Config.SampleBits
	next      int64       // offsets below are folded
	newest    int64       // the sample or the decision in whose turn things happen, for Row.Behind
	maxTime   int64       // largest event time; NoTime without one
	order     rules.Order // of the reading in force
	released  int64       // the watermark where the reading in force began, behind which this one never is
	sweepAt   int64       // the watermark at which keys that expire or fall silent are looked for
	backfill  int64       // samples below are a backfill; 0: there is none
	replaying bool        // the log is folded again, up to where it was committed
	ahead     int64       // offsets below may be in the state of a key, where it was restored

	applied *pendingTask       // what Apply does now; nil: nothing
	changed series.ChangedKeys // the keys that the next Snapshot must have
	groups  *grouping          // of anomalies; nil: there are none

	gate      gate     // the turns of samples on the slow path
	held      held     // the samples that wait for the watermark
	readings  readings // how records are read
	intervals intervals
	silences  silences
	orphans   orphans
	tasks     taskQueue // to the executor, and in order behind it
	judge     judge
	mutes     muteRules
	learned   learnedRules
	point     []float64 // of a summary
	decisions *rules.DecisionLog
	journal   journal           // undoes what is not committed
	dirty     series.DirtyQueue // keys that have changed since their snapshot
	records   checkpoint.Writer // of the changelog
}

// sets returns the sets of detectors by which series are read.
func (c *Config) sets() *series.Sets {
	sets := series.NewSets(c.Windows, c.Detectors, c.maxRecord())
	sets.Prepare(&c.Reading)
	if c.knowsUnread() {
		sets.AddUnread()
	}
	return sets
}

// knowsUnread reports whether series that no detector reads are known, because they may fall silent.
func (c *Config) knowsUnread() bool {
	readsAll := func(d series.DetectorConfig) bool { return d.Ensemble == nil && len(d.Patterns) == 0 }
	return c.Silence > 0 && !slices.ContainsFunc(c.Detectors, readsAll)
}

// New returns an empty State. It panics on a configuration that Check refuses.
func New(cfg *Config) *State {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	sets := cfg.sets()
	s := &State{
		cfg: cfg, sets: sets, dets: sets.Setups, slow: true,
		bits: cfg.SampleBits, next: math.MinInt64, newest: math.MinInt64, maxTime: NoTime, released: NoTime,
		sweepAt: math.MaxInt64, ahead: math.MinInt64,
		Keys:      Keys{KeyTable: series.NewKeyTable()},
		Suspects:  newSuspects(cfg.SampleBits),
		Restore:   Restore{shedAt: math.MaxInt64},
		Grids:     newGrids(cfg.Windows),
		intervals: newIntervals(cfg.Reading.Every),
		held:      newHeld(cfg.Dim),
		readings:  readings{configured: cfg.decided().Reading},
		orphans:   orphans{orphaned: map[*Key]struct{}{}},
		judge:     judge{watch: cfg.Watch},
		records:   checkpoint.NewWriter(checkpoint.HeldFormat{Layout: cfg.Reading.Layout(), Dim: cfg.Dim}, cfg.maxRecord()),
	}
	// The rest has functions or pointers of s.
	s.Keys.evictor = s.Keys.newEvictor(cfg.TTL)
	s.groups = newGrouping(cfg.Grouping, &s.Keys.KeyTable)
	s.silences = newSilences(cfg.Silence, &s.Keys.KeyTable)
	s.tasks = newTaskQueue(s.dets, &s.newest, cfg.Watch != nil)
	s.decisions = rules.NewDecisionLog(&kinds, s.saveDecision)
	s.journal = newJournal(s.undoOwner())
	s.Rulings = newRulings(s.dets, s.decisions, &s.tasks, s.turn, s.route)
	s.mutes, s.learned = newMuteRules(s.decisions, &s.tasks), newLearnedRules(s.decisions, &s.tasks)
	s.rebuildStanding()
	return s
}

// Held returns the number of samples that wait for the watermark or are suspects.
func (s *State) Held() int { return s.held.N + s.Suspects.Len() }

// Bytes estimates the memory of keys, windows, carries and held samples.
func (s *State) Bytes() int64 { return s.Keys.Bytes + s.held.Bytes() }

// route chooses between the two ways through Fold.
func (s *State) route() {
	s.slow = s.Grids.any || !s.journal.Started() || s.replaying || s.decisions.Acting() ||
		s.order.Lateness > 0 || s.readings.missing || s.held.N > 0 || !s.gate.idle() || s.next < s.ahead || len(s.orphans.orphaned) > 0 ||
		s.Suspects.Len() > 0 || s.Rulings.Missing || s.Suspects.votes.Judging() && s.maxTime == NoTime
}
