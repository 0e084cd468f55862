package quality

import (
	"bufio"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// skabTrain is the number of samples at the start of each SKAB series that its rules train on.
const skabTrain = 400

// isSKAB reports whether a file begins as SKAB's files do.
func isSKAB(files map[string]string) bool {
	for name, file := range files {
		if strings.HasSuffix(name, ".csv") && strings.HasPrefix(firstLine(file), "datetime;") {
			return true
		}
	}
	return false
}

func firstLine(file string) string {
	f, err := open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadString('\n')
	return line
}

// readSKAB reads the Skoltech Anomaly Benchmark (Katser and Kozitsin, 2020). A file without
// labels, of the part without anomalies, is left out.
func readSKAB(files map[string]string) ([]Series, error) {
	var set []Series
	for name, file := range files {
		if !strings.HasSuffix(name, ".csv") || !strings.HasPrefix(firstLine(file), "datetime;") {
			continue
		}
		header, rows, err := readTable(file, ';')
		if err != nil {
			return nil, err
		}
		label := slices.Index(header, "anomaly")
		if label < 0 {
			continue
		}
		fields := columns(header, "datetime", "anomaly", "changepoint")
		s := Series{Name: strings.TrimSuffix(name, ".csv"), Dim: len(fields), Timed: true, Train: min(skabTrain, len(rows))}
		for i, r := range rows {
			t, err := time.Parse(time.DateTime, r[0])
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
			if err := s.appendSample(t.UnixMicro(), r, fields, label); err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
		}
		set = append(set, s)
	}
	return set, nil
}

// tsbName matches the files of TSB-AD, which have the number of training samples in their
// names.
var tsbName = regexp.MustCompile(`_tr_(\d+)_[^/]*\.csv$`)

// readTSB reads the series of TSB-AD (Liu and Paparrizos, NeurIPS 2024) of one or more fields.
func readTSB(files map[string]string) ([]Series, error) {
	var set []Series
	for name, file := range files {
		found := tsbName.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		header, rows, err := readCSV(file)
		if err != nil {
			return nil, err
		}
		label := slices.Index(header, "Label")
		if label < 0 {
			return nil, fmt.Errorf("%s: has no column Label", file)
		}
		fields := columns(header, "Label")
		s := Series{Name: strings.TrimSuffix(path.Base(name), ".csv"), Dim: len(fields)}
		for i, r := range rows {
			if err := s.appendSample(int64(i)*1e6, r, fields, label); err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
		}
		if s.Train, err = strconv.Atoi(found[1]); err != nil || s.Train > s.Len() {
			return nil, fmt.Errorf("%s: %d samples, and a training part of %s by the name", file, s.Len(), found[1])
		}
		set = append(set, s)
	}
	return set, nil
}

// readExathlon reads the traces of Exathlon (Jacob et al., PVLDB 2021) that have anomalies: an
// anomaly lasts from the beginning of its cause to the end of the cause or of its later
// effects. Times are seconds since the epoch.
func readExathlon(files map[string]string, truth string) ([]Series, error) {
	header, rows, err := readCSV(truth)
	if err != nil {
		return nil, err
	}
	var at [4]int
	for i, name := range []string{"trace_name", "root_cause_start", "root_cause_end", "extended_effect_end"} {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return nil, fmt.Errorf("%s: has no column %s", truth, name)
		}
	}
	spans := map[string][][2]int64{} // by trace, in microseconds
	for i, r := range rows {
		var ends [3]float64
		for k := range ends {
			v, err := number(r[at[k+1]])
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", truth, i+1, err)
			}
			ends[k] = v
		}
		if ends[0] != ends[0] || ends[1] != ends[1] {
			return nil, fmt.Errorf("%s: row %d: lacks root_cause_start or root_cause_end", truth, i+1)
		}
		end := ends[1]
		if ends[2] > end {
			end = ends[2]
		}
		spans[r[at[0]]] = append(spans[r[at[0]]], [2]int64{int64(ends[0] * 1e6), int64(end * 1e6)})
	}
	var set []Series
	for name, file := range files {
		base := strings.TrimSuffix(path.Base(name), ".csv")
		if spans[base] == nil || base == name {
			continue
		}
		header, rows, err := readCSV(file)
		if err != nil {
			return nil, err
		}
		clock := slices.Index(header, "t")
		if clock < 0 {
			return nil, fmt.Errorf("%s: has no column t", file)
		}
		fields := columns(header, "t")
		s := Series{Name: base, Dim: len(fields), Timed: true}
		for i, r := range rows {
			seconds, err := strconv.ParseFloat(r[clock], 64)
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
			t := int64(seconds * 1e6)
			if err := s.appendSample(t, r, fields, -1); err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", file, i+1, err)
			}
			for _, span := range spans[base] {
				if t >= span[0] && t <= span[1] {
					s.Labels[i] = true
				}
			}
		}
		s.Train = Probation(s.Len())
		set = append(set, s)
	}
	return set, nil
}

// columns returns the places of all columns but those named.
func columns(header []string, but ...string) []int {
	var at []int
	for i, name := range header {
		if !slices.Contains(but, name) {
			at = append(at, i)
		}
	}
	return at
}

// appendSample appends a sample of a table's row; label is the column of its label, -1 for
// none.
func (s *Series) appendSample(t int64, row []string, fields []int, label int) error {
	for _, c := range fields {
		v, err := number(row[c])
		if err != nil {
			return err
		}
		s.Values = append(s.Values, v)
	}
	anomalous := false
	if label >= 0 {
		v, err := number(row[label])
		if err != nil {
			return err
		}
		anomalous = v > 0
	}
	s.Times, s.Labels = append(s.Times, t), append(s.Labels, anomalous)
	return nil
}
