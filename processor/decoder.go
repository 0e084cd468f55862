package processor

import (
	"odradek/processor/state/rules"
	"odradek/schemas"
	"odradek/schemas/formats"
	"odradek/schemas/registry"
)

// NewDecoder returns the decoder of a reading. reg is nil without a registry; subjects are as in formats.Options.
func NewDecoder(r *rules.Reading, reg *registry.Client, subjects func() []string) (*formats.Decoder, error) {
	return formats.NewDecoder(ReadingPaths(r), reg, Options(r, subjects))
}

// Options returns what the decoder of a reading needs beside its paths.
func Options(r *rules.Reading, subjects func() []string) formats.Options {
	opts := formats.OfFile(r.Format, r.Schema)
	opts.Subjects = subjects
	return opts
}

// ReadingPaths returns the paths of a reading.
func ReadingPaths(r *rules.Reading) schemas.Mapping {
	return schemas.Mapping{Key: r.Key, Time: r.Time, Fields: r.Fields, TimeUnit: r.TimeUnit, Readings: r.Readings,
		TimeZone: r.TimeZone, TimeLayout: r.TimeLayout, SkipTombstones: r.SkipTombstones, TextNumbers: r.TextNumbers,
		Decimals: r.Decimals, Valid: r.Valid, MissingIf: r.MissingIf, OnlyIf: r.OnlyIf, Computed: r.Computed}
}

// NewSplitter returns the splitter of a reading's records into samples.
func NewSplitter(r *rules.Reading) *schemas.Splitter {
	if !r.Series {
		return nil
	}
	m := ReadingPaths(r)
	columns, err := m.Columns(nil)
	if err != nil {
		return nil // the decoder has the fault
	}
	return schemas.NewSplitter(m.ColumnNames(columns))
}
