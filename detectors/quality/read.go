package quality

import (
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Series is one labelled stream.
type Series struct {
	Name   string
	Dim    int
	Times  []int64   // microseconds; one second a sample where the set has no times
	Values []float64 // Dim a sample, NaN where missing
	Train  int       // samples at the start that are not measured
	Timed  bool      // the set has the Times

	Labels  []bool  // anomalous samples; nil for a set of change points
	Windows []Span  // NAB: its windows, of the samples counted from 0
	Changes [][]int // change points by annotator; nil for the other sets

	period int // Period of the values that ReadScores has replaced; 0: of Values
}

// Len returns the number of samples.
func (s *Series) Len() int { return len(s.Times) }

// Row returns sample i.
func (s *Series) Row(i int) []float64 { return s.Values[i*s.Dim : (i+1)*s.Dim] }

// The formats that Read knows.
const (
	NABFormat  = "nab"  // <folder>/<file>.csv of timestamp,value; labels/combined_windows.json
	TCPDFormat = "tcpd" // <name>.json and annotations.json of the Turing Change Point Dataset
	RowsFormat = "rows" // <name>_train.csv and <name>_test.csv of x0,x1,...[,label]: SMD, ASD, SMAP, MSL
	UCRFormat  = "ucr"  // <name>_<train>_<begin>_<end>.txt of the UCR Anomaly Archive
	// SKABFormat is <name>.csv of datetime;x0;x1;...;anomaly;changepoint.
	SKABFormat = "skab"
	// TSBFormat is the format of TSB-AD and TSB-UAD: <name>_tr_<train>_<begin>.csv of x0,x1,...,Label.
	TSBFormat = "tsb-ad"
	// ExathlonFormat is <trace>.csv of t,x0,x1,..., with ground_truth.csv of anomalies.
	ExathlonFormat = "exathlon"
)

// Read reads the data set in dir, whose format it finds from the files there.
// Files may be compressed with gzip; folders in between do not matter.
func Read(dir string) (format string, set []Series, err error) {
	files := map[string]string{} // path below dir without .gz -> path
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files[strings.TrimSuffix(filepath.ToSlash(rel), ".gz")] = path
		}
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("quality: %w", err)
	}
	find := func(base string) string {
		for name, path := range files {
			if name == base || strings.HasSuffix(name, "/"+base) {
				return path
			}
		}
		return ""
	}
	switch {
	case find("combined_windows.json") != "":
		set, err = readNAB(files, find("combined_windows.json"))
		format = NABFormat
	case find("annotations.json") != "":
		set, err = readTCPD(files, find("annotations.json"))
		format = TCPDFormat
	case find("ground_truth.csv") != "":
		set, err = readExathlon(files, find("ground_truth.csv"))
		format = ExathlonFormat
	case slices.ContainsFunc(slices.Collect(maps.Keys(files)), ucrName.MatchString):
		set, err = readUCR(files)
		format = UCRFormat
	case slices.ContainsFunc(slices.Collect(maps.Keys(files)), tsbName.MatchString):
		set, err = readTSB(files)
		format = TSBFormat
	case isSKAB(files):
		set, err = readSKAB(files)
		format = SKABFormat
	default:
		set, err = readRows(files)
		format = RowsFormat
	}
	if err != nil {
		return "", nil, fmt.Errorf("quality: %s: %w", dir, err)
	}
	if len(set) == 0 {
		return "", nil, fmt.Errorf("quality: %s holds no data set: neither combined_windows.json (NAB), annotations.json (TCPD), "+
			"ground_truth.csv (Exathlon), *_<train>_<begin>_<end>.txt (UCR), *_tr_<train>_<begin>.csv (TSB-AD), *.csv with the columns "+
			"datetime;...;anomaly;changepoint (SKAB) nor *_test.csv", dir)
	}
	slices.SortFunc(set, func(a, b Series) int { return strings.Compare(a.Name, b.Name) })
	return format, set, nil
}

func open(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil || !strings.HasSuffix(path, ".gz") {
		return f, err
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{z, f}, nil
}

func readJSON(path string, v any) error {
	f, err := open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := json.NewDecoder(f).Decode(v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readCSV reads a table with a header.
func readCSV(path string) (header []string, rows [][]string, err error) { return readTable(path, ',') }

func readTable(path string, comma rune) (header []string, rows [][]string, err error) {
	f, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	table := csv.NewReader(f)
	table.Comma = comma
	all, err := table.ReadAll()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return nil, nil, fmt.Errorf("%s: empty", path)
	}
	return all[0], all[1:], nil
}

func number(s string) (float64, error) {
	if s == "" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(s, 64)
}

func readNAB(files map[string]string, labels string) ([]Series, error) {
	var windows map[string][][2]string
	if err := readJSON(labels, &windows); err != nil {
		return nil, err
	}
	var set []Series
	for name, w := range windows {
		path := ""
		for f, p := range files {
			if f == name || strings.HasSuffix(f, "/"+name) {
				path = p
			}
		}
		if path == "" {
			continue // labels of a missing part of the corpus
		}
		_, rows, err := readCSV(path)
		if err != nil {
			return nil, err
		}
		s := Series{Name: strings.TrimSuffix(name, ".csv"), Dim: 1, Labels: make([]bool, len(rows)), Timed: true}
		for i, r := range rows {
			t, err := time.Parse(time.DateTime, r[0])
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", path, i+1, err)
			}
			v, err := number(r[1])
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", path, i+1, err)
			}
			s.Times, s.Values = append(s.Times, t.UnixMicro()), append(s.Values, v)
		}
		for _, ends := range w {
			var at [2]int
			for i, e := range ends {
				t, err := time.Parse(time.DateTime, e) // takes a fraction
				if err != nil {
					return nil, fmt.Errorf("%s: %s: %w", labels, name, err)
				}
				if at[i] = slices.Index(s.Times, t.UnixMicro()); at[i] < 0 {
					return nil, fmt.Errorf("%s: %s has no sample at %s", labels, name, e)
				}
			}
			s.Windows = append(s.Windows, Span{at[0], at[1]})
			for i := at[0]; i <= at[1]; i++ {
				s.Labels[i] = true
			}
		}
		s.Train = Probation(s.Len())
		set = append(set, s)
	}
	return set, nil
}

func readTCPD(files map[string]string, annotations string) ([]Series, error) {
	var changePoints map[string]map[string][]int
	if err := readJSON(annotations, &changePoints); err != nil {
		return nil, err
	}
	var set []Series
	for name, by := range changePoints {
		var path string
		for f, p := range files {
			if strings.HasSuffix("/"+f, "/"+name+".json") {
				path = p
			}
		}
		if path == "" {
			continue
		}
		var file struct {
			N      int `json:"n_obs"`
			Series []struct{ Raw []*float64 }
		}
		if err := readJSON(path, &file); err != nil {
			return nil, err
		}
		s := Series{Name: name, Dim: len(file.Series), Changes: [][]int{}}
		for i := range file.N {
			s.Times = append(s.Times, int64(i)*1e6)
			for _, column := range file.Series {
				v := math.NaN()
				if i < len(column.Raw) && column.Raw[i] != nil {
					v = *column.Raw[i]
				}
				s.Values = append(s.Values, v)
			}
		}
		for _, id := range sortedKeys(by) {
			s.Changes = append(s.Changes, by[id])
		}
		set = append(set, s)
	}
	return set, nil
}

func sortedKeys(m map[string][]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// readRows reads pairs of a training and a test table, one after the other.
func readRows(files map[string]string) ([]Series, error) {
	var set []Series
	for name, path := range files {
		base, ok := strings.CutSuffix(name, "_test.csv")
		if !ok {
			continue
		}
		s := Series{Name: base[strings.LastIndexByte(base, '/')+1:]}
		if train, ok := files[base+"_train.csv"]; ok {
			if err := s.appendRows(train); err != nil {
				return nil, err
			}
			s.Train = s.Len()
		}
		if err := s.appendRows(path); err != nil {
			return nil, err
		}
		set = append(set, s)
	}
	return set, nil
}

func (s *Series) appendRows(path string) error {
	header, rows, err := readCSV(path)
	if err != nil {
		return err
	}
	label := slices.Index(header, "label")
	dim := len(header)
	if label >= 0 {
		dim--
	}
	if s.Dim != 0 && s.Dim != dim {
		return fmt.Errorf("%s: %d values a row, the training part has %d", path, dim, s.Dim)
	}
	s.Dim = dim
	for i, r := range rows {
		s.Times = append(s.Times, int64(len(s.Times))*1e6)
		anomalous := false
		for j, text := range r {
			v, err := number(text)
			if err != nil {
				return fmt.Errorf("%s: row %d: %w", path, i+1, err)
			}
			if j == label {
				anomalous = v != 0
				continue
			}
			s.Values = append(s.Values, v)
		}
		s.Labels = append(s.Labels, anomalous)
	}
	return nil
}
