package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"odradek/processor/brokertest"
)

// TestSVDSSTUnderKills: the scores of svdsst are those of an undisturbed run,
// record for record, where one of two workers is killed and started again and the
// other leaves.
func TestSVDSSTUnderKills(t *testing.T) {
	eachCluster(t, func(t *testing.T, c *brokertest.Cluster) {
		env := []string{"DETECTOR_CHANGE_OP=svdsst", "DETECTOR_CHANGE_RANK=2"}
		rng := newRand(t)
		input := c.Topic(t, "in", 4)
		m := newMeasurements(t, c.RegistryURL(t), input)
		f := newFleet(t, c, input, input+"-g", env...)
		produce := func(n int) {
			if _, err := c.ProduceAcked(context.Background(), walk(t, m, input, rng, 20, n)); err != nil {
				t.Fatal(err)
			}
		}
		produce(1500)
		leaver := f.start("leaver")
		leaver.waitReady(t)
		victim := f.start("victim-0", "INSTANCE_ID=victim")
		for i := range 3 {
			produce(500)
			time.Sleep(time.Duration(rng.IntN(400)) * time.Millisecond)
			victim.kill()
			victim = f.start(fmt.Sprintf("victim-%d", i+1), "INSTANCE_ID=victim")
			victim.waitReady(t)
		}
		if code := leaver.drain(t); code != exitOK {
			t.Errorf("the leaving worker ended with %d", code)
		}
		produce(500)
		f.waitDone(2 * time.Minute)
		got, doubled := f.scores()
		if len(doubled) > 0 {
			t.Errorf("%d scores doubled, such as %v", len(doubled), doubled[0])
		}
		compare(t, "killed", undisturbed(t, c, input, env...), got)
		t.Logf("%d scores", len(got))
	})
}
