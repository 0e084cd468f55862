package admin

import (
	"cmp"
	"odradek/cmd/internal/config"
	"odradek/processor"
	"odradek/processor/cycle"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/schemas"
	"odradek/schemas/output"
	"odradek/schemas/registry"
)

// ProcessorConfigs returns the configurations of a worker's processors. With ODRADEK_REKEY there are two: the first copies the
// records of the input to an internal topic whose key is the series, and the second scores the records of that topic.
// Otherwise there is one, which scores the input. An error is a fault of the settings.
func ProcessorConfigs(c *config.Config, client *kafka.Client, registry *registry.Client) ([]processor.Config, error) {
	scoring, err := processorConfig(c, client, registry)
	if err != nil || !c.Cycle.Rekey {
		return []processor.Config{scoring}, err
	}
	front := scoring
	front.Topics, front.Group, front.Predecessor = c.Inputs(), c.Groups()[1], scoring.Group
	front.Outputs = cycle.TopicNames{cycle.DeadLetters: scoring.Outputs[cycle.DeadLetters], cycle.Rekeyed: scoring.Outputs[cycle.Rekeyed]}
	front.Changelog = nil
	scoring.Outputs[cycle.Rekeyed] = ""
	scoring.Start = processor.StartEarliest // of the internal topic: nothing that is in it was scored
	return []processor.Config{front, scoring}, nil
}

// processorConfig returns the configuration of the processor that scores, with all topics that a worker writes.
func processorConfig(c *config.Config, client *kafka.Client, registry *registry.Client) (cfg processor.Config, err error) {
	set, err := mappingsOf(c, registry)
	if err != nil {
		return cfg, err
	}
	codec, err := record.ParseCodec(c.Output.Compression)
	if err != nil {
		return cfg, err
	}
	start, err := c.StartAt()
	if err != nil {
		return cfg, err
	}
	cfg = processor.Config{
		Client: client, Group: c.Group.Group, InstanceID: c.Group.InstanceID, Topics: c.Scored(),
		Start: start, Backfill: c.Group.WarmupFrom, OffsetLost: policyOf(c.Group.OffsetLost), StateLost: policyOf(c.Cycle.StateLost),
		ConsumerProtocol: c.Group.Protocol == "consumer",
		Session:          c.Group.SessionTimeout, Rebalance: c.Group.RebalanceTimeout, Heartbeat: c.Heartbeat(),
		Drain:    c.Program.DrainTimeout,
		Mappings: set, Numbered: c.AnyReadings(), StateBytes: int64(c.Keys.Bytes), SchemaGrace: c.Registry.Grace,
		TransactionTimeout: c.Cycle.TransactionTimeout, CommitInterval: c.Cycle.CommitInterval, ReplayLimit: c.Cycle.ReplayLimit,
		Outputs: c.OutputTopics(), Changelog: c.ChangelogTopic, Codec: codec, MaxMessageBytes: int(c.Output.MaxMessage),
		CarryHeaders: c.Output.CarryHeaders,
		Fetch:        c.FetchConfig(),
	}
	if c.Cycle.Guarantee == "at_least_once" {
		cfg.Guarantee = processor.AtLeastOnce
	}
	cfg.ScoreRuns = c.Output.ScoresFormat == "runs"
	if c.Output.Scores == "anomalous" {
		cfg.Scores = cycle.ScoresAnomalous
	}
	return cfg, nil
}

// mappingsOf returns how the records of each input topic become samples.
func mappingsOf(c *config.Config, registry *registry.Client) (set processor.MappingSet, err error) {
	set.ByName, set.NameOf = map[string]*processor.Mapping{}, c.MappingOf
	for i, settings := range c.Mappings() {
		dec, err := settings.NewDecoder(registry)
		if err != nil {
			return set, err
		}
		state, err := settings.KeystateConfig()
		if err != nil {
			return set, err
		}
		m := processor.Mapping{Name: settings.MappingName(), State: state, Decoder: dec, Former: settings.Former(registry),
			Settings: settings.StateSettings(state), TimeUnit: settings.Mapping.TimeUnit, IdleAfter: settings.Keys.IdleAfter,
			StopAbove: settings.StopAbove()}
		if i == 0 { // also where every input topic has a mapping
			set.Mapping = m
		}
		if m.Name != "" {
			set.ByName[m.Name] = &m
		}
	}
	return set, nil
}

// OutputSchema is one of the worker's schemas with the topic that has it.
type OutputSchema struct {
	Output  cycle.Output
	What    string // what the topic holds
	Topic   string
	Setting string // that names the topic, less ODRADEK_
	Schema  string
	Subject string // in the registry
}

// OutputSchemas lists the schemas of the topics that the worker writes in Avro.
func OutputSchemas(c *config.Config) (list []OutputSchema) {
	if c.Output.NeedsNoSchemas() {
		return nil
	}
	for i, name := range c.OutputTopics() {
		if spec := &cycle.Outputs[i]; name != "" && spec.Schema != "" {
			schema := spec.Schema
			if c.AnyReadings() {
				schema = cmp.Or(spec.Numbered, schema)
			}
			out := OutputSchema{cycle.Output(i), spec.Holds, name, spec.Setting, schema, schemas.Subject(name)}
			if out.Output == cycle.Scores && c.Output.ScoresFormat == "runs" {
				out.Schema, out.Subject = output.ScoreRunSchema, schemas.RecordSubject(name, output.ScoreRunName)
			}
			list = append(list, out)
		}
	}
	return list
}

func policyOf(s string) processor.OnLoss {
	switch s {
	case "earliest":
		return processor.Earliest
	case "latest":
		return processor.Latest
	case "reset":
		return processor.Reset
	}
	return processor.FailOnLoss
}
