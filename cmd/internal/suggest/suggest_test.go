package suggest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/processor/kafka"
)

// seen is a record of a topic of one partition, of each second.
type seen struct{ key, value string }

// start is the time of the first record.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// secondOf returns the time of a record.
func secondOf(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }

// walk is a value of the i-th record of a series: it moves slowly about a level of its own.
func walk(series, i int) float64 {
	return math.Round(100*(20*float64(series)+3*math.Sin(float64(i)/9)+math.Sin(float64(i)))) / 100
}

// mappingOf finds what the fields of records mean, and returns what it proposes by key; an alternative has "#" before its key.
func mappingOf(n int, record func(i int) seen, environ ...string) (*suggestion, map[string]settingsfile.Setting, error) {
	records := make([]raw, n)
	for i := range n {
		r := record(i)
		records[i] = raw{offset: int64(i), timestamp: secondOf(i).UnixMilli() + 40, value: []byte(r.value)}
		if r.key != "" {
			records[i].key = []byte(r.key)
		}
		if r.value == "" {
			records[i].value = nil
		}
	}
	c, s, err := mappingOfRecords(records, environ...)
	if c == nil {
		return s, nil, err
	}
	found := map[string]settingsfile.Setting{}
	for _, set := range s.settings {
		key := set.Key
		if set.Off {
			key = "#" + key
		}
		if _, ok := found[key]; !ok {
			found[key] = set
		}
	}
	return s, found, err
}

// mappingOfRecords finds what the fields of records of a partition mean.
func mappingOfRecords(records []raw, environ ...string) (*Config, *suggestion, error) {
	n := int64(len(records))
	sample := &topicSample{topic: "in", ranges: []partitionRange{{kafka.TP{Topic: "in"}, 0, n}}, total: n, whole: true,
		chunks: []chunk{{records: records}}}
	environ = append(environ, "ODRADEK_KAFKA_BROKERS=localhost:9092", "ODRADEK_TOPICS=in", "ODRADEK_GROUP=suggested")
	given, _, _ := config.Parse(environ)
	s := &suggestion{topic: "in", given: map[string]settingsfile.Setting{}, taken: map[string]bool{}}
	for _, set := range given.GivenSettings() {
		if set.Detector == "" {
			s.given[set.Key] = set
		}
	}
	c := &Config{Topic: "in", Environ: environ, Given: given}
	m := &mapping{c: c, s: s, sample: sample}
	format, err := m.detectFormat()
	if err != nil {
		return nil, s, err
	}
	m.settings = append(m.settings, format)
	if m.t, err = m.newTable(context.Background()); err != nil {
		return nil, s, err
	}
	for _, choose := range []func() error{m.chooseReadings, m.chooseTime, m.chooseKey, m.leaveOut, m.chooseValues} {
		if err := choose(); err != nil {
			return nil, s, err
		}
	}
	s.section(recordsSection, m.settings...)
	return c, s, nil
}

// TestMapping: what the fields of records mean, by what stands in them and how it moves.
func TestMapping(t *testing.T) {
	id := func(i int) string { return fmt.Sprintf("press-%02d", i%8) }
	for _, x := range []struct {
		name    string
		record  func(i int) seen
		want    map[string]string // by key; "" of one that must not be there
		comment map[string]string // words of a comment
	}{
		{"of a producer's time and a later one, the one with less disorder and delay", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"measured":%d,"sent":%d,"temp":%v}`, id(i), secondOf(i).UnixMilli(),
				secondOf(i-i%5).Add(-3*time.Minute).UnixMilli(), walk(i%8, i))}
		}, map[string]string{"key_field": "sensor", "time_field": "measured", "time_unit": "ms", "value_fields": "temp", "format": "json"},
			map[string]string{"key_field": "8 distinct keys in 800 records"}},
		{"seconds with a fraction", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"at":%d.25,"temp":%v}`, id(i), secondOf(i).Unix(), walk(i%8, i))}
		}, map[string]string{"time_field": "at", "time_unit": "s"}, nil},
		{"no time of their own", func(i int) seen { return seen{"", fmt.Sprintf(`{"sensor":%q,"temp":%v}`, id(i), walk(i%8, i))} },
			map[string]string{"time_field": "@timestamp", "key_field": "sensor"}, nil},
		{"the record key", func(i int) seen { return seen{id(i), fmt.Sprintf(`{"temp":%v}`, walk(i%8, i))} },
			map[string]string{"key_field": "@key", "value_fields": "temp"}, nil},
		{"a key of two parts: neither tells the series apart", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"hall":"h%d","machine":"m%d","temp":%v}`, i/4%2, i%4, walk(i%8, i/8))}
		}, map[string]string{"key_field": "hall+machine"}, map[string]string{"key_field": "8 distinct keys"}},
		{"a state is no key", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"status":%q,"temp":%v}`, id(i), []string{"RUN", "IDLE"}[i/200%2], walk(i%8, i))}
		}, map[string]string{"key_field": "sensor"}, nil},
		{"a counter of records and a constant are no values", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"sequence":%d,"version":3,"temp":%v}`, id(i), i, walk(i%8, i))}
		}, map[string]string{"value_fields": "temp"}, nil},
		{"readings of a batch, each with its time", func(i int) seen {
			var list []string
			for k := range 4 {
				list = append(list, fmt.Sprintf(`{"t":%d,"v":%v}`, secondOf(8*i+k).UnixMilli(), walk(i%2, 4*i+k)))
			}
			return seen{"", fmt.Sprintf(`{"device":"d%d","readings":[%s]}`, i%2, strings.Join(list, ","))}
		}, map[string]string{"readings_field": "readings", "value_fields": "readings.v", "key_field": "device",
			"time_field": "readings.t"},
			map[string]string{"readings_field": "Each has a time of its own."}},
		{"an array of one length is values of a sample", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"xyz":[%v,%v,%v]}`, id(i), walk(i%8, i), walk(i%8, i+40), walk(i%8, i+80))}
		}, map[string]string{"readings_field": "", "value_fields": "xyz[3]"}, nil},
		{"numbers in quotes", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"temp":"%.2f"}`, id(i), walk(i%8, i))}
		}, map[string]string{"text_values": "number", "value_fields": "temp"}, nil},
		{"a sentinel", func(i int) seen {
			v := walk(i%8, i)
			if i%40 < 8 {
				v = -9999
			}
			return seen{"", fmt.Sprintf(`{"sensor":%q,"temp":%v}`, id(i), v)}
		}, map[string]string{"missing_if": "temp=-9999"}, nil},
		{"a wild reading of one of two series", func(i int) seen {
			v := walk(i%2, i)
			if i == 301 {
				v = 6553.5
			}
			return seen{"", fmt.Sprintf(`{"sensor":"s%d","temp":%v}`, i%2, v)}
		}, map[string]string{"#valid": "temp=-32..52", "missing_if": ""},
			map[string]string{"#valid": "1 of 800 readings of temp (6553.5; the others are from -4 to 24)."}},
		{"wild readings on both sides, and a number for no reading", func(i int) seen {
			v := walk(0, i)
			switch {
			case i == 301, i == 500:
				v = 850
			case i == 600:
				v = -700
			case i%40 == 0:
				v = -9999
			}
			return seen{"", fmt.Sprintf(`{"sensor":"s","temp":%v}`, v)}
		}, map[string]string{"#valid": "temp=-12..12", "missing_if": "temp=-9999"},
			map[string]string{"#valid": "3 of 781 readings of temp (-700 to 850;"}},
		{"a change of level is no wild reading", func(i int) seen {
			v := walk(0, i)
			if i >= 780 {
				v += 5000
			}
			return seen{"", fmt.Sprintf(`{"sensor":"s","temp":%v}`, v)}
		}, map[string]string{"value_fields": "temp", "#valid": ""}, nil},
		{"a series far from the others is not wild", func(i int) seen {
			sensor := i % 2
			if i%160 == 7 {
				sensor = 500
			}
			return seen{"", fmt.Sprintf(`{"sensor":"s%d","temp":%v}`, sensor, walk(sensor, i))}
		}, map[string]string{"value_fields": "temp", "#valid": ""}, nil},
		{"a heavy tail is not wild", func(i int) seen {
			u := (float64(i*311%800) + 0.5) / 800
			return seen{"", fmt.Sprintf(`{"sensor":"s","delay":%.3f}`, math.Pow(u, -1.5))}
		}, map[string]string{"value_fields": "delay", "#valid": ""}, nil},
		{"a value that hardly moves has no range", func(i int) seen {
			v := 20.0
			if i%200 == 77 {
				v = 20.5 + float64(i)
			}
			return seen{"", fmt.Sprintf(`{"sensor":"s","temp":%v}`, v)}
		}, map[string]string{"#valid": ""}, nil},
		{"a counter that only grows becomes a rate", func(i int) seen {
			return seen{"", fmt.Sprintf(`{"sensor":%q,"bytes":%d}`, id(i), 1000*(i%8)+i/8*7+i*i%5)}
		}, map[string]string{"transform": "bytes=rate"}, nil},
		{"metrics of nodes, some of the same name", func(i int) seen {
			node, at := i%2, secondOf(i-i%2).UnixMilli()
			return seen{fmt.Sprint("node", node), fmt.Sprintf(`{"edgeNode":"node%d","metrics":[{"name":"temp%d","at":%d,"value":%v},`+
				`{"name":"flow%d","at":%d,"value":%v},{"name":"Rebirth","at":%d,"value":0}]}`, node, node, at-int64(i%7), walk(node, i/2), node,
				at-int64(i%5), walk(2+node, i/2), at)}
		}, map[string]string{"key_field": "edgeNode+metrics.name"}, map[string]string{"key_field": "Without edgeNode, 17 % of 2,400 readings"}},
		{"of a row before its change and after it, the one with the key of each record", func(i int) seen {
			before := "null"
			if i >= 8 && i%3 == 0 {
				before = fmt.Sprintf(`{"sensor":%q,"temp":%v}`, id(i), walk(i%8, i-8))
			}
			return seen{"", fmt.Sprintf(`{"before":%s,"after":{"sensor":%q,"temp":%v}}`, before, id(i), walk(i%8, i))}
		}, map[string]string{"key_field": "after.sensor", "value_fields": "after.temp", "only_if": ""},
			map[string]string{"value_fields": "before.temp (after has it, too)"}},
		{"many numbers of which some are not there", func(i int) seen {
			var list []string
			for k := range 12 {
				if (i/8+k)%5 > 0 {
					list = append(list, fmt.Sprintf(`"t%d":%v`, k, walk(i%8+k, i)))
				}
			}
			return seen{"", fmt.Sprintf(`{"machine":%q,"metrics":{%s}}`, id(i), strings.Join(list, ","))}
		}, map[string]string{"key_field": "machine", "series_fields": "metrics.*", "value_fields": ""},
			map[string]string{"series_fields": "below metrics"}},
		{"many numbers of which one is null now and then", func(i int) seen {
			var list []string
			for k := range 12 {
				v := fmt.Sprint(walk(i%8+k, i))
				if (i/8*7+k*11)%60 == 0 {
					v = "null"
				}
				list = append(list, fmt.Sprintf(`"t%d":%s`, k, v))
			}
			return seen{"", fmt.Sprintf(`{"machine":%q,"metrics":{%s}}`, id(i), strings.Join(list, ","))}
		}, map[string]string{"series_fields": "metrics.t0,metrics.t1,metrics.t2,metrics.t3,metrics.t4,metrics.t5,metrics.t6,metrics.t7," +
			"metrics.t8,metrics.t9,metrics.t10,metrics.t11"}, nil},
		{"many objects of which some are not there", func(i int) seen {
			var list []string
			for k := range 12 {
				if (i/8+k)%5 > 0 {
					list = append(list, fmt.Sprintf(`"t%d":{"value":%v,"quality":"GOOD","limit":%d,"scale":1,"node":%d}`, k, walk(i%8+k, i), 90+k, k))
				}
			}
			return seen{"", fmt.Sprintf(`{"machine":%q,"metrics":{%s}}`, id(i), strings.Join(list, ","))}
		}, map[string]string{"key_field": "machine", "series_fields": "metrics.*.value", "value_fields": ""},
			map[string]string{"series_fields": "below metrics"}},
		{"events at irregular times", func(i int) seen {
			at := secondOf(0).UnixMilli() + int64(1000*i) + int64(i*i%997)*40
			return seen{"", fmt.Sprintf(`{"at":%d,"sensor":"press-%d","event":"login","code":%d}`, at, i*i%7%3, 1+i%3)}
		}, map[string]string{"compute": "events=1.0", "value_fields": "events", "every": "1m", "aggregate": "count", "empty": "zero"},
			map[string]string{"compute": "a tenth of the pauses is below"}},
		{"many numbers that are always there", func(i int) seen {
			var list []string
			for k := range 12 {
				list = append(list, fmt.Sprintf(`"t%d":%v`, k, walk(i%8+k, i)))
			}
			return seen{"", fmt.Sprintf(`{"machine":%q,"metrics":{%s}}`, id(i), strings.Join(list, ","))}
		}, map[string]string{"series_fields": "metrics.t0,metrics.t1,metrics.t2,metrics.t3,metrics.t4,metrics.t5,metrics.t6,metrics.t7," +
			"metrics.t8,metrics.t9,metrics.t10,metrics.t11"}, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			_, found, err := mappingOf(800, x.record)
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range x.want {
				if got := found[key].Value; got != want {
					t.Errorf("%s: %q, want %q; all of it: %s", key, got, want, settingsOf(found))
				}
			}
			for key, want := range x.comment {
				if !strings.Contains(found[key].Comment, want) {
					t.Errorf("%s: want %q in %q", key, want, found[key].Comment)
				}
			}
		})
	}
}

// settingsOf returns settings for a message.
func settingsOf(found map[string]settingsfile.Setting) string {
	var list []string
	for _, key := range sortedKeys(found) {
		list = append(list, key+"="+found[key].Value)
	}
	return strings.Join(list, " ")
}

// TestMappingSays: what cannot be read, and what is left out, is said with what to do.
func TestMappingSays(t *testing.T) {
	good := func(i int) string { return fmt.Sprintf(`{"sensor":"s%d","temp":%v}`, i%4, walk(i%4, i)) }
	for _, x := range []struct {
		name   string
		record func(i int) seen
		want   string // of the error, or of the head of the file
	}{
		{"tombstones alone", func(int) seen { return seen{"k", ""} }, "have no value (tombstones)"},
		{"some tombstones", func(i int) seen {
			if i%100 == 3 {
				return seen{"k", ""}
			}
			return seen{"k", good(i)}
		}, "4 records of 400 have no value (tombstones)"},
		{"some records that are broken", func(i int) seen {
			if i%100 == 3 {
				return seen{"", good(i)[:12]}
			}
			return seen{"", good(i)}
		}, "such as in/0 at offset 3"},
		{"an id of a schema without a registry", func(i int) seen { return seen{"", "\x00\x00\x00\x00\x07" + "abcdef"} },
			"set ODRADEK_SCHEMA_REGISTRY_URL"},
		{"bytes of no format", func(i int) seen { return seen{"", "\x02\x80\x91"} }, "none of 400 records of topic \"in\" can be read"},
		{"nothing that moves", func(i int) seen { return seen{"", `{"sensor":"a","temp":20}`} }, "ODRADEK_VALUE_FIELDS"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s, _, err := mappingOf(400, x.record)
			said := strings.Join(s.head, " ")
			for _, set := range s.settings {
				said += " " + set.Comment
			}
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, x.want) {
				t.Errorf("want %q in %q", x.want, said)
			}
		})
	}
}

// TestMappingKeepsWhatIsGiven: a setting that is given is kept, also against the records.
func TestMappingKeepsWhatIsGiven(t *testing.T) {
	record := func(i int) seen {
		return seen{"", fmt.Sprintf(`{"sensor":"s%d","line":"l%d","t":%d,"temp":%v,"load":%v}`, i%8, i%2, secondOf(i).UnixMilli(), walk(i%8, i),
			walk(i%8, 3*i))}
	}
	for key, given := range map[string]string{"key_field": "line", "time_field": "@timestamp", "value_fields": "load"} {
		_, found, err := mappingOf(400, record, config.Prefix+strings.ToUpper(key)+"="+given)
		if err != nil || found[key].Value != given {
			t.Errorf("%s=%s: %q, %v", key, given, found[key].Value, err)
		}
	}
}

// TestAtLeast: the least rate that the number of anomalies shows is the exact lower limit of a Poisson distribution (Garwood 1936).
func TestAtLeast(t *testing.T) {
	for opened, want := range map[int]float64{0: 0, 1: 0.0101, 10: 4.130, 20: 11.082} { // at 99 %
		o := outcome{tallies: []tally{{opened: opened, first: opened - opened/2}, {opened: opened, first: opened / 2}}}
		if got := o.atLeast(float64(opened)); math.Abs(got-want) > 0.02 {
			t.Errorf("of %d: %v, want %v", opened, got, want)
		}
	}
}

// TestBisect: of the factors between 1 and the highest the lowest is found that is not above, but for 6 %.
func TestBisect(t *testing.T) {
	for _, least := range []float64{1.01, 1.1, 1.39, 1.4, 2, 2.2} {
		best, tries := math.Inf(1), 0
		if err := bisect(func(factor float64) (above bool, err error) {
			if tries++; factor >= least {
				best = min(best, factor)
			}
			return factor < least, nil
		}); err != nil || tries != raises || best > 1.06*least {
			t.Errorf("for %v: %v after %d tries, %v", least, best, tries, err)
		}
	}
	if after := higher("fixed:10.6", 0, highest) + " " + higher("conformal:0.0003", 1e6, 4./3) + " " + higher("quantile:0.95*1.5", 0, 2) +
		higher("conformal:0.0003", 3000, highest); after != "fixed:25.1 conformal:9.49e-05 quantile:0.95*3" {
		t.Errorf("raised to %s", after)
	}
}

// TestNamesAny: the names of counters are told from others by their last words, else they are listed.
func TestNamesAny(t *testing.T) {
	for _, c := range []struct{ counters, others, want string }{
		{"a_total b_total c_count", "a_bytes b", `l.n.endsWith("_total") || l.n.endsWith("_count")`},
		{"a_total b_total", "c_total", `l.n in ["a_total", "b_total"]`},
		{"requests", "load", `l.n in ["requests"]`},
		{"a_x b_y c_z", "load", `l.n in ["a_x", "b_y", "c_z"]`},
		{strings.Repeat("requests ", mostNames+1), "load", ""},
	} {
		if got := namesAny("l.n", strings.Fields(c.counters), strings.Fields(c.others)); got != c.want {
			t.Errorf("%s beside %s: %s, want %s", c.counters, c.others, got, c.want)
		}
	}
}
