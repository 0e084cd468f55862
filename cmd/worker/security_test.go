package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
	"odradek/processor/kafkatest"
)

// TestSecurity: the worker over SASL_SSL with each mechanism and over mutual TLS,
// exactly once as in the plain; wrong credentials end the start with the setting
// that is wrong.
func TestSecurity(t *testing.T) {
	eachOf(t, kafkatest.Kinds[1:], kafkatest.Kinds[1:2], parallel(func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 2)
		m := newMeasurements(t, c.RegistryURL(t), input)
		if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 5, 500)); err != nil {
			t.Fatal(err)
		}
		s := c.Security
		sasl := strings.Join(s.SASLBrokers, ",")
		for _, mech := range kafkatest.Mechanisms {
			u := s.User(mech)
			secret := t.TempDir() + "/password"
			if err := os.WriteFile(secret, []byte(u.Password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			f := newFleet(t, c, input, input+"-"+mech, "KAFKA_BROKERS="+sasl, "KAFKA_TLS=true", "KAFKA_TLS_CA_FILE="+s.CAFile,
				"KAFKA_SASL_MECHANISM="+mech, "KAFKA_USERNAME="+u.Name)
			w := f.start("good", "KAFKA_PASSWORD_FILE="+secret)
			w.waitReady(t)
			f.waitDone()
			if code := w.drain(t); code != exitOK {
				t.Errorf("%s: drain ended with %d", mech, code)
			}
			if got, doubled := f.scores(); len(got) == 0 || len(doubled) > 0 {
				t.Errorf("%s: %d scores, %d doubled", mech, len(got), len(doubled))
			}
			w = f.start("bad", "KAFKA_PASSWORD=wrong")
			if code := w.exit(t); code != exitFailed || !w.logged("ODRADEK_KAFKA_PASSWORD") && !w.logged("ODRADEK_KAFKA_USERNAME") {
				b, _ := os.ReadFile(w.log)
				t.Errorf("%s: a wrong password ended with %d and:\n%s", mech, code, b)
			}
		}
		mutual := []string{"KAFKA_BROKERS=" + strings.Join(s.TLSBrokers, ","), "KAFKA_TLS=true", "KAFKA_TLS_CA_FILE=" + s.CAFile}
		f := newFleet(t, c, input, input+"-mtls", mutual...)
		w := f.start("mtls", "KAFKA_TLS_CERT_FILE="+s.CertFile, "KAFKA_TLS_KEY_FILE="+s.KeyFile)
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		if got, _ := f.scores(); len(got) == 0 {
			t.Error("mutual TLS: no scores")
		}
		// A certificate that nobody trusts, and none where one is asked for.
		w = f.start("untrusting", "KAFKA_TLS_CA_FILE="+s.CertFile, "KAFKA_TLS_CERT_FILE="+s.CertFile, "KAFKA_TLS_KEY_FILE="+s.KeyFile)
		if code := w.exit(t); code != exitFailed || !w.logged("ODRADEK_KAFKA_TLS") {
			b, _ := os.ReadFile(w.log)
			t.Errorf("an unknown authority ended with %d and:\n%s", code, b)
		}
	}))
}

// TestStartFaults: what is missing at the start is named by its setting; what may
// come later is waited for.
func TestStartFaults(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	rng := seedtest.New(t)
	input := c.Topic(t, "in", 2)
	m := newMeasurements(t, c.RegistryURL(t), input)
	if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 5, 200)); err != nil {
		t.Fatal(err)
	}
	t.Run("configuration", func(t *testing.T) {
		f := newFleet(t, c, input, input+"-a")
		w := f.start("w", "LATENESS=soon", "DETECTORS=x", "DETECTOR_X_OP=magic", "STRAT=latest") //nolint:misspell // the fault that is looked for
		if code := w.exit(t); code != exitUsage {
			t.Errorf("exit code %d, want %d", code, exitUsage)
		}
		for _, name := range []string{"ODRADEK_LATENESS", "ODRADEK_DETECTOR_X_OP", "ODRADEK_START"} {
			if !w.logged(name) {
				t.Errorf("the faults do not name %s", name)
			}
		}
	})
	t.Run("registry down", func(t *testing.T) {
		c.RegistryServer.Stop()
		f := newFleet(t, c, input, input+"-b")
		w := f.start("w")
		deadline := time.Now().Add(20 * time.Second)
		for !w.logged("ODRADEK_SCHEMA_REGISTRY_URL") && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if !w.logged("ODRADEK_SCHEMA_REGISTRY_URL") {
			t.Error("the log does not name ODRADEK_SCHEMA_REGISTRY_URL")
		}
		if err := c.RegistryServer.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
	})
	t.Run("missing topic", func(t *testing.T) {
		f := newFleet(t, c, input+"-not-there", input+"-c")
		w := f.start("w")
		deadline := time.Now().Add(20 * time.Second)
		for !w.logged("ODRADEK_TOPICS") && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if !w.logged("ODRADEK_TOPICS") {
			t.Error("the log does not name ODRADEK_TOPICS")
		}
	})
	t.Run("brokers down", func(t *testing.T) {
		f := newFleet(t, c, input, input+"-d")
		w := f.start("w", "KAFKA_BROKERS="+freeAddr(t))
		deadline := time.Now().Add(20 * time.Second)
		for !w.logged("ODRADEK_KAFKA_BROKERS") && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		if !w.logged("ODRADEK_KAFKA_BROKERS") {
			t.Error("the log does not name ODRADEK_KAFKA_BROKERS")
		}
	})
}

// TestOffsetsLost: retention deletes what was not read: the policy decides, never
// a silent skip.
func TestOffsetsLost(t *testing.T) {
	realCluster(t, func(t *testing.T, c *kafkatest.Cluster) {
		rng := seedtest.New(t)
		input := c.Topic(t, "in", 1)
		m := newMeasurements(t, c.RegistryURL(t), input)
		ctx := context.Background()
		produce := func() {
			if _, err := c.ProduceAcked(ctx, walk(t, m, input, rng, 5, 500)); err != nil {
				t.Fatal(err)
			}
		}
		produce()
		f := newFleet(t, c, input, input+"-g", "INSTANCE_ID=one", "REPLAY_LIMIT=100ms")
		w := f.start("first")
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		produce()
		if err := c.Admin().DeleteRecords(ctx, input, 0, 800); err != nil {
			t.Fatal(err)
		}
		w = f.start("refuses")
		if code := w.exit(t); code != exitRefused || !w.logged("ODRADEK_OFFSET_LOST") {
			b, _ := os.ReadFile(w.log)
			t.Errorf("exit code %d, want %d and a word of ODRADEK_OFFSET_LOST:\n%s", code, exitRefused, b)
		}
		w = f.start("earliest", "OFFSET_LOST=earliest")
		w.waitReady(t)
		f.waitDone()
		if _, scrape := w.get("/metrics"); !strings.Contains(scrape, "odradek_lost_offsets_total") || !w.logged("offset lost") {
			t.Error("the gap is not told")
		}
		w.kill()
		produce()
		w = f.start("again") // what was emptied is a state like any other
		w.waitReady(t)
		f.waitDone()
		w.drain(t)
		if _, doubled := f.scores(); len(doubled) > 0 {
			t.Errorf("%d scores doubled", len(doubled))
		}
	})
}
