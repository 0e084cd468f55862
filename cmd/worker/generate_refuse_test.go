package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestGenerateNeeds: without a topic, or without a rate or a number of records, nothing is written, and every flag that is
// missing is named.
func TestGenerateNeeds(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"-topic is needed", "-rate or -records is needed"}},
		{"-topic sensors", []string{"-rate or -records is needed"}},
		{"-topic sensors -duration 10m", []string{"-rate or -records is needed"}},
		{"-rate 10", []string{"-topic is needed"}},
		{"-records 10", []string{"-topic is needed"}},
	} {
		term, _, errs := console("ODRADEK_KAFKA_BROKERS=127.0.0.1:1")
		code := term.generate(t.Context(), strings.Fields(c.args))
		for _, want := range c.want {
			if code != exitUsage || !strings.Contains(errs.String(), want) {
				t.Errorf("generate %s: exit %d, %s; want %q", c.args, code, errs, want)
			}
		}
	}
}

// TestGenerateRefusesOthers: a topic with records of others is left alone, be it for records or for labels, unless -force is
// given. What generate has written itself, in any format, is no obstacle.
func TestGenerateRefusesOthers(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	generate := func(args string) (int, string) {
		term, _, errs := console("ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","))
		code := term.generate(t.Context(), strings.Fields(args+" -partitions 3 -replication 1 -records 500"))
		return code, errs.String()
	}
	count := func(topic string) int {
		recs, err := c.Admin().ReadAll(t.Context(), topic, true)
		must(t, err)
		return len(recs)
	}
	for i, stream := range []string{"", "-format json", "-format protobuf", "-stream machines", "-stream regions"} {
		topic := kafkatest.Unique("own")
		for range 2 {
			if code, errs := generate(stream + " -topic " + topic + " -fault-every 100 -labels-topic " + topic + "-labels"); code != exitOK {
				t.Errorf("%d, %s: exit %d, %s", i, stream, code, errs)
			}
		}
		if n := count(topic); n != 1000 {
			t.Errorf("%s: %d records of two runs", stream, n)
		}
	}
	for _, other := range []kafkatest.Record{
		{Key: []byte("pump-7"), Value: []byte(`{"pump":"pump-7","value":1}`)}, {Value: []byte("x")},
		{Key: []byte("sensor-00001"), Value: []byte("x")},
		{Key: []byte("sensor-00001")},
	} {
		other.Topic = c.Topic(t, "others", 3)
		if _, err := c.ProduceAcked(t.Context(), []kafkatest.Record{other}); err != nil {
			t.Fatal(err)
		}
		own := kafkatest.Unique("own")
		for _, args := range []string{"-topic " + other.Topic, "-topic " + own + " -labels-topic " + other.Topic} {
			code, errs := generate(args)
			if code == exitOK || !strings.Contains(errs, "others write to topic "+other.Topic) || !strings.Contains(errs, "-force") ||
				count(other.Topic) != 1 {
				t.Errorf("%s among the record %s %q: exit %d, %d records, %s", args, other.Key, other.Value, code, count(other.Topic), errs)
			}
		}
		if code, errs := generate("-force -topic " + other.Topic); code != exitOK || count(other.Topic) != 501 {
			t.Errorf("-force: exit %d, %d records, %s", code, count(other.Topic), errs)
		}
	}
}

// signalWriter is a writer that calls found once, when a text was written.
type signalWriter struct {
	bytes.Buffer
	text  string
	found func()
}

func (s *signalWriter) Write(p []byte) (int, error) {
	if s.found != nil && bytes.Contains(p, []byte(s.text)) {
		s.found()
		s.found = nil
	}
	return s.Buffer.Write(p)
}

// TestGenerateWaitsForBrokers: brokers that are not up yet are asked again, and event time begins when they are.
func TestGenerateWaitsForBrokers(t *testing.T) {
	c := kafkatest.Open(t, kafkatest.KindFake)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer front.Close()
	var up atomic.Bool
	go func() {
		for {
			conn, err := front.Accept()
			if err != nil {
				return
			}
			if !up.Load() {
				conn.Close()
				continue
			}
			back, err := net.Dial("tcp", c.Brokers[0])
			if err != nil {
				conn.Close()
				continue
			}
			go func() { io.Copy(back, conn); back.Close() }()
			go func() { io.Copy(conn, back); conn.Close() }()
		}
	}()
	topic := kafkatest.Unique("waits")
	var upAt time.Time
	errs := &signalWriter{text: "trying again", found: func() {
		time.Sleep(20 * time.Millisecond)
		upAt = time.Now()
		up.Store(true)
	}}
	term := terminal{io.Discard, errs, []string{"ODRADEK_KAFKA_BROKERS=" + front.Addr().String()}}
	if code := term.generate(t.Context(), strings.Fields("-replication 1 -rate 10000 -records 500 -topic "+topic)); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	recs, err := c.Admin().ReadAll(t.Context(), topic, true)
	if err != nil || len(recs) != 500 || !up.Load() {
		t.Fatalf("%d records, %v; %s", len(recs), err, errs)
	}
	var first struct{ Time int64 } // ms
	must(t, json.Unmarshal(recs[0].Value, &first))
	if earliest := time.UnixMilli(first.Time + 1); earliest.Before(upAt) {
		t.Errorf("event time begins at %v, the brokers answered at %v", earliest, upAt)
	}
	// An interrupt ends the wait.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up.Store(false)
	errs = &signalWriter{text: "trying again", found: cancel}
	term.err = errs
	if code := term.generate(ctx, strings.Fields("-records 500 -topic "+topic)); code != exitOK {
		t.Errorf("interrupted: exit %d: %s", code, errs)
	}
}
