package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"odradek/processor/kafkatest"
)

// TestEqualReadings: suggest and check name a detector by densities, lof, of whose window more readings are equal than it has
// neighbours.
func TestEqualReadings(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{Brokers: 1})
	topic := c.Topic(t, "rounded", 1)
	rng := rand.New(rand.NewPCG(37, 6))
	_, err := c.ProduceAcked(t.Context(), lines(topic, 3000, func(i int) (string, string) {
		return "m", fmt.Sprintf(`{"machine":"m","temp":%.1f}`, math.Round(10*(20+0.2*rng.NormFloat64()))/10)
	}))
	must(t, err)
	environ := []string{"ODRADEK_FORMAT=json", "ODRADEK_KEY_FIELD=machine", "ODRADEK_VALUE_FIELDS=temp", "ODRADEK_DETECTORS=d",
		"ODRADEK_DETECTOR_D_OP=lof", "ODRADEK_DETECTOR_D_WINDOW=256"}
	const want = "of a window of 256 are, more than K=20"
	if _, text := suggestedFor(t, c, topic, environ...); !strings.Contains(
		strings.Join(strings.Fields(strings.ReplaceAll(text, "#", "")), " "),
		want,
	) {
		t.Errorf("the suggestion lacks %q:\n%s", want, text)
	}
	check := append(
		[]string{"ODRADEK_KAFKA_BROKERS=" + strings.Join(c.Brokers, ","), "ODRADEK_GROUP=equal", "ODRADEK_TOPICS=" + topic},
		environ...)
	if _, out := runCheck(t, check); !strings.Contains(out, "detector d") || !strings.Contains(out, want) {
		t.Errorf("check lacks %q:\n%s", want, out)
	}
	if _, out := runCheck(t, append(check, "ODRADEK_DETECTOR_D_OP=knn")); strings.Contains(out, "are equal") {
		t.Errorf("check of another op:\n%s", out)
	}
}
