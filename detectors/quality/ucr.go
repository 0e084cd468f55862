package quality

import (
	"bufio"
	"fmt"
	"path"
	"regexp"
	"strconv"
)

// ucrName matches the files of the UCR Anomaly Archive: the last sample of the training
// part, and the first and the last anomalous sample, are in their names.
var ucrName = regexp.MustCompile(`_(\d+)_(\d+)_(\d+)\.txt$`)

// readUCR reads series of the UCR Anomaly Archive (Wu and Keogh, TKDE 2021): numbers
// separated by spaces or lines, and one anomaly after the training part.
func readUCR(files map[string]string) ([]Series, error) {
	var set []Series
	for name, file := range files {
		found := ucrName.FindStringSubmatch(name)
		if found == nil {
			continue
		}
		var at [3]int
		for i := range at {
			at[i], _ = strconv.Atoi(found[i+1])
		}
		s := Series{Name: path.Base(name[:len(name)-len(".txt")]), Dim: 1, Train: at[0]}
		if err := s.appendNumbers(file); err != nil {
			return nil, err
		}
		if at[1] > at[2] || at[2] >= s.Len() || at[0] > s.Len() {
			return nil, fmt.Errorf("%s: %d samples, and an anomaly from %d to %d by the name", file, s.Len(), at[1], at[2])
		}
		s.Labels = make([]bool, s.Len())
		for i := at[1]; i <= at[2]; i++ {
			s.Labels[i] = true
		}
		set = append(set, s)
	}
	return set, nil
}

func (s *Series) appendNumbers(file string) error {
	f, err := open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	words := bufio.NewScanner(f)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		v, err := strconv.ParseFloat(words.Text(), 64)
		if err != nil {
			return fmt.Errorf("%s: number %d: %w", file, s.Len()+1, err)
		}
		s.Times, s.Values = append(s.Times, int64(len(s.Times))*1e6), append(s.Values, v)
	}
	if err := words.Err(); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// UCRFinds reports whether a place in a series of the UCR archive counts as
// found: at most max(length of the anomaly, 100) samples before or after the anomaly,
// the rule of the contest.
func (s *Series) UCRFinds(place int) bool {
	a := Runs(s.Labels)[0]
	slack := max(100, a.To-a.From+1)
	return place >= a.From-slack && place <= a.To+slack
}
