package admin

import (
	"testing"

	"odradek/cmd/internal/config"
	"odradek/processor/cycle"
	"odradek/schemas/output"
)

// TestScoresFormat: runs of scores have a schema and a subject of their own, so that a topic which has single scores may go on with runs;
// in JSON there is no schema to register.
func TestScoresFormat(t *testing.T) {
	for _, c := range []struct {
		settings        []string
		runs            bool
		subject, schema string
	}{
		{nil, false, "g-scores-value", output.ScoreSchema},
		{[]string{"ODRADEK_SCORES_FORMAT=records"}, false, "g-scores-value", output.ScoreSchema},
		{[]string{"ODRADEK_SCORES_FORMAT=runs"}, true, "g-scores-io.odradek.ScoreRun", output.ScoreRunSchema},
		{[]string{"ODRADEK_SCORES_FORMAT=runs", "ODRADEK_READINGS_FIELD=r",
			"ODRADEK_VALUE_FIELDS=r.v"}, true, "g-scores-io.odradek.ScoreRun", output.ScoreRunSchema},
		{[]string{"ODRADEK_SCORES_FORMAT=runs", "ODRADEK_OUTPUT_FORMAT=json"}, true, "", ""},
	} {
		cfg, faults, _ := config.Parse(append([]string{"ODRADEK_GROUP=g", "ODRADEK_TOPICS=in", "ODRADEK_FORMAT=json",
			"ODRADEK_OUTPUT_FORMAT=avro"}, c.settings...))
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		var subject, schema string
		for _, out := range OutputSchemas(cfg) {
			if out.Output == cycle.Scores {
				subject, schema = out.Subject, out.Schema
			} else if want := out.Topic + "-value"; out.Subject != want {
				t.Errorf("%v: subject %s, want %s", c.settings, out.Subject, want)
			}
		}
		if subject != c.subject || schema != c.schema {
			t.Errorf("%v: subject %q of\n%s", c.settings, subject, schema)
		}
		set, err := processorConfig(cfg, nil, nil)
		if err != nil || set.ScoreRuns != c.runs {
			t.Errorf("%v: runs %v, %v", c.settings, set.ScoreRuns, err)
		}
	}
}
