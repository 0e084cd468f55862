package quality

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// ReadScores replaces the values of every series by the scores of other programs, so that these are judged and measured
// like a detector's. dir holds a table <name of the series>.csv, or .csv.gz, for each series: a column for each
// program, under its name, and a row for each sample. nan is no score, and so is an empty field if there are several
// programs. It returns the names, which are the same in every table. Period remains the original values' period.
func ReadScores(dir string, set []Series) (names []string, err error) {
	for i := range set {
		s := &set[i]
		path := filepath.Join(dir, filepath.FromSlash(s.Name)+".csv")
		if _, err := os.Stat(path); err != nil {
			path += ".gz"
		}
		header, rows, err := readCSV(path)
		if err != nil {
			return nil, fmt.Errorf("quality: scores of %s: %w", s.Name, err)
		}
		switch {
		case names == nil:
			names = header
		case !slices.Equal(names, header):
			return nil, fmt.Errorf("quality: %s has the columns %v, the tables before it %v; use the same in all", path, header, names)
		}
		if len(rows) != s.Len() {
			return nil, fmt.Errorf("quality: %s has %d scores, the series has %d samples; write one row a sample", path, len(rows), s.Len())
		}
		scores := make([]float64, 0, len(rows)*len(names))
		for at, row := range rows {
			for column, text := range row {
				v, err := number(text)
				if err != nil {
					return nil, fmt.Errorf("quality: %s: row %d, column %s: %w", path, at+1, names[column], err)
				}
				scores = append(scores, v)
			}
		}
		s.period = s.Period()
		s.Dim, s.Values = len(names), scores
	}
	return names, nil
}
