package main

import (
	"context"
	"slices"
	"testing"

	"odradek/cmd/internal/config"
	"odradek/processor/kafkatest"
)

// TestChangelogKept: a group continues with its changelog under the name that an
// earlier version gave it, by its offsets or by the owner record, and leaves one of
// another group under that name alone.
func TestChangelogKept(t *testing.T) {
	c := kafkatest.Fake(t, kafkatest.FakeOptions{})
	topic, environ := stateFixture(t, c)
	group := topic + "-g"
	before, now := config.ChangelogName(group, topic), config.ChangelogName(group+"-", topic)
	exists := func(name string) bool {
		recs, err := c.Admin().ReadAll(context.Background(), name, true)
		return err == nil && len(recs) > 0
	}
	runUntil(t, c, append(slices.Clone(environ), "ODRADEK_CHANGELOG_PREFIX="+group), topic, nil)
	runUntil(t, c, environ, topic, nil)
	if !exists(before) || exists(now) {
		t.Fatalf("the group does not go on with %s", before)
	}
	if lines, _ := stateLines(t, environ); len(lines) != 4 || lines[0].Owner != group || lines[0].Series == 0 {
		t.Errorf("state list: %+v", lines)
	}
	// The offsets are gone, as after offsets.retention.minutes.
	offs, err := c.Admin().Offsets(context.Background(), group, true)
	if err != nil {
		t.Fatal(err)
	}
	for tp, o := range offs {
		o.Metadata = ""
		offs[tp] = o
	}
	if err := c.Admin().SetOffsets(context.Background(), group, offs); err != nil {
		t.Fatal(err)
	}
	if lines, _ := stateLines(t, environ); len(lines) != 4 || lines[0].Owner != group {
		t.Errorf("state list by the owner record: %+v", lines)
	}

	// Another group whose name and topic join to the same.
	own := append(slices.Clone(environ), "ODRADEK_GROUP="+group+"-2", "ODRADEK_TOPICS="+topic)
	squatter := config.ChangelogName(group+"-2", topic)
	if err := c.Admin().CreateTopic(context.Background(), squatter, 4, 1, map[string]string{"cleanup.policy": "compact"}); err != nil {
		t.Fatal(err)
	}
	foreign := []byte(`{"version":1,"group":"` + group + `","topic":"2-` + topic + `","incarnation":"x"}`)
	if _, err := c.ProduceAcked(context.Background(), []kafkatest.Record{{Topic: squatter, Key: []byte("O"), Value: foreign}}); err != nil {
		t.Fatal(err)
	}
	runUntil(t, c, own, topic, nil)
	if recs, err := c.Admin().ReadAll(context.Background(), squatter, true); err != nil || len(recs) != 1 ||
		!exists(config.ChangelogName(group+"-2-", topic)) {
		t.Errorf("the other group's changelog has %d records (%v)", len(recs), err)
	}
}
