package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// This file reads files of samples that new ones are compared with.

// ReadReference reads the samples of a CSV file, a column for each field: by the names of
// the first line, or without names in the order of fields. NaN and an empty cell are missing.
func ReadReference(file string, fields []string) (rows []float64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err // it names the file
	}
	defer func() { _ = f.Close() }()
	r := csv.NewReader(f)
	r.ReuseRecord, r.TrimLeadingSpace, r.Comment = true, true, '#'
	var at []int // the columns of the fields
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			if len(rows) == 0 {
				return nil, fmt.Errorf("%s has no samples", file)
			}
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if at == nil {
			var named bool
			if at, named, err = columnsOf(record, fields); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if named {
				continue
			}
		}
		for i, c := range at {
			v, err := cell(record[c])
			if err != nil {
				line, _ := r.FieldPos(c)
				return nil, fmt.Errorf("%s: line %d: %s is %q, use a number, or leave a missing value empty", file, line, fields[i], record[c])
			}
			rows = append(rows, v)
		}
	}
}

// cell parses a number; an empty one is missing.
func cell(text string) (float64, error) {
	if text = strings.TrimSpace(text); text == "" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(text, 64)
}

// columnsOf finds the columns of the fields in a file by its first line, and reports
// whether that line has names.
func columnsOf(first, fields []string) (at []int, named bool, err error) {
	for _, text := range first {
		if _, err := cell(text); err != nil {
			named = true
		}
	}
	if !named {
		if len(first) != len(fields) {
			return nil, false, fmt.Errorf("%d columns for the %d fields %s; name them in the first line", len(first), len(fields),
				strings.Join(fields, ","))
		}
		for i := range fields {
			at = append(at, i)
		}
		return at, false, nil
	}
	for _, name := range fields {
		c := slices.IndexFunc(first, func(text string) bool { return strings.TrimSpace(text) == name })
		if c < 0 {
			return nil, true, fmt.Errorf("no column %q in the first line, %s", name, strings.Join(first, ","))
		}
		at = append(at, c)
	}
	return at, true, nil
}
