package processor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/state"
)

// changelogReader reads the changelog of a partition: its state, and the records of the owner and of the settings.
type changelogReader struct {
	logs     *restoreLogs
	Group    string
	Topic    func() string       // name of the changelog topic
	Siblings *atomic.Int32       // partitions of the input topic
	State    *state.Config       // of the states
	Budget   *cycle.Budget       // of the worker
	NewState func() *state.State // an empty one
	NewID    func() string       // a random one

	Owner    Ownership // as of the last Load and Identify
	Settings StoredSettings

	Bytes int64 // of keys and values, read for the last restore
	Took  time.Duration

	state *state.State // while it is loaded
}

// TP returns the partition of the changelog topic.
func (c *changelogReader) TP() kafka.TP {
	return kafka.TP{Topic: c.Topic(), Partition: c.logs.Input.Partition}
}

// Load loads the partition's changelog into a new state. It returns
// the keys stored in it only if they are wanted: they take memory.
func (c *changelogReader) Load(ctx context.Context, wanted bool) (state *state.State, stored map[string]struct{}, err error) {
	defer func() { c.state = nil }()
	var fit fitting
	c.state = c.NewState()
	for {
		stored, err = c.readAll(ctx, wanted, &fit)
		if errors.Is(err, errOverBudget) {
			if err = c.measure(ctx, &fit); err == nil {
				continue
			}
		}
		if !kafka.OffsetLost(err) {
			return c.state, stored, err
		}
		// The log's start has moved past the position of the reader (compaction or
		// retention), or a new leader has another log. The deleted records may supersede
		// those that are loaded already.
		c.logs.Log.Info("the changelog was cut while it was read, loading it again", "err", err)
		c.state, fit = c.NewState(), fitting{}
	}
}

func (c *changelogReader) readAll(ctx context.Context, wanted bool, fit *fitting) (map[string]struct{}, error) {
	tp := c.TP()
	c.Owner = Ownership{}
	c.Settings.Load(nil)
	if tp.Partition >= c.Siblings.Load() {
		return nil, nil // Examine, before the changelog is made
	}
	from, err := c.logs.List(ctx, tp, kafka.Earliest)
	if err != nil {
		return nil, err
	}
	// To the end of the log, not to the present last stable offset: between them may be
	// a transaction whose outcome is still open.
	to, err := c.logs.List(ctx, tp, kafka.Latest)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	defer func() { c.Took = time.Since(began) }()
	var stored map[string]struct{}
	if wanted {
		stored = map[string]struct{}{}
	}
	// The offsets of records in a format that this version does not read, by their keys. They are refused at the end, unless a
	// later record of the key replaces them: until compaction the log has what a reset has deleted, too. Only the offset is
	// kept, as an earlier version may have stored millions of series.
	foreign := map[string]int64{}
	refused := func(offset int64, err error) error {
		return &RefusedError{TP: c.logs.Input, Reason: fmt.Sprintf("changelog %s/%d at offset %d: %v", tp.Topic, tp.Partition, offset, err),
			Decide: "worker state reset"}
	}
	err = c.logs.Read(ctx, tp, from, to, func(rec *record.Record) error {
		c.Bytes += int64(len(rec.Key) + len(rec.Value))
		if rec.Key == nil {
			return nil
		}
		switch key := string(rec.Key); {
		case key == OwnerKey:
			return c.Owner.Load(rec.Value, tp, c.Group, c.logs.Input)
		case key == SettingsKey:
			c.Settings.Load(rec.Value)
			return nil
		case IsRecord(key):
			return nil // of a later version
		}
		if rec.Value == nil {
			delete(stored, string(rec.Key))
		} else if _, ok := stored[string(rec.Key)]; !ok && wanted {
			stored[string(rec.Key)] = struct{}{}
		}
		err := c.state.Load(rec.Key, rec.Value)
		if err == nil {
			delete(foreign, string(rec.Key))
			return c.fits(fit)
		}
		if !errors.Is(err, state.ErrNewer) && !errors.Is(err, state.ErrOlder) {
			return refused(rec.Offset, err)
		}
		foreign[string(rec.Key)] = rec.Offset
		return nil
	})
	if err != nil || len(foreign) == 0 {
		return stored, err
	}
	at := slices.Min(slices.Collect(maps.Values(foreign)))
	err = c.logs.Read(ctx, tp, at, at+1, func(rec *record.Record) error { // again, for what is wrong with it
		return refused(rec.Offset, c.state.Load(rec.Key, rec.Value))
	})
	if err == nil {
		err = refused(at, errors.New("it cannot be read, and is gone now: start again"))
	}
	return stored, err
}

// Identify chooses the partition's owner record, given the metadata of the
// committed offset. same reports that the changelog is the one that the metadata
// names, if it names one.
func (c *changelogReader) Identify(metadata string) (same bool) {
	return c.Owner.Identify(metadata, Owner{Group: c.Group, Topic: c.logs.Input.Topic, Partitions: int(c.Siblings.Load()),
		Incarnation: c.NewID()})
}

// A changelog may hold more than the memory that a partition may use: the budget is
// smaller than it was, or partitions of several workers have moved to one. So it is
// loaded within the partition's limit. Nearly always everything fits. Where it does not,
// loading ends and the changelog is read once more for the size of each key
// (state.Survey). Then the keys that were used last are loaded, and the others evicted
// with the first record that is folded. If even these do not fit, the next try loads
// fewer.

// fitting describes the tries to load a changelog within the limit.
type fitting struct {
	tries    int
	granted  int64 // the limit when it was first passed, which holds for all tries
	estimate int64 // bytes that the keys chosen by the last survey were to fit into
}

var errOverBudget = errors.New("the state does not fit into the budget")

const mostFittings = 3

// fits returns errOverBudget when the state that is being loaded has passed its limit by
// an eighth, without the keys that are left out.
func (c *changelogReader) fits(f *fitting) error {
	bytes := c.state.LoadingBytes()
	c.logs.Status.SetBytes(bytes)
	limit := c.Budget.Limit(c.logs.Input, max(bytes, f.granted))
	if f.tries > 0 {
		limit = f.granted
	}
	if bytes -= c.state.Restore.LeftOut(); bytes-bytes/8 <= limit || f.tries == mostFittings {
		return nil
	}
	return errOverBudget
}

// measure replaces the state by an empty one that will load only the keys that fit.
func (c *changelogReader) measure(ctx context.Context, f *fitting) error {
	if f.tries++; f.tries == 1 {
		f.granted = c.Budget.Limit(c.logs.Input, c.state.LoadingBytes())
		f.estimate = f.granted
	}
	f.estimate -= f.estimate / 8
	c.state = c.NewState()
	tp := c.TP()
	from, err := c.logs.List(ctx, tp, kafka.Earliest)
	if err != nil {
		return err
	}
	to, err := c.logs.List(ctx, tp, kafka.Latest)
	if err != nil {
		return err
	}
	survey := state.NewSurvey(c.State)
	err = c.logs.Read(ctx, tp, from, to, func(rec *record.Record) error {
		if rec.Key != nil && !IsRecord(string(rec.Key)) {
			survey.Add(rec.Key, rec.Value)
		}
		return nil
	})
	if err != nil {
		return err
	}
	keep, drop := survey.Cut(f.estimate)
	c.logs.Log.Warn("the changelog holds more than the budget (state_bytes), the least recently used series are left out",
		"limit", f.granted, "kept", keep, "left_out", drop)
	c.state.Restore.DropLoaded(survey)
	return nil
}

// PutSettings writes the settings record. A topic whose batches are too small for it
// has none: the record only makes refusals more precise.
func (c *changelogReader) PutSettings(b *record.Batches) (bytes int, err error) {
	value := c.Settings.Value()
	err = b.Append(time.Now().UnixMilli(), []byte(SettingsKey), value, nil)
	if errors.Is(err, record.ErrTooLarge) {
		c.logs.Log.Debug("the settings record does not fit a batch of the changelog", "bytes", len(value))
		return 0, nil
	}
	return len(SettingsKey) + len(value), err
}
