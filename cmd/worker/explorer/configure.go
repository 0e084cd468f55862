package explorer

import (
	"log/slog"
	"math"

	"odradek/cmd/worker/config"
	"odradek/detectors/ops/discords"
	"odradek/detectors/threshold"
	"odradek/processor/feedback"
	"odradek/processor/kafka"
	"odradek/processor/outputs"
	"odradek/processor/web"
	"odradek/schemas/formats"
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
	opts, err := c.DecoderOptions()
	if err != nil {
		return nil, err
	}
	dec, err := formats.NewDecoder(c.RecordMapping(), registry, opts)
	if err != nil {
		return nil, err
	}
	topics, mapping := c.OutputTopics(), c.SchemaMapping()
	all, err := mapping.Columns(nil)
	if err != nil {
		return nil, err
	}
	out := &Config{Client: client, Decoder: dec, Series: c.Series(), Fields: mapping.ColumnNames(all), Anomalies: topics[outputs.Anomalies],
		Scores: topics[outputs.Scores], Blocks: topics[outputs.Blocks], Partial: c.Output.Scores == "anomalous", Log: log}
	if c.Detect.Feedback != config.Off {
		out.Feedback = FeedbackTopic(c, client, registry)
	}
	state, err := c.KeystateConfig()
	if err != nil {
		return nil, err
	}
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
		own := Detector{Name: d.Name, Op: d.Op, Rule: d.Alarm.Threshold, Fields: mapping.ColumnNames(columns), Fixed: fixed,
			Heatmap: d.Op == discords.Op.String()}
		in := &state.Detectors[i]
		if own.Heatmap && in.Detector.Window() > 1 {
			own.Lead = in.Stride - 1
		}
		if g := state.Windows[in.Window].Grid; g != nil {
			own.Grid = &web.Grid{Columns: g.Columns, Rows: g.Rows, X0: g.Box[0], Y0: g.Box[1], X1: g.Box[2], Y1: g.Box[3],
				X: g.Fields[0], Y: g.Fields[1]}
		}
		out.Detectors = append(out.Detectors, own)
	}
	return out, nil
}
