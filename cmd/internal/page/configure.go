package page

import (
	"log/slog"
	"math"

	"odradek/cmd/internal/config"
	"odradek/detectors/discord"
	"odradek/detectors/threshold"
	"odradek/processor/cycle"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/schemas/registry"
)

// FeedbackTopic returns the feedback topic of a configuration; registry is nil without one.
func FeedbackTopic(c *config.Config, client *kafka.Client, registry *registry.Client) *feedback.Topic {
	t := &feedback.Topic{Client: client, Registry: registry, Name: c.Detect.Feedback, Replication: c.Output.Replication,
		Unframed: c.Output.NoSchemaID()}
	if c.Output.NeedsNoSchemas() {
		t.Registry = nil
	}
	return t
}

// Configure returns what an Explorer of a configuration reads; registry is nil without one.
func Configure(c *config.Config, client *kafka.Client, registry *registry.Client, log *slog.Logger) (*Config, error) {
	topics := c.OutputTopics()
	out := &Config{Client: client, Inputs: map[string]*Input{}, NameOf: c.MappingOf, Anomalies: topics[cycle.Anomalies],
		Shadow: topics[cycle.ShadowAnomalies], Scores: topics[cycle.Scores], Blocks: topics[cycle.Blocks],
		Partial: c.Output.Scores == "anomalous",
		Log:     log}
	if c.Detect.Feedback != config.Off {
		out.Feedback = FeedbackTopic(c, client, registry)
	}
	for i, settings := range c.Mappings() {
		in, err := inputOf(settings, registry)
		if err != nil {
			return nil, err
		}
		if i == 0 { // also where every input topic has a mapping
			out.Input = *in
		}
		if name := settings.MappingName(); name != "" {
			out.Inputs[name] = in
		}
	}
	return out, nil
}

// inputOf returns what is known of the topics that are read by the settings c.
func inputOf(c *config.Config, registry *registry.Client) (*Input, error) {
	dec, err := c.NewDecoder(registry)
	if err != nil {
		return nil, err
	}
	mapping := c.SchemaMapping()
	all, err := mapping.Columns(nil)
	if err != nil {
		return nil, err
	}
	state, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
	out := &Input{Decoder: dec, Series: c.Series(), Fields: mapping.ColumnNames(all),
		Derived: len(c.Mapping.Transform) > 0 || c.Keys.Every > 0}
	for i := range c.Detectors {
		d := &c.Detectors[i]
		columns, err := mapping.Columns(d.Fields)
		if err != nil {
			return nil, err
		}
		fixed := math.NaN()
		if r, err := threshold.Parse(d.Alarm.Threshold); err == nil && r.Kind == threshold.Fixed {
			fixed = r.Value
		}
		in := &state.Detectors[i]
		own := Detector{Name: d.Name, Op: d.Op, Configured: d.Alarm.Threshold, Fields: mapping.ColumnNames(columns), Fixed: fixed,
			Heatmap: d.Op == discord.OpTop.String(), Judged: in.Threshold != nil, Shadow: in.Shadow, Reads: in.Keys}
		if own.Heatmap && in.Detector.Window() > 1 {
			own.Lead = in.Stride - 1
		}
		if g := state.Windows[in.Window].Grid; g != nil {
			own.Grid = &Grid{Columns: g.Columns, Rows: g.Rows, X0: g.Box[0], Y0: g.Box[1], X1: g.Box[2], Y1: g.Box[3],
				X: g.Fields[0], Y: g.Fields[1]}
		}
		out.Detectors = append(out.Detectors, own)
	}
	return out, nil
}
